"""Writing a line so that it arrives whole.

Ranks and launcher share one pipe. `print` with several arguments writes several times, and two ranks then mix within
a line, which loses a heartbeat. One `os.write` of at most PIPE_BUF (4,096 on Linux) bytes is atomic on a pipe.
"""

from __future__ import annotations

import os

STDOUT = 1
STDERR = 2
_ATOMIC_BYTES = 4096


def write_line(descriptor: int, text: str) -> None:
    """One write of `text` and a newline, cut to what is atomic. A log that cannot be written never fails a job."""
    data = text.replace("\n", " ").encode("utf-8", "replace")[: _ATOMIC_BYTES - 1] + b"\n"
    try:
        os.write(descriptor, data)
    except OSError:
        return


def say(words: str) -> None:
    """A line for people, on stderr."""
    write_line(STDERR, f"[holdfast] {words}")
