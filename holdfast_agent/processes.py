"""The script's processes on this host: started, signalled and ended as a tree.

A process group is not enough. torchrun starts each worker in a session of its own, so a signal to torchrun's group
reaches no worker, and a SIGKILL of torchrun leaves them all. So the launcher becomes the reaper of its orphans (as
process 1 of a container is anyway) and finds every descendant in the process table.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Callable

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
_LONGEST_LINE_BYTES = 64 * 1024


def adopt_orphans() -> None:
    """Descendants whose parent ends become this process's children, so that they can still be found. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _ended_with_parent() -> Callable[[], None] | None:
    """For the script's first instants: SIGTERM when the launcher dies, so that it does not train on unwatched.

    A container ends with its process 1, which the launcher is, unless an image's own init comes first. SIGTERM and not
    SIGKILL: torchrun then ends its workers, which it would otherwise leave. Linux only.
    """
    if sys.platform != "linux":
        return None
    # Loaded here: between fork and exec it might wait for a lock that nobody holds any more.
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def children_by_parent() -> dict[int, list[int]]:
    """The process table, without ended processes that wait to be reaped."""
    found: dict[int, list[int]] = {}
    for pid, parent, state in _linux_table() if Path("/proc/self/stat").exists() else _portable_table():
        if not state.startswith("Z"):
            found.setdefault(parent, []).append(pid)
    return found


def _linux_table() -> list[tuple[int, int, str]]:
    rows = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # pid (name) state ppid ...; the name may hold blanks and brackets.
            state, parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # it ended meanwhile
        rows.append((int(folder.name), int(parent), state))
    return rows


def _portable_table() -> list[tuple[int, int, str]]:
    listed = subprocess.run(["ps", "-axo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return [(int(pid), int(parent), state) for pid, parent, state in rows]


def descendants(pid: int) -> list[int]:
    table, found, front = children_by_parent(), [], [pid]
    while front:
        front = [child for parent in front for child in table.get(parent, ())]
        found += front
    return found


def send(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


class Script:
    """The running script. Its stdout is this process's own; its stderr passes through line by line, so that the
    launcher has its last words for the failure file."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        has_workers: bool,
        on_error_line: Callable[[bytes], None],
    ) -> None:
        self._has_workers = has_workers
        self._process = subprocess.Popen(
            list(command),
            cwd=folder,
            env=dict(env),
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_ended_with_parent(),  # noqa: PLW1509 - no thread has been started yet
        )
        self._reader = threading.Thread(target=self._pass_on, args=(on_error_line,), daemon=True)
        self._reader.start()

    def poll(self) -> int | None:
        """Exit code (negative: the signal), None while it runs."""
        return self._process.poll()

    def ask_to_end(self) -> None:
        """SIGTERM to the training processes, and SIGCONT so that a stopped one receives it.

        Not to torchrun itself once it has workers: it would give them 30 s before SIGKILL, and a last checkpoint may
        take longer. It ends when they have.
        """
        pid = self._process.pid
        workers = children_by_parent().get(pid, []) if self._has_workers else []
        send(workers or [pid], signal.SIGTERM)
        send([pid, *descendants(pid)], signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to every descendant until none is left (stopped ones too); at most ten seconds."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            left = descendants(os.getpid())
            if not left:
                break
            send(left, signal.SIGKILL)
            time.sleep(0.05)

    def clean_up(self) -> None:
        """After the script's end: ends what it left behind and waits for its last error lines."""
        self.kill()
        self._reader.join(timeout=5)
        self._process.wait()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return

    def _pass_on(self, on_error_line: Callable[[bytes], None]) -> None:
        pipe = self._process.stderr
        if pipe is None:
            return
        with pipe:
            for line in iter(lambda: pipe.readline(_LONGEST_LINE_BYTES), b""):
                on_error_line(line)
