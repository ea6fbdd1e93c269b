"""Do too many runs look hung at once? Then the watcher itself is suspect, and nothing is ended for a hang.

Hangs come one at a time; what strikes many runs in one window is the delivery of logs or metrics, or something that
all of them share. Ending the runs helps against neither, and a false stop of forty is the dearest mistake there is.

What holds whatever happens: in one window no more runs are ended for a hang than the limit allows. A run is ended only
in a sweep, after all runs were counted, and whoever may be ended is among the counted: its suspicion is in the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast.core.detect.health import Health, Verdict
from holdfast.core.detect.stale_step import stale_step
from holdfast.core.model import Run
from holdfast.core.observation import Progress, Unknown

RUNS_AT_LEAST = 2
PERCENT = 5
# An outage does not strike all runs in the same tick: their steps and bounds differ by minutes, metrics come up to five
# minutes late, and a sweep examines 20 suspects. In 15 sweeps these are 300, more than 5 % of 5,000 runs. A longer
# window would hold the third real hang of a small account back for longer.
WINDOW_SECONDS = 900.0
# Points that were held back come in any order and up to five minutes late: the first ones are not yet the end.
QUIET_SECONDS = 300.0


@dataclass(frozen=True)
class Seen:
    """One run in training, by its record and by what the sweep read for all runs at once."""

    run: str
    read: bool
    """Whether the step could be read; else everything here is what the record says."""
    stepped_at: float | None
    """When it reached its newest step; None before the first one."""
    stale_at: float | None = None
    """When its step, or its start, became older than its bound; None while it is not."""
    looks_hung: bool = False
    """Hosts and log agreed at its last poll, and it has not moved since."""
    may_be_ended: bool = False
    """Its manifest sets a bound and is not in shadow mode."""
    long: bool = False
    """Stale for so long that people would be told of this run alone."""


@dataclass(frozen=True)
class Before:
    """What the sweep before made of it. Epoch seconds; None where there is no doubt, or no quiet yet."""

    since: float | None = None
    quiet_since: float | None = None
    counted: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Crowd:
    """`runs`: those in training. `ended`: run to when it was last asked to end for a hang, whatever became of it."""

    now: float
    runs: tuple[Seen, ...]
    ended: Mapping[str, float] = field(default_factory=dict)
    before: Before = Before()
    window_seconds: float = WINDOW_SECONDS


@dataclass(frozen=True)
class Doubt:
    """Whether the watcher is suspect, and why. `grave`: without the doubt people would hear of a run, or it would end.

    `counted`: the runs that look hung, or are silent while no run moves, by id; `limit`: how many may be.
    """

    stands: bool
    basis: str
    counted: tuple[str, ...] = ()
    limit: int = RUNS_AT_LEAST
    grave: bool = False
    since: float | None = None
    quiet_since: float | None = None


def see(run: Run, progress: Progress | Unknown | None, now: float) -> Seen | None:
    """None where the newest attempt has not begun to train."""
    attempt = run.attempt
    if attempt is None or attempt.ended_at is not None or attempt.training_at is None:
        return None
    watch = run.manifest.watch
    read = isinstance(progress, Progress)
    known = progress if isinstance(progress, Progress) else Progress(attempt.last_step, attempt.last_step_at)
    face = stale_step(watch=watch, progress=known, training_at=attempt.training_at, horizon=now)
    suspected = run.suspicion is not None and run.suspicion.step == known.step
    # The record's step may be older than the run's: where nothing was read it makes a run stale only if a poll said so.
    stale = face.stale and (read or suspected)
    return Seen(
        run=run.id,
        read=read,
        stepped_at=known.step_at,
        stale_at=face.since + face.bound_seconds if stale else None,
        looks_hung=stale and suspected,
        may_be_ended=face.enforceable and watch.mode == "enforce",
        long=stale and face.stale_for_seconds >= 2 * face.bound_seconds,
    )


def doubt(crowd: Crowd) -> Doubt:
    """Count the runs that look hung in one window against the limit."""
    ended = {run for run, at in crowd.ended.items() if crowd.now - at < crowd.window_seconds}
    hung = ended | {one.run for one in crowd.runs if _counts(one, crowd)}
    known = hung | {one.run for one in crowd.runs if one.stepped_at is not None}
    # Where nobody is seen to move, nothing shows that steps are delivered at all: the silent ones count as well, since
    # they may only have longer bounds.
    silent = bool(hung) and not any(_moved(one, crowd) for one in crowd.runs if one.run not in hung)
    counted = known if silent else hung
    limit = max(RUNS_AT_LEAST, len(known) * PERCENT // 100)
    over = len(counted) > limit
    before = crowd.before
    others = " and no other was seen to move" if silent and counted != hung else ""
    said = f"{len(hung)} of {len(known)} runs look hung{others} within {crowd.window_seconds / 60:.0f} minutes"
    found = Doubt(False, f"{said}, at most {limit} may", tuple(sorted(counted)), limit)
    if over:
        return replace(
            found,
            stands=True,
            basis=f"{said}, at most {limit} may: the watcher itself is suspect, so nothing is ended for a hang",
            grave=any(one.looks_hung or one.long for one in crowd.runs if one.run in counted),
            since=crowd.now if before.since is None else before.since,
        )
    if before.since is None:
        return found
    quiet_since = crowd.now if before.quiet_since is None else before.quiet_since
    if crowd.now - quiet_since >= QUIET_SECONDS:
        return found
    words = f"{said}, no longer too many; that has to last {QUIET_SECONDS:.0f} s before a hang is believed again"
    return replace(found, stands=True, basis=words, since=before.since, quiet_since=quiet_since)


def believed(verdict: Verdict, doubted: Doubt | None) -> Verdict:
    """The verdict on one run in the light of all others. None: the others were not looked at, as after an event."""
    if doubted is None:
        if verdict.health is not Health.HUNG:
            return verdict
        words = f"looks hung, which is believed only in a sweep over all runs: {verdict.basis}"
        return replace(verdict, health=Health.UNKNOWN, basis=words)
    if not doubted.stands:
        return verdict
    # Its suspicion is kept, so that the run is ended once the doubt is over. People are told once for all runs.
    told = replace(verdict, doubted=True, alert=False)
    if verdict.health is not Health.HUNG:
        return told
    return replace(told, health=Health.UNKNOWN, basis=f"{doubted.basis}; this run: {verdict.basis}")


def _counts(one: Seen, crowd: Crowd) -> bool:
    was_counted = crowd.before.since is not None and one.run in crowd.before.counted
    if one.stale_at is None:
        # What cannot be read is not refuted.
        return was_counted and not one.read
    if one.looks_hung and one.may_be_ended:
        return True
    # The others are no danger to themselves, they are evidence; and one that has been stale for days is none any more.
    return was_counted or crowd.now - one.stale_at < crowd.window_seconds


def _moved(one: Seen, crowd: Crowd) -> bool:
    return one.stepped_at is not None and crowd.now - one.stepped_at < crowd.window_seconds
