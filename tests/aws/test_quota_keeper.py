"""The looks at an account's quotas, one after the other: what is asked for, told and woken; and nothing raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.aws.quota_keeper import QuotaKeeper
from holdfast.aws.service_quotas import OutOfTimeError, ServiceQuotas
from holdfast.aws.store import ConflictError
from holdfast.core.model import Cause, Hold, Notice, Phase, Run
from holdfast.core.quotas.plan import ANSWER_OF_ERROR
from holdfast.core.quotas.record import QuotaRecord, status_document
from holdfast.core.quotas.wishes import InstanceQuota, QuotaNeeds, Quotas
from tests.builders import a_manifest, a_run
from tests.fakes import FakeQuotaItem, FakeStore
from tests.memory_quotas import MemoryQuotas

P4D = "ml.p4d.24xlarge"
NAME = "ml.p4d.24xlarge for training job usage"
ACROSS = "Number of instances across all training jobs"
NEEDS = QuotaNeeds(
    quotas=Quotas(instances=(InstanceQuota(instance_type=P4D, on_demand=16),)),
    instance_types=(P4D, "ml.m5.xlarge"),
    max_instances_per_run=16,
)


class People:
    """Gets the status and the notices, each once for its id as the real publisher does."""

    def __init__(self) -> None:
        self.status: dict[str, Any] = {}
        self.notices: dict[str, Notice] = {}
        self.deaf = False

    def quotas(self, record: QuotaRecord) -> None:
        self.status = status_document(record)

    def notify(self, notice: Notice) -> None:
        if self.deaf:
            raise ConnectionError("SNS is away")
        self.notices.setdefault(notice.id, notice)


class Account:
    def __init__(self, *runs: Run) -> None:
        self.memory = MemoryQuotas()
        self.item = FakeQuotaItem()
        self.store = FakeStore(*runs)
        self.people = People()
        self.now = 2_000_000_000.0
        self.in_time: Callable[[], None] = lambda: None

    def look(self, needs: QuotaNeeds = NEEDS) -> Any:
        keeper = QuotaKeeper(
            quotas=ServiceQuotas(self.memory.client(), in_time=self.in_time),
            item=self.item,
            store=self.store,
            publisher=self.people,
            teams=("research", "vision"),
            now=lambda: self.now,
        )
        self.now += 86_400
        return keeper.keep(needs)

    def verdict(self, name: str) -> str:
        return next(one["verdict"] for one in self.people.status["quotas"] if one["name"] == name)


def waiting(**fields: Any) -> Run:
    manifest = a_manifest(instance_type=P4D, instance_count=4)
    return a_run(
        manifest=manifest, phase=Phase.WAITING, cause=Cause.QUOTA, due_at=9_000_000_000.0, status_due=False, **fields
    )


def test_what_is_short_is_asked_for_and_what_is_enough_is_left_alone() -> None:
    account = Account()
    kept = account.look()
    assert account.memory.asked() == {NAME: 16, ACROSS: 16}
    assert (kept.asked, kept.enough, kept.open, kept.problems, kept.error) == (2, 1, 2, 0, "")
    assert account.verdict("Maximum number of instances per training job") == "enough"


def test_a_second_look_asks_for_nothing_more() -> None:
    account = Account()
    account.look()
    assert account.look().asked == 0
    assert account.memory.calls["RequestServiceQuotaIncrease"] == 2


def test_a_higher_wish_is_asked_for_once_the_open_request_is_answered() -> None:
    account = Account()
    account.look()
    more = NEEDS.model_copy(update={"quotas": Quotas(instances=(InstanceQuota(instance_type=P4D, on_demand=32),))})
    assert account.look(more).asked == 0
    account.memory.service.decide(NAME, None)
    account.look(more)
    assert account.memory.asked()[NAME] == 32
    assert account.verdict(NAME) == "open"


def test_a_wish_that_was_lowered_or_taken_back_changes_nothing_in_the_account() -> None:
    account = Account()
    account.memory.values.set(NAME, 64)
    account.look()
    account.look(NEEDS.model_copy(update={"quotas": Quotas()}))
    assert account.memory.values.limit(NAME) == 64
    assert NAME not in account.memory.asked()


def test_a_grant_is_told_once_and_wakes_the_runs_that_wait_for_it() -> None:
    other = replace(waiting(name="other"), manifest=a_manifest())
    account = Account(waiting(hold=Hold(1.0, 3, ())), replace(other, name="other"))
    account.look()
    account.memory.service.decide(NAME, None)
    kept = account.look()
    assert kept.woken == ("research/tiny",)
    woken = account.store.get("research", "tiny")
    assert woken is not None
    assert (woken.due_at, woken.hold) == (account.now, None)
    sleeper = account.store.get("research", "other")
    assert sleeper is not None
    assert sleeper.due_at == 9_000_000_000.0
    account.look()
    assert [one.subject for one in account.people.notices.values()] == [f"Holdfast: quota granted: {NAME}"]


def test_a_part_wakes_the_runs_too_and_is_not_asked_for_again() -> None:
    account = Account(waiting())
    account.look()
    account.memory.service.decide(NAME, 8)
    kept = account.look()
    assert kept.woken == ("research/tiny",)
    assert account.verdict(NAME) == "answered"
    account.look()
    assert account.memory.calls["RequestServiceQuotaIncrease"] == 2
    (notice,) = account.people.notices.values()
    assert "went from 0 to 8, of 16 asked for" in notice.body


def test_a_denial_is_told_and_wakes_nobody_and_is_not_asked_for_again() -> None:
    account = Account(waiting())
    account.look()
    account.memory.service.decide(NAME, 0)
    kept = account.look()
    assert (kept.woken, kept.problems) == ((), 0)
    assert "AWS did not grant 16" in next(iter(account.people.notices.values())).body
    account.look()
    assert account.memory.calls["RequestServiceQuotaIncrease"] == 2


def test_a_run_that_the_watcher_writes_meanwhile_is_woken_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account(waiting())
    account.look()
    account.memory.service.decide(NAME, None)
    save, refused = account.store.save, []

    def once_too_late(run: Run) -> Run:
        if not refused:
            refused.append(run)
            save(replace(run, due_at=8_000_000_000.0))
            raise ConflictError(run.id)
        return save(run)

    monkeypatch.setattr(account.store, "save", once_too_late)
    assert account.look().woken == ("research/tiny",)
    assert refused


def test_what_is_owed_to_people_is_told_at_the_next_look_where_sending_failed() -> None:
    account = Account(waiting())
    account.look()
    account.memory.service.decide(NAME, None)
    account.people.deaf = True
    kept = account.look()
    assert (kept.problems, kept.error) == (1, "ConnectionError: SNS is away")
    account.people.deaf = False
    assert account.look().error == ""
    assert len(account.people.notices) == 1
    assert account.people.status["error"] is None


@pytest.mark.parametrize("code", ANSWER_OF_ERROR)
def test_no_answer_to_a_request_is_an_exception_and_each_stands_in_the_status(code: str) -> None:
    account = Account()
    account.memory.fails["RequestServiceQuotaIncrease"] = code
    kept = account.look()
    assert kept.error == ""
    expected = {"ResourceAlreadyExistsException": ("open", 0), "NoSuchResourceException": ("no_such_quota", 2)}
    assert (account.verdict(NAME), kept.problems) == expected.get(code, ("not_asked", 2))
    why = next(one["why"] for one in account.people.status["quotas"] if one["name"] == NAME)
    assert f"{code}: as the test says" in why


def test_a_value_that_was_raised_between_reading_and_asking_is_enough() -> None:
    account = Account()
    ask = account.memory.service.operations["RequestServiceQuotaIncrease"]

    def raised_first(params: dict[str, Any]) -> dict[str, Any]:
        account.memory.values.set(NAME, 16)
        return ask(params)

    account.memory.service.operations["RequestServiceQuotaIncrease"] = raised_first
    assert account.look().problems == 0
    assert account.verdict(NAME) == "enough"


def test_a_quota_that_aws_does_not_raise_is_a_problem_and_is_not_asked_for() -> None:
    account = Account()
    account.memory.fixed.add("L-09B4A649")
    assert account.look().problems == 1
    assert account.verdict(NAME) == "not_adjustable"
    assert NAME not in account.memory.asked()


@pytest.mark.parametrize("call", ["GetServiceQuota", "ListRequestedServiceQuotaChangeHistory"])
def test_a_read_that_fails_asks_for_nothing(call: str) -> None:
    account = Account()
    account.memory.fails[call] = "ServiceException"
    assert account.look().problems > 0
    assert account.memory.asked() == {}


def test_a_function_whose_time_is_up_says_so_and_the_next_look_goes_on() -> None:
    account = Account()

    def up() -> None:
        raise OutOfTimeError("no time left")

    account.in_time = up
    kept = account.look()
    assert (kept.problems, kept.error) == (1, "OutOfTimeError: no time left")
    assert account.people.status["error"] == "OutOfTimeError: no time left"
    account.in_time = lambda: None
    assert account.look().asked == 2
    assert account.people.status["error"] is None


def test_what_was_asked_for_before_the_time_was_up_is_written_down() -> None:
    account = Account()

    def up_after_the_first_request() -> None:
        if account.memory.calls["RequestServiceQuotaIncrease"]:
            raise OutOfTimeError("no time left")

    account.in_time = up_after_the_first_request
    kept = account.look()
    assert (kept.error, kept.open, kept.problems) == ("", 1, 1)
    assert account.verdict(ACROSS) == "open"
    assert account.verdict(NAME) == "not_asked"


def test_a_record_of_another_version_is_read_anew() -> None:
    account = Account()
    account.item.spoil()
    assert account.look().error == ""
    assert account.look().open == 2
