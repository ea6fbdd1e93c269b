"""The tick: observe, reconcile, write, act. The imperative shell around the pure core.

The record is written before anything is done, on the condition that nobody else wrote it; so of two reconcilers that
look at the same run at once, one acts. Whatever is cut short is derived again at the next tick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from holdfast.aws.errors import FAILED_READ, call_and_words, is_denied, words_of
from holdfast.aws.quota_view import ViewsQuotas
from holdfast.aws.store import ConflictError, Store
from holdfast.aws.survey import NotThisTickError, Survey
from holdfast.aws.tokens import Call, NoTokenError, Tokens
from holdfast.core.decide.creation import CreateResult
from holdfast.core.decide.decision import Keep
from holdfast.core.decide.holding import holding
from holdfast.core.denied import denial_words, with_denials
from holdfast.core.layout import split_run_id
from holdfast.core.material import material
from holdfast.core.model import Attempt, Notice, Run
from holdfast.core.observation import Observation
from holdfast.core.reconcile import (
    Action,
    Intent,
    SendCreate,
    SendStop,
    Step,
    after_create,
    reconcile,
)
from holdfast.core.record_size import bounded, surplus, without_surplus
from holdfast.core.sweep import may_create


class Observes(Protocol):
    def observe(self, run: Run, *, read_seals_too: bool = False, survey: Survey | None = None) -> Observation: ...


class Acts(Protocol):
    def act(self, action: Action) -> CreateResult | None: ...


class Publishes(Protocol):
    def status(self, run: Run, now: float) -> None: ...

    def archive(self, run: Run, attempt: Attempt) -> None: ...

    def notify(self, notice: Notice) -> None: ...


CALLS: Mapping[type[Action], Call] = {SendCreate: Call.CREATE, SendStop: Call.STOP}
"""Actions that take a token, on whatever path they are sent."""


@dataclass(frozen=True)
class Report:
    """One line of a tick: what was decided for a run and why."""

    run: str
    phase: str
    attempt: str
    decision: str
    reason: str
    error: str = ""
    left: bool = False
    """It did not fit into this tick; the next one derives it again."""

    @property
    def quiet(self) -> bool:
        """Nothing was done and nothing went wrong: not worth a line each minute for each run."""
        return not self.error and not self.left and self.decision == Keep.__name__

    def fields(self) -> dict[str, object]:
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
        tokens: Tokens,
        quotas: ViewsQuotas,
        intend: Callable[[Run, int], Intent],
        now: Callable[[], float],
        poll_seconds: float,
        status_refresh_seconds: float,
    ) -> None:
        self._store = store
        self._observer = observer
        self._actor = actor
        self._publisher = publisher
        self._tokens = tokens
        self._quotas = quotas
        self._intend = intend
        self._now = now
        self._poll_seconds = poll_seconds
        self._status_refresh_seconds = status_refresh_seconds

    def for_job(self, job: str, *, run: str = "") -> list[Report]:
        """The run whose newest attempt is this job, if there is one: an event names a job, it says nothing of it.

        `run` is the id that the event's tags give. It saves looking through all runs; the record has the last word.
        """
        try:
            named = self._named(run)
        except FAILED_READ as error:
            if not is_denied(error):
                raise
            words = denial_words([call_and_words(error)])
            return [Report(run, "", job, "none", "the record may not be read", error=words)]
        return [self.guarded(one) for one in named if one.attempt is not None and one.attempt.job == job]

    def _named(self, run: str) -> list[Run]:
        if run:
            found = self._store.get(*split_run_id(run))
            return [] if found is None else [found]
        return [one for one in self._store.active() if isinstance(one, Run)]

    def guarded(self, run: Run, survey: Survey | None = None) -> Report:
        """One step; whatever goes wrong with one run is told in its report and costs no other run its turn."""
        try:
            return self.step(run, survey)
        except (NotThisTickError, NoTokenError) as error:
            return replace(report_of(run, "none", str(error)), left=True)
        except ConflictError as error:
            return report_of(run, "none", "somebody else moved the run", error=str(error))
        except FAILED_READ as error:
            if not is_denied(error):
                return report_of(run, "none", "an AWS call failed", error=words_of(error))
            denied = call_and_words(error)
            self._tell_denied(run, denied)
            return report_of(run, "none", "an AWS call was denied", error=denial_words([denied]))
        except Exception as error:  # noqa: BLE001 - one poisoned run must not stop the sweep for the others
            return report_of(run, "none", "this run could not be reconciled", error=f"{type(error).__name__}: {error}")

    def step(self, run: Run, survey: Survey | None = None) -> Report:
        """One run, one step. Raises ConflictError, NotThisTickError, NoTokenError and botocore's errors.

        Nothing is lost by any of them: the next tick reads the same record and derives the same step.
        """
        refresh = self._now() - run.written_at >= self._status_refresh_seconds and (survey is None or survey.refresh())
        observation = self._observe(run, survey, read_seals_too=refresh)
        step = reconcile(
            run,
            observation,
            intend=self._intend,
            poll_seconds=self._poll_seconds,
            doubt=None if survey is None else survey.doubt,
        )
        # Before anything is written: a step that may not be carried out now is no step.
        for action in step.actions:
            self._take_token(action)
        saved = self._save_if_needed(run, with_denials(step.run, observation.denied, whole=False))
        for action in step.actions:
            result = self._actor.act(action)
            if result is not None:
                saved = self._save_if_needed(saved, after_create(saved, result, self._now()))
        self._quotas.moved(saved)
        return _told(self._settle(saved, refresh=refresh, denied=observation.denied), step)

    def _observe(self, run: Run, survey: Survey | None, *, read_seals_too: bool) -> Observation:
        now = self._now()
        if not may_create(run, now):
            return self._observer.observe(run, read_seals_too=read_seals_too, survey=survey)
        alone = Observation(now, quotas=self._quotas.facts(run, survey))
        if holding(run, alone) is not None and not read_seals_too:
            # It will not be submitted, so no List is spent on it; but a look that refreshes the status is a whole one.
            return alone
        seen = self._observer.observe(run, read_seals_too=read_seals_too, survey=survey)
        return replace(seen, quotas=alone.quotas)

    def _take_token(self, action: Action) -> None:
        call = CALLS.get(type(action))
        if call is not None and not self._tokens.take(call):
            raise NoTokenError(call)

    def _save_if_needed(self, before: Run, after: Run) -> Run:
        return after if material(before) == material(after) else self._save(after)

    def _save(self, run: Run) -> Run:
        for attempt in surplus(run):
            self._publisher.archive(run, attempt)
        return self._store.save(bounded(without_surplus(run)))

    def _settle(self, saved: Run, *, refresh: bool, denied: tuple[str, ...]) -> Run:
        """Tell people what they are owed; until that is done the run stays in the active index.

        What changes at every look, such as a quiet run's step, is written with its status and no oftener. One way of
        telling that is denied leaves the others open: a notice says that no status may be written, and the other way
        round. `denied`: what this look was denied so far.
        """
        whole = refresh or saved.phase.terminal
        run = with_denials(saved, denied, whole=False)
        # A notice that is owed may be what was denied: its status says so until it was sent.
        shown = with_denials(run, denied, whole=whole and not run.notices)
        if not (shown.status_due or shown.notices or refresh):
            return saved
        now, said = self._now(), list(denied)
        written = not (shown.status_due or refresh) or self._allowed(lambda: self._publisher.status(shown, now), said)
        owed = tuple(
            one
            for one in shown.notices
            if not self._allowed(lambda one=one: self._publisher.notify(one), said)  # type: ignore[misc]
        )
        if len(said) > len(denied):
            told = with_denials(replace(run, notices=owed), said, whole=whole)
            due = not written or told.denied != shown.denied
            new = replace(told, status_due=due, written_at=now if written else told.written_at)
        else:
            new = replace(shown, notices=owed, status_due=False, written_at=now)
        return saved if new == saved else self._save(new)

    def _allowed(self, call: Callable[[], None], said: list[str]) -> bool:
        """Whether the call was made; what denied it is added to `said`. Raises botocore's other errors."""
        try:
            call()
        except FAILED_READ as error:
            if not is_denied(error):
                raise
            said.append(call_and_words(error))
            return False
        return True

    def _tell_denied(self, run: Run, denied: str) -> None:
        """As far as the other permissions reach; the report says it in any case, and the next look tries again."""
        with suppress(ConflictError, *FAILED_READ):
            now = self._store.get(run.team, run.name)
            if now is not None:
                self._settle(now, refresh=False, denied=(denied,))


def _told(run: Run, step: Step) -> Report:
    return report_of(run, type(step.decision).__name__, step.decision.reason)


def report_of(run: Run, decision: str, reason: str, error: str = "") -> Report:
    attempt = run.attempt
    return Report(run.id, run.phase.value, attempt.job if attempt else "", decision, reason, error)
