from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from holdfast.aws.evidence import Evidence
from holdfast.aws.observe import Observer
from holdfast.core.layout import job_name
from holdfast.core.model import Attempt, JobState, Phase, Run
from holdfast.core.observation import Absent, Job, Observation, Progress, Seals, Unknown
from tests.aws.conftest import BUCKET, REGION, Aws
from tests.aws.test_act import REQUEST
from tests.builders import a_run

NOW = 1_764_000_000.0
JOB = job_name("dev", "research", "tiny", 1)


def an_attempt(**fields: Any) -> Attempt:
    values: dict[str, Any] = {
        "number": 1,
        "job": JOB,
        "spec_hash": "s",
        "request_digest": "digest",
        "intended_at": NOW - 100,
        **fields,
    }
    return Attempt(**values)


def a_living_run(**fields: Any) -> Run:
    return a_run(phase=Phase.STARTING, attempts=(an_attempt(**fields),), next_number=2)


def observer(aws: Aws, sagemaker: Any = None) -> Observer:
    return Observer(
        sagemaker=sagemaker or aws.sagemaker,
        s3=aws.s3,
        evidence=Evidence(cloudwatch=aws.cloudwatch, logs=aws.logs, period_seconds=60),
        bucket=BUCKET,
        environment="dev",
        now=lambda: NOW,
    )


def create(aws: Aws, name: str = JOB, **tags: str) -> None:
    request = {**REQUEST, "TrainingJobName": name}
    aws.sagemaker.create_training_job(
        **request, Tags=[{"Key": key.replace("_", ":"), "Value": value} for key, value in tags.items()]
    )


def tags_of(run: Run) -> dict[str, str]:
    return {"holdfast_run": run.id, "holdfast_uid": run.uid, "holdfast_attempt": "1", "holdfast_request": "digest"}


def test_a_job_that_does_not_exist_is_absent(aws: Aws) -> None:
    assert observer(aws).observe(a_living_run()).job == Absent()


def test_a_job_with_this_very_intents_tags_is_ours(aws: Aws) -> None:
    run = a_living_run()
    create(aws, **tags_of(run))
    job = observer(aws).observe(run).job
    assert isinstance(job, Job)
    assert job.ours


@pytest.mark.parametrize("tag", ["holdfast_uid", "holdfast_attempt", "holdfast_request", "holdfast_run"])
def test_a_job_of_that_name_with_another_intents_tags_is_not_ours(aws: Aws, tag: str) -> None:
    run = a_living_run()
    create(aws, **{**tags_of(run), tag: "another"})
    job = observer(aws).observe(run).job
    assert isinstance(job, Job)
    assert not job.ours


def test_a_run_that_waits_for_its_time_costs_no_call(aws: Aws) -> None:
    sagemaker = boto3.client("sagemaker", region_name=REGION)
    with Stubber(sagemaker):  # any call would raise
        waiting = a_run(phase=Phase.WAITING, due_at=NOW + 1)
        assert observer(aws, sagemaker).observe(waiting) == Observation(NOW)


def test_before_a_new_attempt_the_living_jobs_of_the_run_and_its_seals_are_read(aws: Aws) -> None:
    sagemaker = boto3.client("sagemaker", region_name=REGION)
    family = JOB.removesuffix("a001")

    def summary(name: str, status: str) -> dict[str, Any]:
        return {
            "TrainingJobName": name,
            "TrainingJobArn": "arn:" + name,
            "CreationTime": datetime.now(UTC),
            "TrainingJobStatus": status,
        }

    with Stubber(sagemaker) as stub:
        # The filter is applied after the page is taken: an empty page is not the end.
        stub.add_response(
            "list_training_jobs", {"TrainingJobSummaries": [], "NextToken": "more"}, {"NameContains": family}
        )
        stub.add_response(
            "list_training_jobs",
            {
                "TrainingJobSummaries": [
                    summary(family + "a001", "Completed"),
                    summary(family + "a002", "Stopping"),
                    summary("x" + family + "a003", "InProgress"),
                ]
            },
            {"NameContains": family, "NextToken": "more"},
        )
        seen = observer(aws, sagemaker).observe(a_run())
    assert seen.live_jobs == (family + "a002",)
    assert seen.seals == Seals(None)


@pytest.mark.parametrize("code", ["ThrottlingException", "AccessDeniedException", "InternalFailure"])
def test_a_failed_read_is_unknown_and_not_absent(aws: Aws, code: str) -> None:
    sagemaker = boto3.client("sagemaker", region_name=REGION)
    with Stubber(sagemaker) as stub:
        for _ in range(5):
            stub.add_client_error("describe_training_job", code, "words")
        seen = observer(aws, sagemaker).observe(a_living_run(seen_at=1.0)).job
    assert isinstance(seen, Unknown)
    assert "words" in seen.why


def described(aws: Aws, status: str, secondary: str, **fields: Any) -> Observation:
    began = datetime.fromtimestamp(NOW - 50, UTC)
    answer = {
        "TrainingJobName": JOB,
        "TrainingJobArn": f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{JOB}",
        "ModelArtifacts": {"S3ModelArtifacts": "s3://x/y"},
        "TrainingJobStatus": status,
        "SecondaryStatus": secondary,
        "AlgorithmSpecification": REQUEST["AlgorithmSpecification"],
        "ResourceConfig": REQUEST["ResourceConfig"],
        "StoppingCondition": REQUEST["StoppingCondition"],
        "CreationTime": began,
        "SecondaryStatusTransitions": [{"Status": "Training", "StartTime": began}],
        **fields,
    }
    sagemaker = boto3.client("sagemaker", region_name=REGION)
    with Stubber(sagemaker) as stub:
        stub.add_response("describe_training_job", answer, {"TrainingJobName": JOB})
        return observer(aws, sagemaker).observe(a_living_run(seen_at=1.0))


def test_a_training_job_is_read_with_its_step_and_without_its_hosts(aws: Aws) -> None:
    seen = described(aws, "InProgress", "Training")
    assert isinstance(seen.job, Job)
    assert (seen.job.state, seen.job.training_at) == (JobState.TRAINING, NOW - 50)
    assert isinstance(seen.progress, Progress)
    assert seen.hosts is None


def test_a_suspect_is_read_with_its_hosts_and_its_log(aws: Aws) -> None:
    long_ago = datetime.fromtimestamp(NOW - 9_000, UTC)
    seen = described(
        aws, "InProgress", "Training", SecondaryStatusTransitions=[{"Status": "Training", "StartTime": long_ago}]
    )
    assert seen.hosts == ()


def test_a_failed_job_is_read_with_its_reason_its_seals_and_its_tail(aws: Aws) -> None:
    seen = described(aws, "Failed", "Failed", FailureReason="AlgorithmError: x")
    assert isinstance(seen.job, Job)
    assert (seen.job.state, seen.job.failure_reason) == (JobState.FAILED, "AlgorithmError: x")
    assert seen.seals == Seals(None)
    assert seen.tail == ()
