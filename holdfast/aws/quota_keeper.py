"""Looks after the account's quotas: during a deployment and once a day, by the same steps.

Read, decide, ask, write down; then tell people what changed and wake the runs that waited for it. Whatever is cut short
is done at the next run: what was asked for is in Service Quotas' own history, and what is owed to people is in the
record until it was done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from holdfast.aws.quota_item import QuotaItem
from holdfast.aws.service_quotas import Asked
from holdfast.aws.store import ConflictError, Store
from holdfast.core.model import Notice, Run
from holdfast.core.observation import Unknown
from holdfast.core.quotas.follow import after_changes, changes
from holdfast.core.quotas.plan import Answer, Quota, QuotaDecision, Reading, Request, Verdict, after_asking, plan
from holdfast.core.quotas.preflight import waits_for
from holdfast.core.quotas.record import QuotaRecord, updated
from holdfast.core.quotas.wishes import QuotaNeeds, quotas_to_read, wanted_quotas

_WAKE_TRIES = 3


class Quotas(Protocol):
    def read(self, names: Sequence[str]) -> dict[str, Reading]: ...

    def one(self, quota: Quota) -> Reading: ...

    def requests(self) -> tuple[Request, ...] | Unknown: ...

    def ask(self, code: str, value: float) -> Asked: ...


class Tells(Protocol):
    def quotas(self, record: QuotaRecord) -> None:
        """Write the status object."""
        ...

    def notify(self, notice: Notice) -> None: ...


@dataclass(frozen=True)
class Kept:
    """What became of one look. `problems` is what the alarm counts."""

    asked: int = 0
    enough: int = 0
    open: int = 0
    problems: int = 0
    changed: tuple[str, ...] = ()
    woken: tuple[str, ...] = ()
    error: str = ""

    def fields(self) -> dict[str, object]:
        """For a log line."""
        return {
            "asked": self.asked,
            "enough": self.enough,
            "open": self.open,
            "problems": self.problems,
            "changed": list(self.changed),
            "woken": list(self.woken),
            "error": self.error,
        }


class QuotaKeeper:
    """`teams` are told of changes; `now` gives epoch seconds."""

    def __init__(
        self,
        *,
        quotas: Quotas,
        item: QuotaItem,
        store: Store,
        publisher: Tells,
        teams: Sequence[str],
        now: Callable[[], float],
    ) -> None:
        self._quotas = quotas
        self._item = item
        self._store = store
        self._publisher = publisher
        self._teams = tuple(teams)
        self._now = now

    def keep(self, needs: QuotaNeeds) -> Kept:
        """Never raises for what Service Quotas or AWS may answer: a deployment must not fail for a quota.

        What went wrong is in the answer, in the status object, and in the metric that the alarm watches.
        """
        try:
            return self._keep(needs)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told and the deployment goes on
            return self._failed(f"{type(error).__name__}: {error}"[:500])

    def _failed(self, words: str) -> Kept:
        try:
            record = replace(self._item.get(), error=words)
            self._item.put(record)
            self._publisher.quotas(record)
        except Exception as error:  # noqa: BLE001 - then log and metric are all that is left to tell it
            words = f"{words}; and its status could not be written: {type(error).__name__}: {error}"[:800]
        return Kept(problems=1, error=words)

    def _keep(self, needs: QuotaNeeds) -> Kept:
        before = self._before()
        wanted = wanted_quotas(needs)
        readings = self._quotas.read(quotas_to_read(needs))
        requests = self._quotas.requests()
        planned = plan(wanted, readings, requests)
        decisions = tuple(self._ask(one, readings) if one.verdict is Verdict.ASK else one for one in planned)
        record = updated(before, readings=readings, decisions=decisions, now=self._now())
        found = changes(before, record, requests)
        record = after_changes(record, found, teams=self._teams)
        self._item.put(record)
        self._publisher.quotas(record)
        # The record first: a run that is woken is measured by it at once.
        woken = self._pay(record)
        verdicts = [one.verdict for one in decisions]
        return Kept(
            asked=sum(1 for one in planned if one.verdict is Verdict.ASK),
            enough=verdicts.count(Verdict.ENOUGH),
            open=verdicts.count(Verdict.OPEN),
            problems=len(record.problems),
            changed=tuple(one.words for one in found),
            woken=woken,
        )

    def _before(self) -> QuotaRecord:
        try:
            return self._item.get()
        except ValueError:
            # Of another version: it is read anew, and at worst one change goes untold.
            return QuotaRecord()

    def _ask(self, decision: QuotaDecision, readings: dict[str, Reading]) -> QuotaDecision:
        reading = readings[decision.wanted.name]
        if decision.code is None or decision.ask is None or not isinstance(reading, Quota):
            return decision
        asked = self._quotas.ask(decision.code, decision.ask)
        if asked.answer is Answer.REFUSED_VALUE:
            # "You must provide a quota value greater than the current quota value": it may have been raised just now.
            again = self._quotas.one(reading)
            if isinstance(again, Quota) and again.value >= decision.wanted.value:
                readings[decision.wanted.name] = again
                return replace(decision, verdict=Verdict.ENOUGH, basis=f"it is {again.value:.0f} by now", ask=None)
        return after_asking(decision, asked.answer, asked.words, asked.request)

    def _pay(self, record: QuotaRecord) -> tuple[str, ...]:
        """Wakes and notices that are owed, also those of a run before that died; then they are owed no longer."""
        if not record.raised and not record.owed:
            return ()
        woken = tuple(one.id for one in self._waiting(record.raised) if self._wake(one, record.raised))
        for notice in record.owed:
            self._publisher.notify(notice)
        self._item.put(replace(record, owed=(), raised=()))
        return woken

    def _waiting(self, raised: Sequence[str]) -> list[Run]:
        if not raised:
            return []
        return [one for one in self._store.active() if isinstance(one, Run) and waits_for(one, raised)]

    def _wake(self, run: Run, raised: Sequence[str]) -> bool:
        """Its due time becomes now, for the next tick. The watcher may write it meanwhile; then it is read again."""
        found: Run | None = run
        for _ in range(_WAKE_TRIES):
            if found is None or not waits_for(found, raised):
                return False
            words = "A quota that the run waits for was raised; it is tried now."
            woken = replace(found, due_at=self._now(), why=words, hold=None, quota_refusal=None, status_due=True)
            try:
                self._store.save(woken)
            except ConflictError:
                found = self._store.get(run.team, run.name)
            else:
                return True
        return False
