import pytest

from holdfast.core.decide.decision import GiveUp, WaitUntil
from holdfast.core.decide.restart import LONGEST_BACKOFF_SECONDS, Restart, backoff_seconds, restart
from holdfast.core.manifest import Limits
from holdfast.core.model import Cause, Ledger

NOW = 1_000.0


def _restart(cause: Cause, ledger: Ledger, *, sealed_step: int | None = None, limits: Limits | None = None) -> Restart:
    return restart(
        cause=cause,
        basis="It died.",
        ledger=ledger,
        sealed_step=sealed_step,
        limits=limits or Limits(max_restarts=2, backoff_seconds=60),
        uid="uid",
        now=NOW,
    )


@pytest.mark.parametrize("cause", [Cause.USER_ERROR, Cause.REFUSED])
def test_what_would_happen_again_is_not_tried_again(cause: Cause) -> None:
    assert isinstance(_restart(cause, Ledger()).decision, GiveUp)


@pytest.mark.parametrize("cause", [Cause.HANG, Cause.PLATFORM, Cause.HARDWARE, Cause.CAPACITY, Cause.UNKNOWN])
def test_what_may_pass_is_tried_again(cause: Cause) -> None:
    found = _restart(cause, Ledger())
    assert isinstance(found.decision, WaitUntil)
    assert found.ledger.charged == {cause.value: 1}


def test_a_newer_checkpoint_makes_the_restart_free_immediate_and_clears_the_charges() -> None:
    spent = Ledger(restarts=7, charged={"hang": 2}, best_sealed_step=40)
    found = _restart(Cause.HANG, spent, sealed_step=80)
    assert isinstance(found.decision, WaitUntil)
    assert found.decision.due_at == NOW
    assert found.ledger == Ledger(restarts=8, charged={}, best_sealed_step=80)


def test_the_same_checkpoint_as_before_is_no_progress_and_is_charged() -> None:
    found = _restart(Cause.HANG, Ledger(best_sealed_step=80), sealed_step=80)
    assert found.ledger.charged == {"hang": 1}


def test_a_spent_budget_gives_up() -> None:
    assert isinstance(_restart(Cause.HANG, Ledger(charged={"hang": 2})).decision, GiveUp)


@pytest.mark.parametrize("cause", [Cause.CAPACITY, Cause.QUOTA])
def test_waiting_for_capacity_or_quota_is_never_given_up(cause: Cause) -> None:
    found = _restart(cause, Ledger(charged={cause.value: 500}))
    assert isinstance(found.decision, WaitUntil)
    assert found.decision.due_at - NOW <= LONGEST_BACKOFF_SECONDS


def test_another_cause_has_its_own_budget() -> None:
    assert isinstance(_restart(Cause.PLATFORM, Ledger(charged={"hang": 2})).decision, WaitUntil)


def test_no_restarts_allowed_gives_up_at_once_unless_there_was_progress() -> None:
    none = Limits(max_restarts=0)
    assert isinstance(_restart(Cause.HANG, Ledger(), limits=none).decision, GiveUp)
    assert isinstance(_restart(Cause.HANG, Ledger(), limits=none, sealed_step=10).decision, WaitUntil)


@pytest.mark.parametrize("nth", range(1, 30))
def test_the_backoff_stays_within_its_doubling_bound(nth: int) -> None:
    bound = min(LONGEST_BACKOFF_SECONDS, 60 * 2 ** (nth - 1))
    assert 0.1 * bound <= backoff_seconds(60, nth, "uid") <= bound


def test_the_backoff_of_two_runs_differs_and_that_of_one_run_does_not() -> None:
    assert backoff_seconds(60, 3, "a") != backoff_seconds(60, 3, "b")
    assert backoff_seconds(60, 3, "a") == backoff_seconds(60, 3, "a")
