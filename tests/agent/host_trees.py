"""A job's hosts as SageMaker lays them out, each with its own base folder, and its launcher as a real process."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import holdfast_agent
from holdfast_agent.contract import JobContext

PACKAGE = Path(holdfast_agent.__file__).parent
LONGEST_TEST_SECONDS = 60.0

REPORT = """
import os, sys, holdfast_agent
print("arguments", sys.argv[1:])
print("incarnation", os.environ["HOLDFAST_INCARNATION"])
"""


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def tarball(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@dataclass
class HostTree:
    """One host of a job. `context` is what CreateTrainingJob's Environment would carry."""

    base: Path
    context: JobContext
    hosts: tuple[str, ...]
    name: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def failure(self) -> str:
        path = self.base / "output" / "failure"
        return path.read_text() if path.exists() else ""

    @property
    def channel(self) -> Path:
        return self.base / "input" / "data" / "agent"

    @property
    def checkpoints(self) -> Path:
        return self.base / "checkpoints"

    @contextmanager
    def running(self) -> Iterator[Launched]:
        """The launcher; whatever it left behind is killed at the end."""
        launched = Launched(self)
        try:
            yield launched
        finally:
            launched.kill()

    def run(self) -> Launched:
        with self.running() as launched:
            launched.wait()
        return launched


class Launched:
    """A launcher in its own session, with its output in a file so that a full pipe cannot stop it."""

    def __init__(self, tree: HostTree) -> None:
        self._log = tree.base / "log.txt"
        with self._log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(tree.channel)],
                env={
                    **{name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "AWS_"))},
                    "SAGEMAKER_BASE_DIR": str(tree.base),
                    **tree.context.to_env(),
                    "HOLDFAST_CHECKPOINT_PATH": str(tree.checkpoints),
                    **tree.environment,
                },
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._marker = f"SAGEMAKER_BASE_DIR={tree.base}".encode()

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def wait(self, seconds: float = LONGEST_TEST_SECONDS) -> int:
        return self.process.wait(timeout=seconds)

    def until(self, words: str, seconds: float = LONGEST_TEST_SECONDS) -> None:
        """Waits until the output holds the words; fails with the output if the process ends or time is over."""
        deadline = time.monotonic() + seconds
        while words not in self.output:
            if self.process.poll() is not None and words not in self.output:
                raise AssertionError(f"ended with {self.process.returncode} without saying {words!r}:\n{self.output}")
            if time.monotonic() > deadline:
                raise AssertionError(f"did not say {words!r} in time:\n{self.output}")
            time.sleep(0.02)

    def left_behind(self) -> list[int]:
        """Processes of this host that still live, whoever their parent is by now."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z" and self._marker in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except (OSError, IndexError):
                continue
        return found

    def kill(self) -> None:
        for pid in self.left_behind():
            os.kill(pid, signal.SIGKILL)
        self.process.wait(timeout=10)


def make_hosts(
    folder: Path,
    files: Mapping[str, bytes],
    hosts: Sequence[str] = ("algo-1",),
    hyperparameters: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    **context: object,
) -> list[HostTree]:
    """Trees of all hosts of one attempt. Extra keywords are fields of JobContext."""
    source = tarball(files)
    facts = {
        "run": "research/moby",
        "uid": "u-1",
        "job": "dev-research-moby-0123abcd-a001",
        "attempt": 1,
        "entry_point": "train.py",
        "code_sha256": hashlib.sha256(source).hexdigest(),
        "launch": "python",
        **context,
    }
    trees = []
    for name in hosts:
        base = folder / name
        shutil.rmtree(base / "input", ignore_errors=True)
        config, data = base / "input" / "config", base / "input" / "data"
        (data / "code").mkdir(parents=True)
        config.mkdir(parents=True)
        (data / "code" / "source.tar.gz").write_bytes(source)
        (config / "hyperparameters.json").write_text(json.dumps(dict(hyperparameters or {})))
        (config / "resourceconfig.json").write_text(
            json.dumps({"hosts": sorted(hosts), "current_host": name, "network_interface_name": "lo"})
        )
        _install_channel(data / "agent")
        tree = HostTree(base, JobContext(**facts), tuple(hosts), name, dict(environment or {}))  # type: ignore[arg-type]
        trees.append(tree)
    return trees


def make_host(folder: Path, script: str, **keywords: object) -> HostTree:
    """One host whose entry point is this script."""
    return make_hosts(folder, {"train.py": script.encode()}, **keywords)[0]  # type: ignore[arg-type]


def _install_channel(channel: Path) -> None:
    shutil.copytree(
        PACKAGE, channel / "holdfast_agent", ignore=shutil.ignore_patterns("__pycache__", "channel_main.py")
    )
    shutil.copy(PACKAGE / "channel_main.py", channel / "__main__.py")
