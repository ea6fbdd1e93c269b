"""The job's record: statuses, times and the three views of it."""

from __future__ import annotations

from typing import Any

from botocore.model import Shape

from sandbox.sagemaker.api import service_model
from sandbox.sagemaker.record import TrainingJob
from sandbox.sagemaker.shape_check import unknown_members, violations
from tests.sandbox.sagemaker.test_rules import a_request


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.25

    def __call__(self) -> float:
        return self.now


def a_job(clock: Clock, **more: Any) -> tuple[TrainingJob, list[tuple[str, str]]]:
    seen: list[tuple[str, str]] = []
    arn = "arn:aws:sagemaker:us-east-1:000000000000:training-job/job"

    def changed(job: TrainingJob) -> None:
        seen.append((job.status, job.secondary_status))

    return TrainingJob(a_request(**more), arn, changed=changed, now=clock), seen


def test_a_transition_ends_the_one_before_and_is_announced() -> None:
    clock = Clock()
    job, seen = a_job(clock)
    job.enter("Starting")
    clock.now += 5
    job.enter("Downloading")
    first, second = job.describe()["SecondaryStatusTransitions"]
    assert first["EndTime"] == second["StartTime"] == clock.now
    assert "EndTime" not in second
    assert seen == [("InProgress", "Starting"), ("InProgress", "Downloading")]


def test_a_message_changes_the_record_and_announces_nothing() -> None:
    clock = Clock()
    job, seen = a_job(clock)
    job.enter("Starting")
    clock.now += 1
    job.say("Launching requested ML instances")
    assert job.describe()["SecondaryStatusTransitions"][0]["StatusMessage"] == "Launching requested ML instances"
    assert job.last_modified == clock.now
    assert len(seen) == 1


def test_only_the_first_stop_counts() -> None:
    job, seen = a_job(Clock())
    job.enter("Training")
    assert job.begin_stopping()
    assert not job.begin_stopping()
    assert seen[-1] == ("Stopping", "Stopping")
    assert len(seen) == 2


def test_a_job_that_is_being_stopped_does_not_complete() -> None:
    job, _ = a_job(Clock())
    job.enter("Training")
    job.begin_stopping()
    assert not job.enter("Completed", status="Completed", expected="InProgress")
    assert job.status == "Stopping"


def test_a_failure_reason_is_cut_to_what_the_model_allows() -> None:
    job, _ = a_job(Clock())
    job.enter("Failed", status="Failed", reason="x" * 2000)
    assert job.describe()["FailureReason"] == "x" * 1024


def test_an_event_has_its_times_as_strings_of_milliseconds_and_its_tags_as_a_map() -> None:
    job, _ = a_job(Clock(), Tags=[{"Key": "team", "Value": "research"}], Environment={"A": "b"})
    job.enter("Starting")
    detail = job.event_detail()
    assert detail["CreationTime"] == "1800000000250"
    assert detail["SecondaryStatusTransitions"][0]["StartTime"] == "1800000000250"
    assert detail["Tags"] == {"team": "research"}
    assert "Environment" not in detail
    assert job.describe()["CreationTime"] == 1_800_000_000.25  # the record itself keeps numbers


def test_tags_are_not_described() -> None:
    job, _ = a_job(Clock(), Tags=[{"Key": "team", "Value": "research"}])
    assert "Tags" not in job.describe()
    assert job.add_tags({"b": "1", "team": "vision"}) == {"team": "vision", "b": "1"}


def test_every_view_is_what_the_model_says_in_every_state() -> None:
    model = service_model()
    describe = model.operation_model("DescribeTrainingJob").output_shape
    summary = model.shape_for("TrainingJobSummary")
    assert describe is not None
    clock = Clock()
    job, _ = a_job(clock, HyperParameters={"a": "1"}, CheckpointConfig={"S3Uri": "s3://bucket/checkpoints"})
    job.enter("Starting")
    for secondary in ("Downloading", "Training", "Uploading"):
        job.enter(secondary)
        _assert_valid(describe, job.describe())
        _assert_valid(summary, job.summary())
    job.mark("TrainingStartTime")
    job.record_metric("loss", 0.5, clock.now)
    clock.now += 90
    job.mark("TrainingEndTime")
    job.enter("Failed", status="Failed", reason="AlgorithmError: , exit code: 1")
    _assert_valid(describe, job.describe())
    _assert_valid(summary, job.summary())
    assert job.describe()["BillableTimeInSeconds"] == 90


def _assert_valid(shape: Shape, body: dict[str, Any]) -> None:
    assert unknown_members(shape, body) == []
    assert [str(found) for found in violations(shape, body)] == []
