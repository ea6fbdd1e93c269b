"""The watched side of the warden: which process groups and folders must not outlive this process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from sandbox.cloud import warden


class ProcessGuard:
    """Starts a warden that kills `group`, and what it is told to guard, when this process ends. Thread-safe."""

    def __init__(self, group: int) -> None:
        # A session of its own: it must survive the SIGKILL of the group that it watches. The write end of the pipe is
        # not inheritable, so no child of this process can keep it open.
        orders, holder = os.pipe()
        self._pipe = os.fdopen(holder, "w")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(warden.__file__)), str(group)],
            stdin=orders,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        os.close(orders)
        self._lock = threading.Lock()

    def guard(self, pgid: int) -> None:
        self._tell(f"guard {pgid}")

    def release(self, pgid: int) -> None:
        self._tell(f"release {pgid}")

    def remove_at_the_end(self, folder: Path) -> None:
        """Delete the folder when this process has ended, in whatever way."""
        self._tell(f"remove {folder}")

    def _tell(self, order: str) -> None:
        with self._lock:
            self._pipe.write(order + "\n")
            self._pipe.flush()

    def close(self) -> None:
        """Kill what is still guarded, at once, and end the warden."""
        with self._lock:
            self._pipe.close()
        self._process.wait()
