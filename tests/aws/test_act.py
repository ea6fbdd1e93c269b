from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ParamValidationError
from botocore.stub import Stubber

from holdfast.aws.act import Actor
from holdfast.core.decide.creation import CreateAnswer, CreateResult
from holdfast.core.reconcile import RemoveEndRequest, SendCreate, SendEndRequest, SendStop
from holdfast_agent.contract import EndRequest, parse_end_request
from tests.aws.conftest import BUCKET, REGION, Aws

REQUEST: dict[str, Any] = {
    "TrainingJobName": "dev-research-tiny-00000000-a001",
    "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
    "RoleArn": "arn:aws:iam::123456789012:role/holdfast-dev-us-east-1-research",
    "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/output/research/tiny/"},
    "ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 50},
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
}


def _stubbed() -> tuple[Actor, Stubber]:
    sagemaker = boto3.client("sagemaker", region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")
    return Actor(sagemaker=sagemaker, s3=boto3.client("s3", region_name=REGION), bucket=BUCKET), Stubber(sagemaker)


def _answer_to(code: str, message: str) -> CreateResult:
    actor, stub = _stubbed()
    stub.add_client_error("create_training_job", code, message)
    with stub:
        result = actor.act(SendCreate(REQUEST["TrainingJobName"], REQUEST))
    assert result is not None
    return result


def test_a_job_is_created_with_the_request_as_it_is(aws: Aws) -> None:
    actor = Actor(sagemaker=aws.sagemaker, s3=aws.s3, bucket=BUCKET)
    assert actor.act(SendCreate(REQUEST["TrainingJobName"], REQUEST)) == CreateResult(CreateAnswer.CREATED)
    found = aws.sagemaker.describe_training_job(TrainingJobName=REQUEST["TrainingJobName"])
    assert found["RoleArn"] == REQUEST["RoleArn"]


def test_a_request_that_botocore_refuses_is_a_refusal_and_not_a_crash(aws: Aws) -> None:
    actor = Actor(sagemaker=aws.sagemaker, s3=aws.s3, bucket=BUCKET)
    result = actor.act(SendCreate("job", {**REQUEST, "Typo": 1}))
    assert result is not None
    assert result.answer is CreateAnswer.REFUSED
    assert "Typo" in result.words
    assert issubclass(ParamValidationError, Exception)


@pytest.mark.parametrize(
    ("code", "message", "answer"),
    [
        ("ResourceInUse", "Training job names must be unique", CreateAnswer.NAME_TAKEN),
        ("ResourceLimitExceeded", "The account-level service limit 'x' is 0 Instances", CreateAnswer.QUOTA),
        ("ValidationException", "1 validation error detected", CreateAnswer.REFUSED),
        ("ValidationException", "Could not assume role arn:aws:iam::1:role/x", CreateAnswer.DENIED),
        ("AccessDeniedException", "not authorized to perform: iam:PassRole", CreateAnswer.DENIED),
        ("ThrottlingException", "Rate exceeded", CreateAnswer.UNANSWERED),
        ("InternalFailure", "500", CreateAnswer.UNANSWERED),
    ],
)
def test_sagemakers_errors_become_our_answers_with_its_words(code: str, message: str, answer: CreateAnswer) -> None:
    result = _answer_to(code, message)
    assert result.answer is answer
    assert message in result.words


def test_stopping_a_job_that_ended_meanwhile_is_no_error() -> None:
    actor, stub = _stubbed()
    ended = "The request was rejected because the training job is in status Completed."
    stub.add_client_error("stop_training_job", "ValidationException", ended, expected_params={"TrainingJobName": "job"})
    with stub:
        assert actor.act(SendStop("job")) is None


def test_a_stop_that_is_throttled_is_raised_so_that_the_next_tick_repeats_it() -> None:
    actor, stub = _stubbed()
    stub.add_client_error("stop_training_job", "ThrottlingException", "Rate exceeded")
    with stub, pytest.raises(ClientError, match="Rate exceeded"):
        actor.act(SendStop("job"))


def test_the_end_request_lies_where_the_agent_polls_and_can_be_taken_back(aws: Aws) -> None:
    actor = Actor(sagemaker=aws.sagemaker, s3=aws.s3, bucket=BUCKET)
    request = EndRequest("job", 3, "Hung.", 12.0)
    actor.act(SendEndRequest("research", "tiny", request))
    body = aws.s3.get_object(Bucket=BUCKET, Key="control/research/tiny.json")["Body"].read()
    assert parse_end_request(body.decode()) == request
    actor.act(RemoveEndRequest("research", "tiny"))
    assert aws.s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0
