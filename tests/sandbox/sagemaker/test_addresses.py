from __future__ import annotations

import socket
import subprocess
import sys
import textwrap

import pytest

from sandbox.sagemaker.addresses import AddressError, Addresses, host_addresses


def test_two_jobs_get_different_ports_and_different_addresses() -> None:
    addresses = Addresses()
    first, second = addresses.take(), addresses.take()
    assert first != second
    assert not set(host_addresses(first, 3)) & set(host_addresses(second, 3))


def test_a_port_that_somebody_listens_on_is_not_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        monkeypatch.setattr("sandbox.sagemaker.addresses._PORTS", range(taken, taken + 1))
        with pytest.raises(AddressError, match="no port"):
            Addresses().take()


def test_a_released_port_is_given_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = Addresses()
    port = addresses.take()
    monkeypatch.setattr("sandbox.sagemaker.addresses._PORTS", range(port, port + 1))
    with pytest.raises(AddressError):
        addresses.take()
    addresses.release(port)
    assert addresses.take() == port


def test_addresses_are_numbered_like_the_hosts_and_sort_like_their_names() -> None:
    addresses = host_addresses(28218, 12)
    by_text = sorted(range(1, 13), key=lambda number: addresses[number - 1])
    assert by_text == sorted(range(1, 13), key=lambda number: f"algo-{number}")


def test_a_host_address_can_be_listened_on_and_reached_by_its_name() -> None:
    """What PyTorch's rendezvous does with the names in resourceconfig.json."""
    address, other = host_addresses(Addresses().take(), 2)
    script = textwrap.dedent(
        f"""
        import socket
        with socket.create_server(({address!r}, 0)) as server:
            with socket.create_connection(({address!r}, server.getsockname()[1]), source_address=({other!r}, 0)):
                print(server.accept()[1][0])
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=20)
    assert done.stdout.strip() == other
