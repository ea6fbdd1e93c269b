"""A process that outlives its parent by a moment, to kill what the parent could not.

Started (guard.py) as `python -I -S warden.py <process group>` with a pipe as standard input. The parent writes
`guard <pgid>` and `release <pgid>` lines and keeps the pipe open; the kernel closes it when the parent ends, in
whatever way, SIGKILL included. Then every guarded group gets SIGKILL, which also ends stopped processes. A parent-death
signal would do this on Linux only, and is tied to the parent's thread.

Standard library only, and nothing of the sandbox: it has to stay small and to start at once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable


def watch(lines: Iterable[str], first_group: int) -> set[int]:
    """Read orders until the parent is gone; returns the groups to kill."""
    groups = {first_group}
    for line in lines:
        order, _, number = line.strip().partition(" ")
        if order == "guard":
            groups.add(int(number))
        elif order == "release":
            groups.discard(int(number))
    return groups


def kill(groups: Iterable[int]) -> None:
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue  # ended by itself; PermissionError is macOS's answer for a group of zombies


if __name__ == "__main__":
    # The terminal's Ctrl-C or a SIGTERM to a whole tree must not take the warden before its parent.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    kill(watch(sys.stdin, int(sys.argv[1])))
