"""What a run's preflight is told: the account's quotas as last read, and what our own runs hold of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from holdfast.aws.errors import FAILED_READ, words_of
from holdfast.aws.quota_item import QuotaItem
from holdfast.aws.store import Store
from holdfast.core.model import Run
from holdfast.core.observation import Unknown
from holdfast.core.quotas.preflight import QuotaFacts, facts_of
from holdfast.core.quotas.record import QuotaRecord

# A mass restart asks a thousand times in one sweep. What the sweep itself creates meanwhile is noted by `moved`.
KEPT_SECONDS = 20.0


class ViewsQuotas(Protocol):
    def facts(self, run: Run) -> QuotaFacts | Unknown: ...

    def moved(self, run: Run) -> None:
        """The run was written: what it holds may have changed."""
        ...


class QuotaView:
    """Costs one read of the item and one query of the active runs in KEPT_SECONDS, and no call to Service Quotas."""

    def __init__(self, *, item: QuotaItem, store: Store, now: Callable[[], float]) -> None:
        self._item = item
        self._store = store
        self._now = now
        self._read_at: float | None = None
        self._record = QuotaRecord()
        self._runs: dict[str, Run] = {}

    def facts(self, run: Run) -> QuotaFacts | Unknown:
        if self._read_at is None or self._now() - self._read_at >= KEPT_SECONDS:
            try:
                self._record = self._item.get()
                self._runs = {one.id: one for one in self._store.active() if isinstance(one, Run)}
            except (*FAILED_READ, ValueError) as error:
                return Unknown(f"the quotas' record: {words_of(error)}")
            self._read_at = self._now()
        return facts_of(self._record, self._runs.values(), besides=run.id)

    def moved(self, run: Run) -> None:
        if self._read_at is not None:
            self._runs[run.id] = run
