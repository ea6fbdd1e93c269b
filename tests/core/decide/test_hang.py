from dataclasses import replace

import pytest

from holdfast.core.decide.decision import AskToEnd, Keep, StopJob, WithdrawRequest
from holdfast.core.decide.hang import hang
from holdfast.core.detect.health import Health, Verdict
from holdfast.core.manifest import Watch
from holdfast.core.model import Attempt

NOW = 1_000.0
ATTEMPT = Attempt(number=1, job="job", spec_hash="s", request_digest="d", intended_at=0.0, seen_at=1.0)
WATCH = Watch(stall_after_seconds=60, ask_seconds=120)


def _decide(
    health: Health, attempt: Attempt = ATTEMPT, watch: Watch = WATCH
) -> Keep | AskToEnd | StopJob | WithdrawRequest:
    return hang(verdict=Verdict(health, "basis"), attempt=attempt, watch=watch, now=NOW)


def asked(seconds_ago: float) -> Attempt:
    return replace(ATTEMPT, hung_at=NOW - seconds_ago, asked_at=NOW - seconds_ago)


def test_a_hung_run_asks_its_agent_first() -> None:
    assert isinstance(_decide(Health.HUNG), AskToEnd)


@pytest.mark.parametrize("health", [one for one in Health if one is not Health.HUNG])
def test_nothing_short_of_hung_asks(health: Health) -> None:
    assert isinstance(_decide(health), Keep)


def test_shadow_mode_acts_on_nothing() -> None:
    assert isinstance(_decide(Health.HUNG, watch=Watch(mode="shadow")), Keep)


def test_the_job_is_stopped_only_when_asking_had_no_effect_in_time() -> None:
    assert isinstance(_decide(Health.HUNG, asked(119)), Keep)
    assert isinstance(_decide(Health.HUNG, asked(121)), StopJob)


@pytest.mark.parametrize("health", [Health.UNKNOWN, Health.SUSPECT, Health.STARTING])
def test_a_fresh_reading_that_does_not_say_hung_stops_nothing(health: Health) -> None:
    assert isinstance(_decide(health, asked(1_000)), Keep)


def test_a_step_that_moves_again_takes_the_request_back() -> None:
    assert isinstance(_decide(Health.HEALTHY, asked(10)), WithdrawRequest)


@pytest.mark.parametrize("health", [one for one in Health if one not in (Health.HUNG, Health.FINISHED)])
def test_a_request_is_taken_back_while_the_watcher_is_in_doubt_whatever_this_run_looks_like(health: Health) -> None:
    doubted = Verdict(health, "too many", doubted=True)
    for attempt, expected in ((asked(10), WithdrawRequest), (asked(500), WithdrawRequest), (ATTEMPT, Keep)):
        assert isinstance(hang(verdict=doubted, attempt=attempt, watch=WATCH, now=NOW), expected)


def test_a_job_that_was_stopped_is_not_asked_or_stopped_again() -> None:
    assert isinstance(_decide(Health.HUNG, replace(asked(500), stopped_at=NOW - 100)), Keep)
