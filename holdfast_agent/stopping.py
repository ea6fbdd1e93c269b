"""Asked to stop: SIGTERM, which SageMaker sends before it ends a job (120 s before SIGKILL)."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class _Sigterm:
    """Plain fields and no Event: an Event has a lock, and a second SIGTERM within its set() would wait for itself."""

    received = False
    looked_at = False

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.received = True


_sigterm = _Sigterm()


def stop_requested() -> bool:
    """True once this process received SIGTERM: save a checkpoint and leave.

    The handler is installed by the first call, so a script that never asks keeps the default (it ends at once). It is
    not installed over a handler of the script's own, nor outside the main thread, where Python allows none. Ranks
    receive the signal at different steps: agree on it (an all-reduce of the flag) before leaving a collective loop.
    """
    if not _sigterm.looked_at and threading.current_thread() is threading.main_thread():
        _sigterm.looked_at = True
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _sigterm.on_signal)
    return _sigterm.received
