"""What a sweep knows of the quotas while it creates jobs, and that a reconciler acts by it."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pytest

from holdfast.aws.quota_view import QuotaView
from holdfast.aws.survey import Survey
from holdfast.core.decide.creation import CreateAnswer, CreateResult
from holdfast.core.decide.holding import BELIEVED_SECONDS
from holdfast.core.model import Phase, Run
from holdfast.core.observation import Unknown
from holdfast.core.quotas.preflight import QuotaFacts
from holdfast.core.quotas.record import Entry, QuotaRecord
from holdfast.core.reconcile import SendCreate
from tests.builders import a_manifest, a_run
from tests.fakes import FakeAccount, FakeQuotaItem, FakeStore, Watcher

NOW = 2_000_000_000.0
NAME = "ml.m5.xlarge for training job usage"


def record(value: float) -> QuotaRecord:
    return QuotaRecord((Entry(NAME, "L-CCE2AFA6", value, NOW - 60),), at=NOW - 60)


def runs(*counts: int) -> tuple[Run, ...]:
    return tuple(
        a_run(name=f"run-{index}", manifest=a_manifest(instance_count=count)) for index, count in enumerate(counts)
    )


def test_of_two_runs_that_fit_alone_and_not_together_one_sweep_submits_one() -> None:
    store, account = FakeStore(*runs(3, 3)), FakeAccount(NOW)
    watcher = Watcher(store, account)
    watcher.quotas.put(record(4))
    watcher.sweep.run()
    phases = {run.name: run.phase for run in store.active() if isinstance(run, Run)}
    assert phases == {"run-0": Phase.STARTING, "run-1": Phase.WAITING}
    assert len(account.jobs) == 1
    held = store.get("research", "run-1")
    assert held is not None
    assert "3 are in use by research/run-0; the run needs 3, so 2 are missing. Waiting helps" in held.why


def test_two_runs_that_fit_together_are_both_submitted_by_one_sweep() -> None:
    store, account = FakeStore(*runs(2, 2)), FakeAccount(NOW)
    watcher = Watcher(store, account)
    watcher.quotas.put(record(4))
    watcher.sweep.run()
    assert len(account.jobs) == 2


@pytest.mark.parametrize("spoil", [True, False])
def test_a_record_that_cannot_be_read_or_is_not_there_holds_nobody_back(spoil: bool) -> None:
    store, account = FakeStore(*runs(3)), FakeAccount(NOW)
    watcher = Watcher(store, account)
    if spoil:
        watcher.quotas.put(record(0))
        watcher.quotas.spoil()
    watcher.sweep.run()
    assert len(account.jobs) == 1


def test_a_held_run_is_not_submitted_by_the_next_tick_and_is_by_the_one_after_the_quota_was_raised() -> None:
    store, account = FakeStore(*runs(3)), FakeAccount(NOW)
    watcher = Watcher(store, account)
    watcher.quotas.put(record(0))
    watcher.sweep.run()
    account.now += 1
    watcher.sweep.run()
    assert not account.jobs
    watcher.quotas.put(record(4))
    account.now += 60
    watcher.sweep.run()
    assert len(account.jobs) == 1


def test_the_record_is_read_once_in_a_sweep_and_anew_in_the_next_and_for_a_look_at_one_run() -> None:
    class Counting(FakeQuotaItem):
        reads = 0

        def get(self) -> QuotaRecord:
            self.reads += 1
            return super().get()

    item, many = Counting(record(4)), runs(*(1 for _ in range(20)))
    view = QuotaView(item=item, store=FakeStore(*many))
    for sweep in (Survey(describes=0), Survey(describes=0)):
        assert all(isinstance(view.facts(run, sweep), QuotaFacts) for run in many)
    assert item.reads == 2
    view.facts(many[0], None)
    assert item.reads == 3


def test_a_view_that_cannot_read_says_why_and_tries_again_for_the_next_run() -> None:
    item, sweep = FakeQuotaItem(), Survey(describes=0)
    view = QuotaView(item=item, store=FakeStore())
    item.spoil()
    answer = view.facts(a_run(), sweep)
    assert isinstance(answer, Unknown)
    assert "the quotas' record" in answer.why
    item.put(record(4))
    assert isinstance(view.facts(a_run(), sweep), QuotaFacts)


def test_of_many_runs_that_wait_for_one_quota_one_asks_sagemaker_in_a_quarter_of_an_hour() -> None:
    store, account = FakeStore(*runs(*(3 for _ in range(30)))), FakeAccount(NOW)
    watcher = Watcher(store, account)
    watcher.quotas.put(record(0))
    words = (
        f"ResourceLimitExceeded: The account-level service limit '{NAME}' is 0 Instances, with current utilization of "
        "0 Instances and a request delta of 3 Instances."
    )
    account.answers = [CreateResult(CreateAnswer.QUOTA, words) for _ in range(100)]
    quarters = 4
    for _ in range(int(quarters * BELIEVED_SECONDS / 60)):
        watcher.sweep.run()
        account.now += 60
    asked = sum(1 for action in account.calls if isinstance(action, SendCreate))
    assert 1 <= asked <= quarters


def test_a_run_that_is_held_back_costs_no_look_at_what_else_lives() -> None:
    class Unseeing(FakeAccount):
        def observe(self, *_: object, **__: object) -> NoReturn:
            raise AssertionError("read for nothing")

    store, account = FakeStore(replace(runs(3)[0], written_at=NOW)), Unseeing(NOW)
    watcher = Watcher(store, account)
    watcher.quotas.put(record(0))
    (report,) = watcher.sweep.run().reports
    assert (report.error, report.phase) == ("", "waiting")
    watcher.quotas.put(record(4))
    account.now += 3_600
    (report,) = watcher.sweep.run().reports
    assert "read for nothing" in report.error
