"""What changed since the last look at the quotas, and what people are told: one notice a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from holdfast.core.model import Notice
from holdfast.core.observation import Unknown
from holdfast.core.quotas.plan import Request, RequestState
from holdfast.core.quotas.record import Entry, QuotaRecord


class Happened(StrEnum):
    GRANTED = "granted"
    PARTLY = "partly granted"
    DENIED = "denied"
    RAISED = "raised"
    """Without an open request of which we knew: by a person in the console, or by AWS."""


@dataclass(frozen=True)
class Change:
    """`before` and `value`: the quota's value then and now. `request` is its id, empty for RAISED."""

    happened: Happened
    name: str
    code: str | None
    before: float
    value: float
    desired: float | None = None
    request: str = ""

    @property
    def helps(self) -> bool:
        """Whether a run that waits for this quota may fit now."""
        return self.happened is not Happened.DENIED

    @property
    def words(self) -> str:
        quota = f"'{self.name}' ({self.code or 'code unknown'})"
        if self.happened is Happened.DENIED:
            return f"The quota {quota} stays at {self.value:.0f}: AWS did not grant {self.desired:.0f}."
        if self.happened is Happened.PARTLY:
            return (
                f"The quota {quota} went from {self.before:.0f} to {self.value:.0f}, of {self.desired:.0f} asked for."
            )
        return f"The quota {quota} went from {self.before:.0f} to {self.value:.0f}."


def changes(before: QuotaRecord, after: QuotaRecord, requests: Sequence[Request] | Unknown) -> tuple[Change, ...]:
    """One a quota at most. What is not known tells of no change: it is compared again at the next look."""
    known = {one.id: one for one in requests} if not isinstance(requests, Unknown) else {}
    found = (_change(before.entry(one.name), one, known.get(one.awaited.request) if one.awaited else None)
             for one in after.entries)  # fmt: skip
    return tuple(one for one in found if one is not None)


def _change(before: Entry | None, after: Entry, request: Request | None) -> Change | None:
    value = after.value
    if value is None:
        return None
    awaited = after.awaited
    base = awaited.base if awaited is not None else None if before is None else before.value
    if base is None:
        return None
    change = Change(Happened.RAISED, after.name, after.code, base, value)
    if awaited is None:
        return change if value > base else None
    change = replace(change, desired=awaited.desired, request=awaited.request)
    if value >= awaited.desired:
        return replace(change, happened=Happened.GRANTED)
    if request is None or request.state is RequestState.OPEN:
        was = before.value if before is not None else None
        return None if was is None or value <= was else Change(Happened.RAISED, after.name, after.code, was, value)
    if value > base:
        return replace(change, happened=Happened.PARTLY)
    # An approved value is applied a while after its request is; only a refusal, or a case that was closed, is an end.
    return None if request.state is RequestState.APPROVED else replace(change, happened=Happened.DENIED)


def after_changes(record: QuotaRecord, found: Sequence[Change], *, teams: Sequence[str]) -> QuotaRecord:
    """The record with what is owed for the changes. `teams` are told of each."""
    settled = {one.name for one in found if one.request}
    entries = tuple(replace(one, awaited=None) if one.name in settled else one for one in record.entries)
    raised = dict.fromkeys([*record.raised, *(one.name for one in found if one.helps)])
    owed = (*record.owed, *(_notice(one, teams) for one in found))
    return replace(record, entries=entries, owed=owed, raised=tuple(raised))


def _notice(change: Change, teams: Sequence[str]) -> Notice:
    next_step = {
        Happened.GRANTED: "Runs that wait for it are started now.",
        Happened.PARTLY: "Runs that fit now are started. To ask for more, want a higher value in the config's quotas.",
        Happened.DENIED: "Runs that need more keep waiting. The request's support case in Service Quotas says why.",
        Happened.RAISED: "Runs that wait for it are started now.",
    }[change.happened]
    return Notice(
        # The value is part of it: of a quota that is raised twice by hand, both are told.
        id=f"quota/{change.name}/{change.request or 'raised'}/{change.happened.value}/{change.value:.0f}",
        team=", ".join(teams),
        kind="quota",
        # SNS: a subject has at most 100 characters.
        subject=f"Holdfast: quota {change.happened.value}: {change.name}"[:100],
        body=f"{change.words}\n\n{next_step}",
        teams=tuple(teams),
    )
