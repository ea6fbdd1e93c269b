"""What runs in a deployed account: functions under their own role, events, retries, dead letters."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest

from sandbox.cloud.deploy import Outputs
from sandbox.cloud.lifecycle import Cloud
from tests.sandbox.cloud.probe_plane import JOB_ROLE
from tests.sandbox.cloud.processes import wait_until

pytestmark = pytest.mark.usefixtures("outputs")
WORKER = "tiny-worker"
WORKER_LOG = "/aws/lambda/tiny-worker"


def _client(cloud: Cloud, service: str, **other: Any) -> Any:
    return boto3.client(service, **{**cloud.client_arguments(), **other})  # type: ignore[call-overload]


def _invoke(cloud: Cloud, **event: Any) -> Any:
    answer = _client(cloud, "lambda").invoke(FunctionName=WORKER, Payload=json.dumps(event).encode())
    return json.loads(answer["Payload"].read())


def _logged(cloud: Cloud, words: str) -> list[str]:
    logs = _client(cloud, "logs")
    found = logs.filter_log_events(logGroupName=WORKER_LOG)["events"]
    return [event["message"] for event in found if words in event["message"]]


def _ask(cloud: Cloud, question: str) -> Any:
    (tag,) = _client(cloud, "sagemaker").list_tags(ResourceArn=question)["Tags"]
    return json.loads(tag["Value"])


# -- functions -------------------------------------------------------------------------------------


def test_a_function_has_the_session_of_its_own_role(cloud: Cloud, outputs: Outputs) -> None:
    arn = _invoke(cloud, ask="who")
    assert ":assumed-role/tiny-control-plane-WorkerServiceRole" in arn
    assert arn.endswith("/tiny-worker")


def test_a_function_may_do_what_its_role_allows(cloud: Cloud) -> None:
    assert _invoke(cloud, ask="put", table="tiny-runs") == "done"


def test_a_function_may_not_do_anything_else(cloud: Cloud) -> None:
    assert _invoke(cloud, ask="put", table="another-table") == "AccessDeniedException"


def test_a_function_sees_aws_sdk_and_its_asset_but_not_the_packages_around_the_emulator(cloud: Cloud) -> None:
    seen = _invoke(cloud, ask="modules", names=["boto3", "handler", "ministack", "pydantic", "pytest", "sandbox"])
    assert seen == {
        "boto3": True,
        "handler": True,
        "ministack": False,
        "pydantic": False,
        "pytest": False,
        "sandbox": False,
    }


def test_a_function_does_not_see_the_environment_of_who_started_the_cloud(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = _invoke(cloud, ask="environment")
    assert environment["BUCKET"] == "tiny-000000000000"
    assert environment["AWS_ACCESS_KEY_ID"].startswith("ASIA")
    assert "PYTEST_CURRENT_TEST" not in environment
    assert environment["HOME"].startswith(str(cloud.state_dir))


def test_a_function_that_takes_too_long_is_killed(cloud: Cloud) -> None:
    assert "Task timed out after 2.00 seconds" in _invoke(cloud, ask="sleep", seconds=30)["errorMessage"]


def test_what_a_function_prints_is_in_its_log(cloud: Cloud) -> None:
    _invoke(cloud, words="find these words")
    assert wait_until(lambda: bool(_logged(cloud, "find these words")), within_seconds=5)


def test_a_failed_event_is_in_the_dead_letter_queue(cloud: Cloud) -> None:
    functions, queues = _client(cloud, "lambda"), _client(cloud, "sqs")
    functions.invoke(FunctionName=WORKER, InvocationType="Event", Payload=b'{"ask": "fail"}')
    url = queues.get_queue_url(QueueName="tiny-dead-letters")["QueueUrl"]
    answer = queues.receive_message(QueueUrl=url, WaitTimeSeconds=10, MessageAttributeNames=["All"])
    (message,) = answer["Messages"]
    assert json.loads(message["Body"]) == {"ask": "fail"}
    assert message["MessageAttributes"]["ErrorMessage"]["StringValue"] == "asked to fail"


def test_reserved_concurrency_reaches_the_function(cloud: Cloud) -> None:
    concurrency = _client(cloud, "lambda").get_function_concurrency(FunctionName=WORKER)
    assert concurrency["ReservedConcurrentExecutions"] == 5


# -- events ----------------------------------------------------------------------------------------


def test_an_object_that_matches_the_rule_starts_the_function(cloud: Cloud) -> None:
    _client(cloud, "s3").put_object(Bucket="tiny-000000000000", Key="manifests/research/first.yaml", Body=b"x")
    _client(cloud, "s3").put_object(Bucket="tiny-000000000000", Key="status/research/first.json", Body=b"x")
    assert wait_until(lambda: bool(_logged(cloud, "manifests/research/first.yaml")), within_seconds=10)
    assert not _logged(cloud, "status/research/first.json")


def test_an_event_of_the_service_reaches_the_rule(cloud: Cloud) -> None:
    client = _client(cloud, "sagemaker")
    client.create_training_job(**_job("tiny-by-root"))
    assert wait_until(lambda: bool(_logged(cloud, "SageMaker Training Job State Change")), within_seconds=10)
    (event,) = map(json.loads, _logged(cloud, '"TrainingJobName": "tiny-by-root"'))
    assert event["source"] == "aws.sagemaker"
    assert event["resources"] == ["arn:aws:sagemaker:us-east-1:000000000000:training-job/tiny-by-root"]


def test_nobody_else_can_pretend_to_be_the_service(cloud: Cloud) -> None:
    entry = {"Source": "aws.sagemaker", "DetailType": "SageMaker Training Job State Change", "Detail": "{}"}
    answer = _client(cloud, "events").put_events(Entries=[entry])
    assert answer["FailedEntryCount"] == 1


# -- a plugged-in service --------------------------------------------------------------------------


def _job(name: str, role: str = JOB_ROLE) -> dict[str, Any]:
    return {
        "TrainingJobName": name,
        "RoleArn": role,
        "OutputDataConfig": {"S3OutputPath": "s3://tiny-000000000000/output"},
        "ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
    }


def test_the_action_is_authorized_on_the_resource_s_own_arn(cloud: Cloud) -> None:
    assert _invoke(cloud, ask="create_job", request=_job("tiny-mine")) == "done"
    assert _invoke(cloud, ask="create_job", request=_job("other-job")) == "AccessDeniedException"


def test_passing_a_role_has_to_be_allowed(cloud: Cloud) -> None:
    not_mine = _job("tiny-with-another-role", role="arn:aws:iam::000000000000:role/tiny-lambda-only")
    assert _invoke(cloud, ask="create_job", request=not_mine) == "AccessDeniedException"


def test_an_unknown_key_is_refused(cloud: Cloud) -> None:
    stranger = _client(cloud, "sagemaker", aws_access_key_id="AKIAABCDEFGHIJKLMNOP")
    with pytest.raises(stranger.exceptions.ClientError, match="security token included in the request is invalid"):
        stranger.list_tags(ResourceArn="caller")


def test_the_handler_knows_its_caller(cloud: Cloud) -> None:
    assert _ask(cloud, "caller") == "arn:aws:iam::000000000000:root"


def test_a_session_of_the_job_s_role_is_held_to_its_policies(cloud: Cloud) -> None:
    keys = _ask(cloud, f"assume {JOB_ROLE}")
    _client(cloud, "s3").put_object(Bucket="tiny-000000000000", Key="data/tokens.bin", Body=b"tokens")
    job = _client(
        cloud,
        "s3",
        aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=keys["AWS_SESSION_TOKEN"],
    )
    assert job.get_object(Bucket="tiny-000000000000", Key="data/tokens.bin")["Body"].read() == b"tokens"
    with pytest.raises(job.exceptions.ClientError, match="AccessDenied"):
        job.get_object(Bucket="tiny-000000000000", Key="manifests/research/first.yaml")


@pytest.mark.parametrize("role", ["tiny-lambda-only", "no-such-role"])
def test_a_role_that_does_not_trust_sagemaker_cannot_be_assumed(cloud: Cloud, role: str) -> None:
    arn = f"arn:aws:iam::000000000000:role/{role}"
    assert _ask(cloud, f"assume {arn}") == (
        f"Could not assume role {arn}. Please ensure that the role exists and allows principal "
        "'sagemaker.amazonaws.com' to assume the role."
    )


@pytest.mark.parametrize(
    ("repository", "allowed"), [("pytorch-training", True), ("huggingface-pytorch-training", False)]
)
def test_a_role_s_policies_can_be_asked_without_a_call(cloud: Cloud, repository: str, allowed: bool) -> None:
    arn = f"arn:aws:ecr:us-east-1:763104351884:repository/{repository}"
    assert _ask(cloud, f"allowed {JOB_ROLE} ecr:BatchGetImage {arn}") is allowed


def test_an_unknown_role_is_allowed_nothing(cloud: Cloud) -> None:
    assert _ask(cloud, "allowed arn:aws:iam::000000000000:role/no-such-role ecr:BatchGetImage *") is False
