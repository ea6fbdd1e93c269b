"""What is known of the account's quotas, kept for the runs: one item in the table and one status object.

A run's preflight reads this instead of Service Quotas, whose rates are shared by the whole account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter

from holdfast.core.model import Notice
from holdfast.core.quotas.plan import Quota, QuotaDecision, Reading, RequestState, Verdict


@dataclass(frozen=True)
class Awaited:
    """An open request whose end people have not been told of. `base` is the quota's value when it was first seen."""

    request: str
    desired: float
    base: float


@dataclass(frozen=True)
class Entry:
    """One quota. `value` was read at `read_at`; both None where it never was. A failed read keeps the value before."""

    name: str
    code: str | None = None
    value: float | None = None
    read_at: float | None = None
    wanted: float | None = None
    verdict: Verdict | None = None
    """None for a quota that nobody wants raised and that is read for the runs' sake."""
    basis: str = ""
    awaited: Awaited | None = None


@dataclass(frozen=True)
class QuotaRecord:
    """`owed` and `raised` are still to be done: notices to send, and quotas for which waiting runs are woken."""

    entries: tuple[Entry, ...] = ()
    at: float = 0.0
    error: str = ""
    """Why the last look at the quotas came to nothing, in words."""
    owed: tuple[Notice, ...] = ()
    raised: tuple[str, ...] = ()

    def entry(self, name: str) -> Entry | None:
        return next((one for one in self.entries if one.name == name), None)

    @property
    def problems(self) -> tuple[Entry, ...]:
        return tuple(one for one in self.entries if one.verdict is not None and one.verdict.is_problem)


def updated(
    before: QuotaRecord, *, readings: Mapping[str, Reading], decisions: Sequence[QuotaDecision], now: float
) -> QuotaRecord:
    """The record after a look. Notices and wakes are not part of it yet (`follow.py`)."""
    decided = {one.wanted.name: one for one in decisions}
    entries = tuple(
        _entry(name, reading, decided.get(name), before.entry(name), now) for name, reading in sorted(readings.items())
    )
    return QuotaRecord(entries, at=now, owed=before.owed, raised=before.raised)


def _entry(name: str, reading: Reading, decision: QuotaDecision | None, before: Entry | None, now: float) -> Entry:
    known = isinstance(reading, Quota)
    value, read_at = (reading.value, now) if isinstance(reading, Quota) else (None, None)
    if not known and before is not None:
        value, read_at = before.value, before.read_at
    code = reading.code if isinstance(reading, Quota) else (before.code if before else None)
    awaited = before.awaited if before else None
    request = decision.request if decision is not None else None
    if (
        request is not None
        and request.state is RequestState.OPEN
        and (awaited is None or awaited.request != request.id)
    ):
        awaited = Awaited(request.id, request.desired, value or 0.0)
    return Entry(
        name=name,
        code=code,
        value=value,
        read_at=read_at,
        wanted=decision.wanted.value if decision else None,
        verdict=decision.verdict if decision else None,
        basis=decision.basis if decision else "",
        awaited=awaited,
    )


def status_document(record: QuotaRecord) -> dict[str, Any]:
    """`status/quotas.json`. Times are ISO 8601 in UTC."""
    return {
        "updated": _when(record.at),
        "error": record.error or None,
        "problems": len(record.problems) + bool(record.error),
        "quotas": [
            {
                "name": one.name,
                "code": one.code,
                "value": one.value,
                "read": _when(one.read_at),
                "wanted": one.wanted,
                "verdict": one.verdict.value if one.verdict else None,
                "why": one.basis or None,
                "request": None if one.awaited is None else {"id": one.awaited.request, "desired": one.awaited.desired},
            }
            for one in record.entries
        ],
    }


_RECORD = TypeAdapter(QuotaRecord)


def dump_record(record: QuotaRecord) -> str:
    return _RECORD.dump_json(record).decode()


def load_record(text: str) -> QuotaRecord:
    return _RECORD.validate_json(text)


def _when(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
