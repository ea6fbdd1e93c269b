"""What the watcher remembers of itself from one sweep to the next, and what people are told of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.core.detect.mass import WINDOW_SECONDS, Before, Crowd, Doubt, Seen, doubt
from holdfast.core.model import Notice, Run
from holdfast.core.notices import doubt_notice, doubt_over_notice


@dataclass(frozen=True)
class WatcherState:
    """Kept in the sweep's own item. Times are epoch seconds."""

    since: float | None = None
    """When too many runs began to look hung; None while the watcher is trusted."""
    quiet_since: float | None = None
    counted: tuple[str, ...] = ()
    ended: dict[str, float] = field(default_factory=dict)
    """Run to when it was last asked to end for a hang, for one window: the run itself may have left the table's index
    by then."""
    told: bool = False
    """Whether people are told of this doubt, or were."""
    owed: tuple[Notice, ...] = ()
    """Written before they are sent, so that a sweep that dies sends the same ones again, under the same ids."""


def take_stock(state: WatcherState, runs: Sequence[Run], seen: Sequence[Seen], now: float) -> Doubt:
    """`runs`: every active run; `seen`: those in training."""
    asked = {run.id: at for run in runs for one in run.attempts if (at := one.hung_at) is not None}
    ended = {run: max(asked.get(run, 0.0), state.ended.get(run, 0.0)) for run in {*asked, *state.ended}}
    before = Before(state.since, state.quiet_since, frozenset(state.counted))
    return doubt(Crowd(now, tuple(seen), ended, before))


def after_stock(state: WatcherState, found: Doubt, *, teams: Sequence[str], now: float) -> WatcherState:
    """`teams`: who is told, where there is something to tell."""
    kept = {run: at for run, at in state.ended.items() if now - at < WINDOW_SECONDS}
    new = replace(state, ended=kept)
    if found.since is None:
        over = (doubt_over_notice(state.since, teams),) if state.told and state.since is not None else ()
        return WatcherState(ended=kept, owed=(*state.owed, *over))
    tells = found.grave and not state.told
    return replace(
        new,
        since=found.since,
        quiet_since=found.quiet_since,
        # While it is quiet, who was counted before still is, should it begin again.
        counted=found.counted if found.quiet_since is None else state.counted,
        told=state.told or tells,
        owed=(*state.owed, doubt_notice(found, found.since, teams)) if tells else state.owed,
    )


def after_sending(state: WatcherState, sent: Notice) -> WatcherState:
    return replace(state, owed=tuple(one for one in state.owed if one.id != sent.id))


def after_looks(state: WatcherState, asked: Mapping[str, float]) -> WatcherState:
    """`asked`: runs that this sweep asked to end for a hang."""
    return replace(state, ended={**state.ended, **asked}) if asked else state
