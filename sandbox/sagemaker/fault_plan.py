"""Faults that wait for a job: armed for a job-name pattern, and struck when such a job comes to the right point.

A counted fault strikes as often as its count says, over all jobs together, and is then spent; without a count it
strikes until it is disarmed. A lasting fault (a way in which telemetry lies) holds for every matching job until it is
disarmed. Every strike is recorded with its moment, so that a demo can measure from it.
"""

from __future__ import annotations

import fnmatch
import itertools
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JsonObject = dict[str, Any]
Value = float | str | bool


@dataclass(frozen=True)
class FaultKind:
    """`options` gives each option its default; `lasting` kinds have no count."""

    options: Mapping[str, Value] = field(default_factory=dict)
    lasting: bool = False
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


GPU_SHAPES = ("flat-100", "flat-0", "split")
AFTER: dict[str, Value] = {"AfterSeconds": 0.0}

KINDS: dict[str, FaultKind] = {
    # At CreateTrainingJob
    "RefuseCapacityAtCreate": FaultKind(),
    "LoseAnswer": FaultKind({"Operation": "CreateTrainingJob"}),
    # While the job starts
    "DelayCapacity": FaultKind({"Seconds": 5.0}),
    "RefuseCapacityWhilePending": FaultKind(AFTER),
    "InsufficientCapacity": FaultKind(AFTER),
    "HealthCheckFailed": FaultKind(),
    "ImageCannotBePulled": FaultKind(),
    # While it trains, and after
    "InterruptSpot": FaultKind(AFTER),
    "InternalServerError": FaultKind(AFTER),
    "RepairCluster": FaultKind(),
    "FailUpload": FaultKind(),
    # Its events
    "LoseEvents": FaultKind(),
    "DoubleEvents": FaultKind(),
    "DelayEvents": FaultKind({"Seconds": 30.0}),
    # Its telemetry
    "GpuSignature": FaultKind({"Shape": "flat-100"}, lasting=True, choices={"Shape": GPU_SHAPES}),
    "SilenceLogs": FaultKind({"Metrics": True}, lasting=True),
    "FreezeStep": FaultKind({"Metric": "holdfast:step"}, lasting=True),
    "DelayTelemetry": FaultKind({"LogSeconds": 0.0, "MetricSeconds": 0.0}, lasting=True),
}


@dataclass
class ArmedFault:
    """`left` is how often it can still strike; None: until it is disarmed."""

    id: str
    kind: str
    pattern: str
    left: int | None
    options: dict[str, Value]

    def seconds(self, option: str) -> float:
        return float(self.options[option])

    def text(self, option: str) -> str:
        return str(self.options[option])

    def describe(self) -> JsonObject:
        return {
            "FaultId": self.id,
            "Kind": self.kind,
            "JobNamePattern": self.pattern,
            "Left": self.left,
            "Options": dict(self.options),
        }


class FaultPlan:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._armed: dict[str, ArmedFault] = {}
        self._record: list[JsonObject] = []

    def arm(self, kind: Any, pattern: Any, count: Any, options: Any) -> ArmedFault:
        """Raises ValueError, which names the parameter that is wrong."""
        known = KINDS.get(kind) if isinstance(kind, str) else None
        if known is None:
            raise ValueError(f"Kind: there is no fault {kind!r}; there are {', '.join(KINDS)}")
        if not isinstance(pattern, str) or not pattern:
            raise ValueError(f"JobNamePattern: {pattern!r} is no pattern; give a job's name or e.g. 'sandbox-*'")
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
            raise ValueError(f"Count: {count!r} is no number of times; give 1 or more, or none for ever")
        if count is not None and known.lasting:
            raise ValueError(f"Count: {kind} holds until it is disarmed and has no count")
        given = _options(known, kind, options)
        with self._lock:
            armed = ArmedFault(f"fault-{next(self._numbers)}", str(kind), pattern, count, given)
            self._armed[armed.id] = armed
        return armed

    def disarm(self, identity: Any) -> ArmedFault:
        """Raises ValueError for a fault that is not armed (any more)."""
        with self._lock:
            armed = self._armed.pop(identity, None) if isinstance(identity, str) else None
        if armed is None:
            raise ValueError(f"FaultId: {identity!r} is not armed (any more)")
        return armed

    def armed(self) -> list[JsonObject]:
        with self._lock:
            return [fault.describe() for fault in self._armed.values()]

    def take(self, kind: str, job: str, *, elapsed: float = float("inf"), **wanted: str) -> ArmedFault | None:
        """Strike: the first armed fault of the kind for this job, now one strike poorer; None if there is none.

        `elapsed` is how long the job has been at this point, for faults that come after some seconds; `wanted` are
        options that have to be equal.
        """
        with self._lock:
            for fault in self._matching(kind, job):
                if elapsed < float(fault.options.get("AfterSeconds", 0.0)):
                    continue
                if any(fault.options[option] != value for option, value in wanted.items()):
                    continue
                if fault.left is not None:
                    fault.left -= 1
                    if fault.left == 0:
                        del self._armed[fault.id]
                self._record.append({"Fault": kind, "TrainingJobName": job, "Hosts": {}, "At": time.time()})
                return fault
        return None

    def lasting(self, kind: str, job: str) -> ArmedFault | None:
        """The latest fault of a lasting kind that holds for this job."""
        with self._lock:
            return next(reversed(self._matching(kind, job)), None)

    def record(self, entry: JsonObject) -> None:
        """Note a fault that was injected at once."""
        with self._lock:
            self._record.append(entry)

    def recorded(self) -> list[JsonObject]:
        """Everything that struck so far, in order."""
        with self._lock:
            return list(self._record)

    def _matching(self, kind: str, job: str) -> list[ArmedFault]:
        return [
            fault for fault in self._armed.values() if fault.kind == kind and fnmatch.fnmatchcase(job, fault.pattern)
        ]


def _options(known: FaultKind, kind: str, given: Any) -> dict[str, Value]:
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise ValueError(f"Options: {given!r} is no map")  # noqa: TRY004 - one kind of error for whoever asks
    unknown = sorted(given.keys() - known.options.keys())
    if unknown:
        there = ", ".join(known.options) or "none"
        raise ValueError(f"Options: {kind} has no {', '.join(unknown)} (it has: {there})")
    options = dict(known.options)
    for name, value in given.items():
        options[name] = _value(name, value, known.options[name], known.choices.get(name))
    return options


def _value(name: str, value: Any, default: Value, choices: tuple[str, ...] | None) -> Value:
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        raise ValueError(f"Options: {name} {value!r} is neither true nor false")
    if isinstance(default, float):
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
            return float(value)
        raise ValueError(f"Options: {name} {value!r} is no number of seconds")
    if not isinstance(value, str) or (choices is not None and value not in choices):
        there = f"; give one of {', '.join(choices)}" if choices else ""
        raise ValueError(f"Options: {name} {value!r} is not known{there}")
    return value
