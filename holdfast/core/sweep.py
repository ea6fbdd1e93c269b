"""What a sweep looks at, in which order, and what it remembers from one to the next. Pure.

SageMaker gives the whole account 5 Describes and 2 Lists a second, not adjustable. So a sweep lists what changed, and
describes the runs whose job did, those about which something is to be decided, and a few that were long unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from holdfast.core.model import Attempt, JobState, Phase, Run

# botocore cuts time filters to whole seconds, SageMaker's clock is not ours, and a change may be listed late. None of
# the three has a documented bound; two minutes cost a few summaries more on a page that is read anyway.
OVERLAP_SECONDS = 120.0
# Beyond this the full list sees what the short one missed, so a sweep that never completes does not list for ever.
LONGEST_WINDOW_SECONDS = 3_600.0
FULL_LIST_EVERY_SECONDS = 3_600.0
# A job lives 30 days at most, upload included; waiting for capacity, at most 28, comes before that.
FULL_LIST_LOOKS_BACK_SECONDS = 60 * 86_400.0
UNSEEN_SECONDS = 1_800.0
MANIFESTS_EVERY_SWEEPS = 5
# An upload whose event is on its way needs no second reader.
MANIFEST_GRACE_SECONDS = 60.0
# What the first listing of all goes back: an event that was lost is at most this old. A manifest of last year whose run
# is not in the table is not started again on the strength of an empty table.
MANIFESTS_FIRST_LOOK_SECONDS = 86_400.0


@dataclass(frozen=True)
class SweepState:
    """Kept in the sweep's own item. Times are epoch seconds."""

    count: int = 0
    first: str = ""
    """Id of the run at which the next sweep begins: the first one that did not fit into the last."""
    listed_until: float | None = None
    """When the newest listing began all of whose changes were looked at."""
    full_started_at: float = 0.0
    full_token: str = ""
    """Where the full list goes on; empty while none is under way."""
    manifests_until: float | None = None
    """Uploads up to here were compared with the table."""


@dataclass(frozen=True)
class Summary:
    """One job in a list."""

    job: str
    state: JobState
    modified_at: float


class Look(StrEnum):
    """How a run's job is read."""

    DESCRIBE = "describe"
    """It must be described before anything is decided."""
    REVISIT = "revisit"
    """It was unseen for long: described when its status is refreshed, if there is room for it in that tick."""
    AS_BEFORE = "as_before"
    """Its job did not change since it was described."""


def window_start(state: SweepState, now: float) -> float:
    """From when on changed jobs are listed: the last whole sweep, minus an overlap."""
    until = now if state.listed_until is None else state.listed_until
    return max(until, now - LONGEST_WINDOW_SECONDS) - OVERLAP_SECONDS


def full_list_is_due(state: SweepState, now: float) -> bool:
    return bool(state.full_token) or now - state.full_started_at >= FULL_LIST_EVERY_SECONDS


def manifests_are_due(state: SweepState) -> bool:
    return state.count % MANIFESTS_EVERY_SWEEPS == 0


def manifest_window(state: SweepState, now: float) -> tuple[float, float]:
    """(from, to) of the uploads that are compared with the table."""
    until = now - MANIFEST_GRACE_SECONDS
    if state.manifests_until is None:
        return until - MANIFESTS_FIRST_LOOK_SECONDS, until
    return state.manifests_until - OVERLAP_SECONDS, until


def in_turn(runs: Sequence[Run], *, first: str, last: str = "") -> list[Run]:
    """By id, from `first` on and round. `last` goes last: the run in whose hands the sweep before died."""
    ordered = sorted(runs, key=lambda run: (run.id < first, run.id))
    return [run for run in ordered if run.id != last] + [run for run in ordered if run.id == last]


def look_at(run: Run, attempt: Attempt, listed: Summary | None, now: float) -> Look:
    """How to read the job of a live attempt, given what the lists of this tick say of it."""
    seen = attempt.described
    if attempt.seen_at is None or seen is None or seen.state is JobState.UNKNOWN or seen.state.terminal:
        # Terminal: an end is decided on the reason that only Describe gives.
        return Look.DESCRIBE
    if acting_on(run, attempt):
        return Look.DESCRIBE
    if listed is not None and (
        listed.modified_at > seen.modified_at or listed.state not in (seen.state, JobState.UNKNOWN)
    ):
        # UNKNOWN: a summary may come without its secondary status.
        return Look.DESCRIBE
    return Look.REVISIT if now - seen.described_at >= UNSEEN_SECONDS else Look.AS_BEFORE


def acting_on(run: Run, attempt: Attempt) -> bool:
    """Whether a stop is wanted or under way: decided on a reading of this very tick."""
    return (
        run.manifest.state == "stopped"
        or run.phase is Phase.STOPPING
        or attempt.asked_at is not None
        or attempt.stopped_at is not None
    )


def may_create(run: Run, now: float) -> bool:
    """Whether this look will probably end in a CreateTrainingJob; without a token it is not worth its reads."""
    if run.phase.terminal or run.manifest.state == "stopped" or (run.due_at is not None and now < run.due_at):
        return False
    return run.attempt is None or run.attempt.ended_at is not None or run.attempt.seen_at is None


def after_sweep(
    state: SweepState, *, began_at: float, whole: bool, left: Sequence[Run], order: Sequence[Run]
) -> SweepState:
    """`whole`: every listed change was looked at. `left`: what did not fit; `order`: as the runs were looked at."""
    waiting = {run.id for run in left}
    first = next((run.id for run in order if run.id in waiting), "")
    # The very first sweep describes every run anyway, so it has nothing to list again.
    begun = whole or state.listed_until is None
    return replace(state, first=first, listed_until=began_at if begun else state.listed_until)
