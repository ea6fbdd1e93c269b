"""One host of a job: its /opt/ml tree, its environment, its processes.

SageMaker gives each instance a container. The sandbox gives each host a folder in place of /opt/ml and a tree of
processes below a shim (shim.py). The hosts share the machine's network, so a host's *name* is a loopback address of its
own: `algo-1` resolves in SageMaker's network and nowhere else, and SageMaker tells people not to write code with
specific host values (developer guide, your-algorithms-training-algo-running-container).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from sandbox.sagemaker.processes import Process, descendants, with_environment

CONTAINER_BASE = "/opt/ml"
HOST_MARKER = "SANDBOX_HOST_ID"
"""Variable of every process of a host; by it a process is found that has lost all its parents."""

_TREE = ("input/config", "input/data", "model", "output/data", "checkpoints", "code")
_REPOSITORY = Path(__file__).resolve().parents[2]
_ANSWER_SECONDS = 20.0


class HostError(Exception):
    """The host's shim did not answer."""


@dataclass(frozen=True)
class FaultReport:
    """What a signal to the whole host did: processes that got it, and when it was done (epoch seconds)."""

    processes: int
    at: float


@dataclass(frozen=True)
class _Running:
    shim: subprocess.Popen[bytes]
    control: socket.socket


class Host:
    """`name` is `algo-N`, as in log streams and metric dimensions; `address` is what its peers call it."""

    def __init__(self, job: str, number: int, address: str, folder: Path) -> None:
        self.job = job
        self.number = number
        self.name = f"algo-{number}"
        self.address = address
        self.folder = folder
        self.tree = folder / "ml"
        self.marker = f"{job}/{self.name}"
        # With its folder, which no other emulator on this machine has: two of them may run jobs of the same name, and
        # one must not take the other's processes for its own strays.
        self.process_marker = f"{self.marker} in {folder}"
        self.exit_code: int | None = None
        self._temporary = folder / "tmp"
        self._running: _Running | None = None
        self._answers: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._ordering = threading.Lock()

    def prepare(self) -> None:
        """Make the empty tree."""
        for part in _TREE:
            (self.tree / part).mkdir(parents=True, exist_ok=True)
        self._temporary = short_folder()

    def local(self, text: str) -> str:
        """A text of the request with `/opt/ml` replaced by this host's tree, wherever it stands as a path."""
        return re.sub(r"(?<![\w./-])/opt/ml(?![\w.-])", str(self.tree).replace("\\", r"\\"), text)

    def local_path(self, path: str) -> Path:
        """A path of the request. Raises ValueError for one outside /opt/ml: that is not this host's."""
        if path != CONTAINER_BASE and not path.startswith(CONTAINER_BASE + "/"):
            raise ValueError(f"{path!r} is not below {CONTAINER_BASE}")
        return self.tree / path[len(CONTAINER_BASE) :].strip("/")

    def environment(self, given: Mapping[str, str], of_job: Mapping[str, str]) -> dict[str, str]:
        """A clean environment: nothing of the emulator's own but where programs are."""
        python = str(Path(sys.executable).parent)
        return {
            "PATH": f"{python}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.tree),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self._temporary),
            "SAGEMAKER_BASE_DIR": str(self.tree),
            HOST_MARKER: self.process_marker,
            **of_job,
            **{name: self.local(value) if value.startswith(CONTAINER_BASE) else value for name, value in given.items()},
        }

    def start(self, argv: list[str], env: Mapping[str, str]) -> tuple[BinaryIO, int]:
        """Start the entry point; returns its output (stdout and stderr in one) and its process group.

        Raises HostError.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            # A session of its own: what ends the emulator's process group must not end the shim before it tidied up.
            shim = subprocess.Popen(
                [sys.executable, "-S", "-E", "-m", "sandbox.sagemaker.shim", str(theirs.fileno())],
                cwd=_REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._running = running = _Running(shim, ours)
        spec = {
            "argv": [self.local(word) for word in argv],
            "env": dict(env),
            "cwd": str(self.folder),
            "scratch": str(self._temporary),
        }
        threading.Thread(target=self._listen, args=(running,), name=f"{self.marker} shim", daemon=True).start()
        answer = self._order(json.dumps(spec), "pid")
        if "pid" not in answer:
            raise HostError(f"{self.marker}: the shim ended at its start")
        return cast("BinaryIO", shim.stdout), int(answer["pid"])

    @property
    def started(self) -> bool:
        return self._running is not None

    def terminate(self) -> None:
        """SIGTERM to the entry point alone."""
        if self.exit_code is None:
            self._order_all("term")

    def kill(self) -> FaultReport:
        """SIGKILL to every process of the host, stopped ones too."""
        return self._order_all("kill")

    def destroy(self) -> None:
        """Leave no process of the host, whatever state its shim is in. Returns when all are gone."""
        try:
            if self.exit_code is None:
                self.kill()
                self.wait(_ANSWER_SECONDS)
        except HostError:
            if self._running is not None:
                self._running.shim.kill()
        # What a shim that was itself killed has lost is still known by its environment.
        for pid in with_environment(HOST_MARKER, self.process_marker):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._running is not None:
            self.wait(_ANSWER_SECONDS)

    def freeze(self) -> FaultReport:
        """SIGSTOP to every process of the host."""
        return self._order_all("stop")

    def thaw(self) -> FaultReport:
        return self._order_all("cont")

    def wait(self, seconds: float) -> bool:
        """Wait until the host has ended and nothing of it is left; False if it has not by then."""
        with self._changed:
            return self._changed.wait_for(lambda: self.exit_code is not None, seconds)

    def processes(self) -> list[Process]:
        """The host's live processes, the shim not among them; empty before the start and after the end."""
        if self._running is None or self.exit_code is not None:
            return []
        return descendants(self._running.shim.pid)

    def discard(self, *, keep_tree: bool) -> None:
        """After the job: the instance's storage goes."""
        shutil.rmtree(self._temporary, ignore_errors=True)
        if not keep_tree:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _order_all(self, order: str) -> FaultReport:
        answer = self._order(order, "done")
        return FaultReport(int(answer.get("processes", 0)), float(answer.get("at", 0.0)))

    def _order(self, line: str, expected: str) -> dict[str, Any]:
        """Send one order and wait for its answer; an empty answer if the host ended instead."""
        if self._running is None:
            raise HostError(f"{self.marker}: not started")
        with self._ordering:
            with self._changed:
                self._answers.clear()
            try:
                self._running.control.sendall(line.encode() + b"\n")
            except OSError:
                return {}  # the shim has ended; _listen sets the exit code

            def answered() -> bool:
                return self.exit_code is not None or any(expected in answer for answer in self._answers)

            with self._changed:
                if not self._changed.wait_for(answered, _ANSWER_SECONDS):
                    raise HostError(f"{self.marker}: no answer to {line[:40]!r} within {_ANSWER_SECONDS:.0f} s")
                return next((answer for answer in self._answers if expected in answer), {})

    def _listen(self, running: _Running) -> None:
        """Read the shim's answers until it ends. A shim that was killed counts as an exit with 137."""
        code = 137
        with running.control.makefile("r", encoding="utf-8") as lines:
            for line in lines:
                answer = json.loads(line)
                code = answer.get("exit", code)
                with self._changed:
                    self._answers.append(answer)
                    self._changed.notify_all()
        running.shim.wait()
        with self._changed:
            self.exit_code = code
            self._changed.notify_all()
        running.control.close()


def short_folder() -> Path:
    """A temporary folder with a short path: a Unix socket's has 107 bytes, and PyTorch makes some in TMPDIR."""
    folder = tempfile.mkdtemp(prefix="holdfast-")
    if len(folder) > 60:
        Path(folder).rmdir()
        folder = tempfile.mkdtemp(prefix="holdfast-", dir="/tmp")
    return Path(folder)
