"""What of a host's line reaches its log and what its metrics, where a fault parts the two.

`SilenceLogs`: the host works and its log says nothing; with Metrics, the values in its lines are still delivered.
`FreezeStep`: lines go on, and the number of one metric stands still in them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.sagemaker.fault_plan import FaultPlan


@dataclass(frozen=True)
class Delivered:
    """Texts; None where nothing is delivered."""

    log: str | None
    metrics: str | None


class LineFaults:
    """Of one job. Thread-safe."""

    def __init__(self, job: str, definitions: Iterable[dict[str, str]], plan: FaultPlan) -> None:
        self._job = job
        self._plan = plan
        self._lock = threading.Lock()
        self._regexes = {entry["Name"]: re.compile(entry["Regex"]) for entry in definitions}
        self._last: dict[str, str] = {}

    def of(self, text: str) -> Delivered:
        frozen = self._plan.lasting("FreezeStep", self._job)
        seen = self._with_frozen(text, None if frozen is None else frozen.text("Metric"))
        silent = self._plan.lasting("SilenceLogs", self._job)
        if silent is None:
            return Delivered(seen, seen)
        return Delivered(None, seen if silent.options["Metrics"] else None)

    def _with_frozen(self, text: str, frozen: str | None) -> str:
        """The text with the frozen metric's number as it last was; and note the numbers of the others."""
        for name, regex in self._regexes.items():
            match = regex.search(text)
            if match is None or match.lastindex is None or match.group(1) is None:
                continue
            with self._lock:
                if name != frozen:
                    self._last[name] = match.group(1)
                    continue
                held = self._last.setdefault(name, match.group(1))
            return text[: match.start(1)] + held + text[match.end(1) :]
        return text
