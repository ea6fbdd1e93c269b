"""The documented rates, with a clock of the test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sandbox.sagemaker.api import TrainingApi, service_model
from sandbox.sagemaker.profile import AWS, CALLS_PER_SECOND, FAST
from sandbox.sagemaker.rate_limits import RateLimits
from tests.sandbox.sagemaker.test_runner import FakeContext


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def limits(clock: Clock, burst_seconds: float = 1.0) -> RateLimits:
    return RateLimits(CALLS_PER_SECOND, burst_seconds, clock)


def admitted(limits: RateLimits, operation: str, calls: int) -> int:
    return sum(limits.admits(operation) for _ in range(calls))


def test_five_describes_fit_into_a_second_and_the_sixth_does_not() -> None:
    clock = Clock()
    bucket = limits(clock)
    assert admitted(bucket, "DescribeTrainingJob", 6) == 5
    clock.now += 0.2
    assert admitted(bucket, "DescribeTrainingJob", 2) == 1


def test_a_pause_of_an_hour_saves_up_no_more_than_the_burst() -> None:
    clock = Clock()
    bucket = limits(clock, burst_seconds=3.0)
    clock.now += 3600
    assert admitted(bucket, "ListTrainingJobs", 100) == 6


def test_operations_do_not_take_from_each_other() -> None:
    bucket = limits(Clock())
    assert admitted(bucket, "CreateTrainingJob", 2) == 1
    assert admitted(bucket, "StopTrainingJob", 2) == 1


def test_an_operation_without_a_documented_rate_is_not_limited() -> None:
    assert admitted(limits(Clock()), "ListTags", 1000) == 1000


def test_a_throttled_operation_is_refused_until_its_time_is_over_and_others_are_not() -> None:
    clock = Clock()
    bucket = limits(clock)
    bucket.throttle("CreateTrainingJob", 10)
    clock.now += 9.9
    assert not bucket.admits("CreateTrainingJob")
    assert bucket.admits("StopTrainingJob")
    clock.now += 0.2
    assert bucket.admits("CreateTrainingJob")


def test_the_fast_profile_has_the_documented_rates_and_differs_in_the_burst_alone() -> None:
    assert FAST.calls_per_second == AWS.calls_per_second
    assert AWS.calls_per_second["CreateTrainingJob"] == 1
    assert FAST.rate_burst_seconds > AWS.rate_burst_seconds


def test_the_api_answers_a_call_too_many_with_a_throttling_exception(tmp_path: Path) -> None:
    context: Any = FakeContext(tmp_path)
    api = TrainingApi(context, AWS, service_model())
    caller: Any = None  # nothing is asked of it
    answers = [api.handle("DescribeTrainingJob", {"TrainingJobName": "nobody"}, caller) for _ in range(6)]
    assert [body["message"] for _, body in answers[:5]] == ["Requested resource not found."] * 5
    assert answers[5] == (400, {"__type": "ThrottlingException", "message": "Rate exceeded"})
