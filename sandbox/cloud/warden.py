"""A process that outlives its parent by a moment, to kill what the parent could not.

Started (guard.py) as `python -I -S warden.py <process group>` with a pipe as standard input. The parent writes
`guard <pgid>`, `release <pgid>` and `remove <folder>` lines and keeps the pipe open; the kernel closes it when the
parent ends, in whatever way, SIGKILL included. Then every guarded group gets SIGKILL, which also ends stopped
processes, and the folders are deleted. A parent-death signal would do this on Linux only, and is tied to the parent's
thread.

Standard library only, and nothing of the sandbox: it has to stay small and to start at once.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable

_REMOVE_SECONDS = 10.0
"""Processes that were just killed, and the shims of job hosts, which end by themselves, may still write."""


def watch(lines: Iterable[str], first_group: int) -> tuple[set[int], set[str]]:
    """Read orders until the parent is gone; returns the groups to kill and the folders to delete."""
    groups, folders = {first_group}, set()
    for line in lines:
        order, _, rest = line.rstrip("\n").partition(" ")
        if order == "guard":
            groups.add(int(rest))
        elif order == "release":
            groups.discard(int(rest))
        elif order == "remove":
            folders.add(rest)
    return groups, folders


def kill(groups: Iterable[int]) -> None:
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue  # ended by itself; PermissionError is macOS's answer for a group of zombies


def remove(folders: Iterable[str]) -> None:
    for folder in folders:
        deadline = time.monotonic() + _REMOVE_SECONDS
        while os.path.lexists(folder) and time.monotonic() < deadline:
            shutil.rmtree(folder, ignore_errors=True)
            time.sleep(0.05)


if __name__ == "__main__":
    # The terminal's Ctrl-C or a SIGTERM to a whole tree must not take the warden before its parent.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    doomed, litter = watch(sys.stdin, int(sys.argv[1]))
    kill(doomed)
    remove(litter)
