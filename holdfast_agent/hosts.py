"""The hosts of this job and what this one has, from SageMaker's resourceconfig.json and the machine."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable


class ConfigurationError(ValueError):
    """A configuration file of the container that cannot be used, in words."""


@dataclass(frozen=True)
class Cluster:
    """`hosts` are sorted as text, so algo-10 comes before algo-2; the first is the leader, whatever its name."""

    hosts: tuple[str, ...]
    current: str
    interface: str = ""

    @property
    def leader(self) -> str:
        return self.hosts[0]

    @property
    def rank(self) -> int:
        return self.hosts.index(self.current)

    @property
    def is_leader(self) -> bool:
        return self.current == self.leader


def read_cluster(path: Path) -> Cluster:
    """Reads resourceconfig.json. Raises ConfigurationError."""
    document = _object(path)
    hosts, current, interface = (
        document.get("hosts"),
        document.get("current_host"),
        document.get("network_interface_name"),
    )
    if not isinstance(hosts, list) or not hosts or not all(isinstance(host, str) and host for host in hosts):
        raise ConfigurationError(f"{path}: 'hosts' must be a list of host names")
    if not isinstance(current, str) or current not in hosts:
        raise ConfigurationError(f"{path}: 'current_host' {current!r} is not one of 'hosts'")
    return Cluster(tuple(sorted(hosts)), current, interface if isinstance(interface, str) else "")


def read_hyperparameters(path: Path) -> dict[str, str]:
    """Reads hyperparameters.json, whose values SageMaker writes as text. Raises ConfigurationError."""
    if not path.exists():
        return {}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in _object(path).items()}


def _object(path: Path) -> dict[str, object]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path} is not a JSON object")
    return document


def count_gpus(driver_folder: Path = Path("/proc/driver/nvidia/gpus")) -> int:
    """NVIDIA GPUs that this container sees; 0 where there is no driver."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=True).stdout
        return sum(1 for line in listed.splitlines() if line.startswith("GPU "))
    except (OSError, subprocess.SubprocessError):
        return len(list(driver_folder.iterdir())) if driver_folder.is_dir() else 0


def await_name(
    host: str,
    patience_seconds: float,
    *,
    resolve: Callable[[str], object] = socket.gethostbyname,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    give_up: Callable[[], bool] = lambda: False,
) -> bool:
    """Waits until the host's name resolves; False when the time is over or `give_up` says so.

    SageMaker starts containers before all of their names are known, and torchrun's answer to an unknown name is a page
    of socket warnings.
    """
    deadline = clock() + patience_seconds
    while True:
        try:
            resolve(host)
            return True
        except OSError:
            if clock() >= deadline or give_up():
                return False
            pause(1.0)
