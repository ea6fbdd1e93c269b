"""Something that a job does again and again while its hosts run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger("sandbox.sagemaker")


class Periodic:
    """Runs `action` every `seconds` on a thread of its own, from `start` to `end`. An exception is logged."""

    def __init__(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        self._seconds = seconds
        self._action = action
        self._name = name
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Wait for a run that is under way, and do no further one. Harmless before `start` and a second time."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(self._seconds):
            try:
                self._action()
            except Exception:
                logger.exception("%s failed", self._name)
