"""What a run's preflight is told: the account's quotas as last read, and what our own runs hold of them."""

from __future__ import annotations

from typing import Protocol

from holdfast.aws.errors import FAILED_READ, words_of
from holdfast.aws.quota_item import QuotaItem
from holdfast.aws.store import Store
from holdfast.aws.survey import Survey
from holdfast.core.model import Run
from holdfast.core.observation import Unknown
from holdfast.core.quotas.preflight import QuotaFacts, facts_of
from holdfast.core.quotas.record import QuotaRecord


class ViewsQuotas(Protocol):
    def facts(self, run: Run, survey: Survey | None) -> QuotaFacts | Unknown:
        """`survey` stands for the sweep in which the run is looked at; None for a look at this run alone."""
        ...

    def moved(self, run: Run) -> None:
        """The run was written: what it holds may have changed."""
        ...


class QuotaView:
    """Costs one read of the item and one query of the active runs in a sweep, and no call to Service Quotas.

    Never older than the sweep: a run that was woken for a raised quota must not be measured by what was before.
    """

    def __init__(self, *, item: QuotaItem, store: Store) -> None:
        self._item = item
        self._store = store
        self._survey: Survey | None = None
        self._record = QuotaRecord()
        self._runs: dict[str, Run] = {}

    def facts(self, run: Run, survey: Survey | None) -> QuotaFacts | Unknown:
        if survey is None or survey is not self._survey:
            self._survey = None
            try:
                self._record = self._item.get()
                self._runs = {one.id: one for one in self._store.active() if isinstance(one, Run)}
            except (*FAILED_READ, ValueError) as error:
                return Unknown(f"the quotas' record: {words_of(error)}")
            self._survey = survey
        return facts_of(self._record, self._runs.values(), besides=run.id)

    def moved(self, run: Run) -> None:
        self._runs[run.id] = run
