"""The tick: observe, reconcile, write, act. The imperative shell around the pure core.

The record is written before anything is done, on the condition that nobody else wrote it; so of two reconcilers that
look at the same run at once, one acts. Whatever is cut short is derived again at the next tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from holdfast.aws.errors import FAILED_READ, words_of
from holdfast.aws.store import ConflictError, Store
from holdfast.core.decide.creation import CreateResult
from holdfast.core.model import Notice, Run
from holdfast.core.observation import Observation
from holdfast.core.reconcile import Action, Intent, Step, after_create, material, reconcile


class Observes(Protocol):
    def observe(self, run: Run, *, read_seals_too: bool = False) -> Observation: ...


class Acts(Protocol):
    def act(self, action: Action) -> CreateResult | None: ...


class Publishes(Protocol):
    def status(self, run: Run, now: float) -> None: ...

    def notify(self, notice: Notice) -> None: ...


@dataclass(frozen=True)
class Report:
    """One line of a tick: what was decided for a run and why."""

    run: str
    phase: str
    attempt: str
    decision: str
    reason: str
    error: str = ""

    def fields(self) -> dict[str, str]:
        """For a log line; team and attempt are what people search for."""
        return {**asdict(self), "team": self.run.partition("/")[0]}


class Reconciler:
    """`intend` compiles the request of an attempt; `now` gives epoch seconds."""

    def __init__(
        self,
        *,
        store: Store,
        observer: Observes,
        actor: Acts,
        publisher: Publishes,
        intend: Callable[[Run, int], Intent],
        now: Callable[[], float],
        poll_seconds: float,
        status_refresh_seconds: float,
    ) -> None:
        self._store = store
        self._observer = observer
        self._actor = actor
        self._publisher = publisher
        self._intend = intend
        self._now = now
        self._poll_seconds = poll_seconds
        self._status_refresh_seconds = status_refresh_seconds

    def sweep(self, *, seconds: float) -> list[Report]:
        """Every active run, for at most `seconds`. What did not fit is looked at by the next tick."""
        return self._each(self._store.active(), until=self._now() + seconds)

    def for_job(self, job: str, *, seconds: float) -> list[Report]:
        """The run whose newest attempt is this job, if there is one: an event names a job, it says nothing of it."""
        mine = (run for run in self._store.active() if run.attempt is not None and run.attempt.job == job)
        return self._each(mine, until=self._now() + seconds)

    def _each(self, runs: Iterable[Run], *, until: float) -> list[Report]:
        reports = []
        for run in runs:
            if self._now() >= until:
                break
            reports.append(self._guarded(run))
        return reports

    def _guarded(self, run: Run) -> Report:
        try:
            return self.step(run)
        except ConflictError as error:
            return _report(run, "none", "somebody else moved the run", error=str(error))
        except FAILED_READ as error:
            return _report(run, "none", "an AWS call failed", error=words_of(error))
        except Exception as error:  # noqa: BLE001 - one poisoned run must not stop the sweep for the others
            return _report(run, "none", "this run could not be reconciled", error=f"{type(error).__name__}: {error}")

    def step(self, run: Run) -> Report:
        """One run, one step. Raises ConflictError and botocore's errors; nothing is lost by either."""
        refresh = self._now() - run.written_at >= self._status_refresh_seconds
        observation = self._observer.observe(run, read_seals_too=refresh)
        step = reconcile(run, observation, intend=self._intend, poll_seconds=self._poll_seconds)
        saved = self._save_if_needed(run, step.run, refresh=refresh)
        for action in step.actions:
            result = self._actor.act(action)
            if result is not None:
                saved = self._save_if_needed(saved, after_create(saved, result, self._now()), refresh=False)
        return _told(self._settle(saved), step)

    def _save_if_needed(self, before: Run, after: Run, *, refresh: bool) -> Run:
        if refresh and not after.phase.terminal:
            after = replace(after, status_due=True)
        if material(before) == material(after):
            return before
        return self._store.save(replace(after, written_at=self._now()))

    def _settle(self, run: Run) -> Run:
        """Tell people what they are owed; until that is done the run stays in the active index."""
        if not run.status_due and not run.notices:
            return run
        self._publisher.status(run, self._now())
        for notice in run.notices:
            self._publisher.notify(notice)
        return self._store.save(replace(run, status_due=False, notices=()))


def _told(run: Run, step: Step) -> Report:
    return _report(run, type(step.decision).__name__, step.decision.reason)


def _report(run: Run, decision: str, reason: str, error: str = "") -> Report:
    attempt = run.attempt
    return Report(run.id, run.phase.value, attempt.job if attempt else "", decision, reason, error)
