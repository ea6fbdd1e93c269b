"""Where the hosts of a job meet: a port for the job and a loopback address for each host.

In SageMaker every job has a network of its own, in which `algo-1` resolves and any port is free. Here all jobs share
the machine. Loopback addresses alone do not separate them: PyTorch's TCPStore listens on every interface, so two jobs
on its usual port would meet. The plane therefore sets MASTER_PORT, a variable that PyTorch's launchers read.
"""

from __future__ import annotations

import secrets
import socket
import threading

_PORTS = range(20000, 30000)
"""Below the ports that Linux and macOS give to outgoing connections (32768 and 49152 up)."""


class AddressError(Exception):
    """No free port is left, or this machine has one loopback address only."""


class Addresses:
    """Hands out ports that no other job of this plane holds and that nothing on the machine listens on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[int] = set()

    def take(self) -> int:
        """Raises AddressError."""
        with self._lock:
            # At random: another emulator on this machine may look at the same time.
            start = secrets.randbelow(len(_PORTS))
            for offset in range(len(_PORTS)):
                port = _PORTS[(start + offset) % len(_PORTS)]
                if port not in self._held and _is_free(port):
                    self._held.add(port)
                    return port
        raise AddressError("no port from 20000 to 29999 is free on this machine")

    def release(self, port: int) -> None:
        with self._lock:
            self._held.discard(port)


def host_addresses(port: int, count: int) -> list[str]:
    """One address a host, unique to the job that holds the port; in the order of the hosts' numbers.

    Linux owns all of 127/8. macOS has 127.0.0.1 alone, which is enough for one host. Raises AddressError.
    """
    if count > 254:
        raise AddressError(f"{count} hosts: the sandbox has addresses for 254 a job")
    addresses = [f"127.{port >> 8}.{port & 255}.{number}" for number in range(1, count + 1)]
    if _is_own(addresses[0]):
        return addresses
    if count == 1:
        return ["127.0.0.1"]
    raise AddressError("this machine has one loopback address only, so a job can have one host only here")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # a probe: it never listens
        except OSError:
            return False
    return True


def _is_own(address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
