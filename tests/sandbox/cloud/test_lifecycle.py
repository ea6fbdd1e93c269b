"""Nothing of a cloud stays behind, whatever ends the one that started it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest

from sandbox.cloud.lifecycle import CloudError, running_cloud
from tests.sandbox.cloud.hold_cloud import PROBE
from tests.sandbox.cloud.processes import heed_ctrl_c, of_cloud, wait_until

REPOSITORY = Path(__file__).resolve().parents[3]
LITTER = "tests.sandbox.cloud.litter_plane"


@dataclass(frozen=True)
class Held:
    """A process that holds a cloud with a busy function and a guarded child in it."""

    process: subprocess.Popen[str]
    state_dir: Path
    emulator: int
    child: int

    def alive(self) -> list[str]:
        return of_cloud(self.state_dir, self.emulator, self.child)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    command = [sys.executable, "-m", "tests.sandbox.cloud.hold_cloud", str(tmp_path)]
    process = subprocess.Popen(
        command,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=heed_ctrl_c,  # noqa: PLW1509 - no threads of ours live yet, and it only sets a signal
    )
    assert process.stdout is not None
    pids = json.loads(process.stdout.readline())
    found = Held(process, tmp_path, pids["emulator"], pids["child"])
    # Emulator, warden, busy function, guarded child: all there before anything is killed.
    assert wait_until(lambda: len(found.alive()) == 4, within_seconds=10), found.alive()
    yield found
    process.kill()
    process.wait()
    process.stdout.close()
    if found.alive():
        os.killpg(found.emulator, signal.SIGKILL)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_runs_on_when_the_one_who_started_it_is_ended(held: Held, end: signal.Signals) -> None:
    held.process.send_signal(end)
    assert wait_until(lambda: not held.alive(), within_seconds=20), held.alive()


def test_nothing_runs_on_when_the_emulator_itself_is_killed(held: Held) -> None:
    os.kill(held.emulator, signal.SIGKILL)
    assert wait_until(lambda: not held.alive(), within_seconds=10), held.alive()


def test_an_orderly_end_runs_the_shutdown_callbacks(held: Held) -> None:
    held.process.send_signal(signal.SIGKILL)
    assert wait_until((held.state_dir / "shut-down").exists, within_seconds=20)


def test_nothing_runs_on_after_the_block(tmp_path: Path) -> None:
    with running_cloud(tmp_path, planes=()) as cloud:
        assert len(of_cloud(tmp_path, cloud.pid)) == 2
    assert wait_until(lambda: not of_cloud(tmp_path, cloud.pid), within_seconds=5), of_cloud(tmp_path, cloud.pid)


def test_nothing_runs_on_after_an_error_in_the_block(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="mine"), running_cloud(tmp_path, planes=()) as cloud:
        raise RuntimeError("mine")
    assert wait_until(lambda: not of_cloud(tmp_path, cloud.pid), within_seconds=5)


@pytest.mark.parametrize("presses", [1, 2])
def test_a_second_ctrl_c_skips_the_orderly_end_wherever_it_comes(tmp_path: Path, presses: int) -> None:
    def press(times: int) -> None:
        """As in life: the later ones come while the earlier ones are being tidied up after."""
        try:
            raise KeyboardInterrupt
        finally:
            if times > 1:
                press(times - 1)

    with pytest.raises(KeyboardInterrupt), running_cloud(tmp_path, planes=[PROBE]) as cloud:
        press(presses)
    assert wait_until(lambda: not of_cloud(tmp_path, cloud.pid), within_seconds=5)
    assert (tmp_path / "shut-down").exists() == (presses == 1)  # what an orderly end does


@pytest.mark.parametrize("name", ["cloud", "with a blank", "long" * 20])
@pytest.mark.parametrize("killed", [False, True], ids=["in order", "by SIGKILL"])
def test_no_temporary_file_stays_behind(tmp_path: Path, name: str, killed: bool) -> None:
    with running_cloud(tmp_path / name, planes=[LITTER]) as cloud:
        litter = Path((tmp_path / name / "litter").read_text())
        assert litter.exists()
        assert len(str(litter)) <= 60  # a Unix socket's path has 107 bytes, and its name comes on top
        if killed:
            os.kill(cloud.pid, signal.SIGKILL)
    assert wait_until(lambda: not litter.parent.exists(), within_seconds=10)


def test_two_clouds_side_by_side_know_nothing_of_each_other(tmp_path: Path) -> None:
    with running_cloud(tmp_path / "a", planes=()) as one, running_cloud(tmp_path / "b", planes=()) as other:
        assert one.endpoint_url != other.endpoint_url
        boto3.client("s3", **one.client_arguments()).create_bucket(Bucket="same-name")
        assert boto3.client("s3", **other.client_arguments()).list_buckets()["Buckets"] == []


def test_a_state_folder_serves_one_emulator_at_a_time(tmp_path: Path) -> None:
    with running_cloud(tmp_path, planes=()), pytest.raises(CloudError, match="belongs to an emulator that is running"):
        running_cloud(tmp_path, planes=()).__enter__()


def test_a_failed_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(CloudError, match="no_such_plane"):
        running_cloud(tmp_path, planes=["no_such_plane"]).__enter__()
    assert not of_cloud(tmp_path)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the kernel's list of sockets is read from /proc")
def test_it_listens_on_loopback_only(tmp_path: Path) -> None:
    with running_cloud(tmp_path, planes=()) as cloud:
        inodes = {
            str(entry.readlink()).removeprefix("socket:[").removesuffix("]")
            for entry in Path(f"/proc/{cloud.pid}/fd").iterdir()
            if str(entry.readlink()).startswith("socket:[")
        }
        lines = [*Path("/proc/net/tcp").read_text().splitlines()[1:], *_tcp6()]
        listening = [line.split()[1] for line in lines if line.split()[3] == "0A" and line.split()[9] in inodes]
        port = int(cloud.endpoint_url.rsplit(":", 1)[1])
        assert listening == [f"{socket.inet_aton('127.0.0.1')[::-1].hex().upper()}:{port:04X}"]


def _tcp6() -> list[str]:
    path = Path("/proc/net/tcp6")
    return path.read_text().splitlines()[1:] if path.exists() else []


def test_the_environment_for_command_lines_reaches_no_real_account(tmp_path: Path) -> None:
    mine = {"AWS_PROFILE": "production", "AWS_SESSION_TOKEN": "real", "CDK_DEFAULT_ACCOUNT": "1", "PATH": "/bin"}
    with running_cloud(tmp_path, planes=()) as cloud:
        env = cloud.env(mine)
    assert "AWS_PROFILE" not in env
    assert "AWS_SESSION_TOKEN" not in env
    assert env["CDK_DEFAULT_ACCOUNT"] == cloud.account
    assert env["AWS_ENDPOINT_URL"] == cloud.endpoint_url
    assert env["PATH"] == "/bin"


def test_it_is_gone_from_its_port_afterwards(tmp_path: Path) -> None:
    with running_cloud(tmp_path, planes=()) as cloud:
        address = ("127.0.0.1", int(cloud.endpoint_url.rsplit(":", 1)[1]))
        socket.create_connection(address, timeout=5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=5)
