"""The sweep's doubt of itself: remembered in its item, told to people once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from holdfast.aws.errors import FAILED_READ
from holdfast.aws.reconciler import Report
from holdfast.aws.sweep_item import Lease, LeaseLostError, SweepItem
from holdfast.core.decide.decision import AskToEnd
from holdfast.core.detect.mass import Doubt
from holdfast.core.model import Notice, Run
from holdfast.core.watcher_state import WatcherState, after_looks, after_sending, after_stock


class Notifies(Protocol):
    def notify(self, notice: Notice) -> None: ...


class SelfDoubt:
    """Writes only what changed, under the sweep's lease: of two sweeps one tells people."""

    def __init__(self, *, item: SweepItem, publisher: Notifies) -> None:
        self._item = item
        self._publisher = publisher

    def before_looks(
        self, lease: Lease, doubt: Doubt | None, runs: Sequence[Run], now: float
    ) -> tuple[WatcherState, str]:
        """The new state, and words for the log. Raises LeaseLostError, before anybody is told.

        A page that cannot be sent stays owed and takes no run its turn.
        """
        state = lease.watcher
        if doubt is None:
            return state, ""
        teams = sorted({run.team for run in runs})
        state = self._remember(lease, state, after_stock(state, doubt, teams=teams, now=now))
        words = [doubt.basis] if doubt.stands else []
        for notice in state.owed:
            try:
                self._publisher.notify(notice)
            except Exception as error:  # noqa: BLE001 - whatever goes wrong with a page, the runs come first
                words.append(f"people could not be told: {type(error).__name__}: {error}")
            else:
                state = self._remember(lease, state, after_sending(state, notice))
        return state, "; ".join(words)

    def after_looks(self, lease: Lease, state: WatcherState, reports: Iterable[Report], now: float) -> None:
        asked = {one.run: now for one in reports if one.decision == AskToEnd.__name__}
        # What cannot be written stands in the runs' records too, and the looks' reports must not be lost for it.
        with suppress(LeaseLostError, *FAILED_READ):
            self._remember(lease, state, after_looks(state, asked))

    def _remember(self, lease: Lease, before: WatcherState, after: WatcherState) -> WatcherState:
        if after != before:
            self._item.remember(lease.holder, after)
        return after
