"""Calls of Holdfast's own that AWS denies: said in words on every way that is still open, and no run stopped by it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from botocore.exceptions import ClientError

from holdfast.aws.errors import call_and_words, is_denied, unknown
from holdfast.core.decide.creation import CreateAnswer, CreateResult
from holdfast.core.model import Cause, Notice, Phase, Run
from holdfast.core.reconcile import Action, SendCreate
from tests.builders import a_manifest, a_run
from tests.fakes import FakeAccount, FakeStore, Watcher
from tests.observations import NOW


def refusal(operation: str, code: str = "AccessDenied") -> ClientError:
    said = f"User: arn:aws:sts::1:assumed-role/watcher/f is not authorized to perform: {operation}"
    return ClientError({"Error": {"Code": code, "Message": said}}, operation)


class ShutAccount(FakeAccount):
    """`shut` are the ways that are denied: status, notify, act."""

    def __init__(self, *shut: str) -> None:
        super().__init__(NOW)
        self.shut = set(shut)
        self.shown: list[Run] = []

    def status(self, run: Run, now: float) -> None:
        if "status" in self.shut:
            raise refusal("PutObject")
        self.shown.append(run)
        super().status(run, now)

    def notify(self, notice: Notice) -> None:
        if "notify" in self.shut:
            raise refusal("Publish", "AuthorizationError")
        super().notify(notice)

    def act(self, action: Action) -> CreateResult | None:
        if "act" in self.shut and not isinstance(action, SendCreate):
            raise refusal("StopTrainingJob", "AccessDeniedException")
        return super().act(action)


def story(account: ShutAccount) -> tuple[FakeStore, Watcher]:
    store = FakeStore(a_run(name="tiny"))
    return store, Watcher(store, account, status_refresh_seconds=0)


def the_run(store: FakeStore) -> Run:
    run = store.get("research", "tiny")
    assert run is not None
    return run


def test_a_status_that_may_not_be_written_is_told_by_a_notice_and_written_later() -> None:
    account = ShutAccount("status")
    store, watcher = story(account)
    for _ in range(3):
        watcher.sweep.run()
    assert "PutObject: AccessDenied" in the_run(store).denied
    assert "denied" in {one.kind for one in account.notices}
    assert the_run(store).attempt is not None
    account.shut.clear()
    watcher.sweep.run()
    assert the_run(store).denied == ""
    assert account.shown[-1].denied == ""


def test_a_notice_that_may_not_be_sent_stands_in_the_status_and_is_sent_later() -> None:
    account = ShutAccount("notify")
    store, watcher = story(account)
    account.answers.append(CreateResult(CreateAnswer.QUOTA, "the limit is 0"))
    for _ in range(3):
        watcher.sweep.run()
    assert "Publish: AuthorizationError" in account.shown[-1].denied
    assert {one.kind for one in the_run(store).notices} >= {"waiting", "denied"}
    account.shut.clear()
    watcher.sweep.run()
    assert {one.kind for one in account.notices} >= {"waiting", "denied"}
    assert the_run(store).notices == ()
    watcher.sweep.run()
    assert account.shown[-1].denied == ""


def test_a_stop_that_is_denied_is_said_on_the_run_and_made_at_a_later_look() -> None:
    account = ShutAccount()
    store, watcher = story(account)
    watcher.sweep.run()
    run = the_run(store)
    store.save(replace(run, manifest=a_manifest(state="stopped")))
    account.shut.add("act")
    (report,) = watcher.sweep.run().reports
    assert "AWS denied Holdfast a call: StopTrainingJob: AccessDeniedException" in report.error
    assert "StopTrainingJob" in the_run(store).denied
    account.shut.clear()
    watcher.sweep.run()
    assert [type(one).__name__ for one in account.calls][-1] == "SendStop"


def test_a_create_that_is_denied_waits_for_the_permission_whatever_the_budget() -> None:
    account = ShutAccount()
    limits = {"max_restarts": 0, "backoff_seconds": 0}
    store = FakeStore(a_run(name="tiny", manifest=a_manifest(limits=limits)))
    watcher = Watcher(store, account)
    account.answers.extend([CreateResult(CreateAnswer.DENIED, "iam:PassRole")] * 3)
    for _ in range(3):
        watcher.sweep.run()
        assert (the_run(store).phase, the_run(store).cause) == (Phase.WAITING, Cause.PERMISSION)
        account.now += 4_000
    watcher.sweep.run()
    assert the_run(store).phase is Phase.STARTING


def test_a_sweep_whose_index_may_not_be_read_says_so_and_gives_its_lease_back(monkeypatch: pytest.MonkeyPatch) -> None:
    account = ShutAccount()
    store, watcher = story(account)

    def denied() -> None:
        raise refusal("Query", "AccessDeniedException")

    with monkeypatch.context() as patched:
        patched.setattr(store, "active", denied)
        swept = watcher.sweep.run()
    assert swept.denied
    assert "No run was looked at. AWS denied Holdfast a call: Query: AccessDeniedException" in swept.words
    assert len(watcher.sweep.run().reports) == 1


def test_an_event_whose_run_may_not_be_read_is_reported_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    store, watcher = story(ShutAccount())

    def denied(team: str, name: str) -> None:
        raise refusal("GetItem", "AccessDeniedException")

    monkeypatch.setattr(store, "get", denied)
    (report,) = watcher.reconciler.for_job("sandbox-research-tiny-a001", run="research/tiny")
    assert "GetItem: AccessDeniedException" in report.error


@pytest.mark.parametrize("code", ["AccessDenied", "AccessDeniedException", "AuthorizationError", "403"])
def test_each_services_word_for_a_denial_is_known(code: str) -> None:
    assert is_denied(refusal("PutObject", code))
    assert unknown("checkpoints", refusal("GetObject", code)).denied


def test_a_throttled_call_is_no_denial() -> None:
    slow = refusal("PutObject", "SlowDown")
    assert not is_denied(slow)
    assert not unknown("checkpoints", slow).denied
    assert call_and_words(slow).startswith("PutObject: SlowDown: ")
