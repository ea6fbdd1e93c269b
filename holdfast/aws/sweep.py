"""The scheduled tick: one sweep at a time over all active runs, for at most its seconds.

Whatever does not fit is not lost but first in turn at the next sweep, and nothing that one run does can take another
run's turn: not an error, not a record that cannot be read, and not even one that kills the function.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from botocore.exceptions import ClientError

from holdfast.aws.errors import call_and_words, is_denied
from holdfast.aws.listing import Listing
from holdfast.aws.lost_manifests import Handed
from holdfast.aws.reconciler import Report, report_of
from holdfast.aws.self_doubt import Notifies, SelfDoubt
from holdfast.aws.store import Store, Unreadable
from holdfast.aws.survey import Survey
from holdfast.aws.sweep_item import Lease, LeaseLostError, SweepItem
from holdfast.aws.tokens import Call, Tokens
from holdfast.core.denied import denial_words
from holdfast.core.model import Run
from holdfast.core.sweep import Summary, SweepState, in_turn, manifest_window, manifests_are_due, may_create
from holdfast.core.sweep import after_sweep as state_after
from holdfast.core.watcher_state import WatcherState

SWEEP_SECONDS = 45.0
# The function lives 55 s at most, so a lease that has run out was left behind by one that is dead; and the next tick,
# a minute after, finds it free.
LEASE_SECONDS = 55.0
# Tokens come once a second: a nap of that long fills a mass restart's minute, and no sweep ever waits longer for one.
LONGEST_NAP_SECONDS = 1.0


class Reconciles(Protocol):
    def guarded(self, run: Run, survey: Survey | None = None) -> Report: ...


class Lists(Protocol):
    def read(self, state: SweepState, *, until: float) -> Listing: ...


class Surveys(Protocol):
    def survey(
        self, runs: Sequence[Run], listed: Mapping[str, Summary], now: float, watcher: WatcherState
    ) -> Survey: ...


class HandsOver(Protocol):
    def hand_over(self, since: float, to: float, *, until: float) -> Handed: ...


@dataclass(frozen=True)
class Swept:
    """What became of one tick. `words` is empty unless there is something to say of the sweep itself."""

    reports: tuple[Report, ...] = ()
    left: int = 0
    listed: int = 0
    handed: tuple[str, ...] = ()
    words: str = ""
    denied: bool = False
    """A call without which no run can be looked at was denied."""

    def fields(self) -> dict[str, object]:
        """For a log line. The reports have lines of their own."""
        return {
            "runs": len(self.reports),
            "left": self.left,
            "listed": self.listed,
            "handed": list(self.handed),
            "words": self.words,
        }


class Sweep:
    """`now` gives epoch seconds, `sleep` takes seconds, `holder` names this process and call anew each time."""

    def __init__(
        self,
        *,
        item: SweepItem,
        store: Store,
        reconciler: Reconciles,
        lister: Lists,
        surveyor: Surveys,
        lost_manifests: HandsOver,
        publisher: Notifies,
        tokens: Tokens,
        holder: Callable[[], str],
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._item = item
        self._store = store
        self._reconciler = reconciler
        self._lister = lister
        self._surveyor = surveyor
        self._lost_manifests = lost_manifests
        self._doubt = SelfDoubt(item=item, publisher=publisher)
        self._tokens = tokens
        self._holder = holder
        self._now = now
        self._sleep = sleep

    def run(self, *, seconds: float = SWEEP_SECONDS) -> Swept:
        """One tick. Raises botocore's errors where the sweep's own item or the index of runs cannot be read, but for
        a denied call: that is said in words, since the next tick would only be denied the same."""
        try:
            return self._run(seconds)
        except ClientError as error:
            if not is_denied(error):
                raise
            words = f"No run was looked at. {denial_words([call_and_words(error)])}"
            return Swept(words=words, denied=True)

    def _run(self, seconds: float) -> Swept:
        began_at = self._now()
        lease = self._item.take(self._holder(), seconds=LEASE_SECONDS)
        if lease is None:
            return Swept(words="another sweep is under way; this one does nothing")
        try:
            swept, state = self._sweep(lease, began_at, began_at + seconds)
        except Exception:
            self._give_back(lease, lease.state)
            raise
        lost = self._give_back(lease, state)
        return replace(swept, words="; ".join(word for word in (swept.words, lost) if word))

    def _give_back(self, lease: Lease, state: SweepState) -> str:
        try:
            self._item.give_back(lease.holder, state)
        except LeaseLostError as error:
            return str(error)
        return ""

    def _sweep(self, lease: Lease, began_at: float, until: float) -> tuple[Swept, SweepState]:
        runs, reports = self._active()
        order = in_turn(runs, first=_after(lease.in_hand) or lease.state.first, last=lease.in_hand)
        listing = self._lister.read(lease.state, until=until)
        survey = self._surveyor.survey(order, listing.summaries, self._now(), lease.watcher)
        # Counted before the first run is judged: afterwards it would be too late for those that came first.
        watcher, doubted = self._doubt.before_looks(lease, survey.doubt, runs, self._now())
        left: list[Run] = []
        for run, report in self._look_at_all(order, survey, lease, until):
            if report is None or report.left:
                left.append(run)
            if report is not None:
                reports.append(report)
        self._doubt.after_looks(lease, watcher, reports, self._now())
        whole = listing.whole and not survey.missed and all(may_create(run, self._now()) for run in left)
        state = state_after(
            listing.state if whole else lease.state, began_at=began_at, whole=whole, left=left, order=order
        )
        words = [one for one in (listing.error, doubted) if one]
        if lease.died:
            words.append(f"the sweep before did not end{f'; it was looking at {lease.in_hand}' * bool(lease.in_hand)}")
        handed = Handed()
        if manifests_are_due(state):
            handed, state = self._hand_over(state, until)
            words.extend([handed.error] if handed.error else [])
        swept = Swept(tuple(reports), len(left), len(listing.summaries), handed.keys, "; ".join(words))
        return swept, state

    def _active(self) -> tuple[list[Run], list[Report]]:
        runs: list[Run] = []
        reports: list[Report] = []
        for one in self._store.active():
            if isinstance(one, Unreadable):
                reports.append(Report(one.id, "", "", "none", "the record cannot be read", error=one.why))
            else:
                runs.append(one)
        return runs, reports

    def _look_at_all(
        self, order: list[Run], survey: Survey, lease: Lease, until: float
    ) -> Iterator[tuple[Run, Report | None]]:
        """Each run once, with its report; None for what the sweep did not come to."""
        waiting: deque[Run] = deque()
        for run in order:
            if self._now() >= until:
                yield run, None
            elif may_create(run, self._now()) and self._tokens.wait_seconds(Call.CREATE) > 0:
                # Without a token its reads would be for nothing.
                waiting.append(run)
            else:
                report = self._look(run, survey, lease)
                if report.left and self._waits_for_token(run):
                    waiting.append(run)
                else:
                    yield run, report
        while waiting:
            run = waiting.popleft()
            nap = self._nap(run)
            if self._now() + nap >= until:
                yield run, replace(report_of(run, "none", "waits for its turn to call SageMaker"), left=True)
                continue
            self._sleep(nap)
            report = self._look(run, survey, lease)
            if report.left and self._waits_for_token(run):
                waiting.append(run)
            else:
                yield run, report

    def _look(self, run: Run, survey: Survey, lease: Lease) -> Report:
        if lease.died:
            # One write a run, and only after a death: should this run kill the function, the next begins after it.
            self._item.in_hand(lease.holder, run.id)
        return self._reconciler.guarded(run, survey)

    def _waits_for_token(self, run: Run) -> bool:
        return self._nap(run) > 0

    def _nap(self, run: Run) -> float:
        call = Call.CREATE if may_create(run, self._now()) else Call.STOP
        return min(LONGEST_NAP_SECONDS, self._tokens.wait_seconds(call))

    def _hand_over(self, state: SweepState, until: float) -> tuple[Handed, SweepState]:
        since, to = manifest_window(state, self._now())
        handed = self._lost_manifests.hand_over(since, to, until=until)
        return handed, replace(state, manifests_until=to) if handed.whole else state


def _after(run: str) -> str:
    """The least id that is greater than this one."""
    return f"{run}\0" if run else ""
