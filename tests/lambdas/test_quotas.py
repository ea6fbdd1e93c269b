"""The quotas' handler as CloudFormation and the schedule call it: whatever happens, a deployment goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import lambdas.quotas
from holdfast.aws import quota_keeper
from holdfast.aws.quota_item import DynamoQuotaItem
from holdfast.aws.settings import QuotasSettings
from holdfast.core.quotas.wishes import InstanceQuota, QuotaNeeds, Quotas
from lambdas import wiring
from tests.aws.conftest import BUCKET, TABLE, Aws, aws
from tests.lambdas.test_publish import Context
from tests.memory_quotas import MemoryQuotas
from tests.response_url import CloudFormation, listening

__all__ = ["aws"]  # the fixture
NAME = "ml.p4d.24xlarge for training job usage"
NEEDS = QuotaNeeds(
    quotas=Quotas(instances=(InstanceQuota(instance_type="ml.p4d.24xlarge", on_demand=16),)),
    instance_types=("ml.p4d.24xlarge",),
    max_instances_per_run=16,
).model_dump_json()


class InTime(Context):
    def get_remaining_time_in_millis(self) -> int:
        return 300_000


@pytest.fixture
def cloudformation() -> Iterator[CloudFormation]:
    with listening() as service:
        yield service


@pytest.fixture
def memory(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> MemoryQuotas:
    """The deployed function's settings, and its account's Service Quotas."""
    topic = aws.sns.create_topic(Name="people")["TopicArn"]
    settings = QuotasSettings(bucket=BUCKET, table=TABLE, topic_arn=topic, teams="research,vision")
    for name, value in settings.to_env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("POWERTOOLS_TRACE_DISABLED", "1")
    quotas = MemoryQuotas()
    real = wiring.ServiceQuotas
    monkeypatch.setattr(wiring, "ServiceQuotas", lambda _, in_time: real(quotas.client(), in_time=in_time))
    return quotas


def deployed(cloudformation: CloudFormation, kind: str = "Create", **properties: str) -> dict[str, Any]:
    more = {"PhysicalResourceId": "quotas"} if kind != "Create" else {}
    return {**cloudformation.event(kind, **more), "ResourceProperties": {"Needs": NEEDS, **properties}}


def problems(capsys: pytest.CaptureFixture[str]) -> list[float]:
    """The metric as it stands in the log: CloudWatch's embedded metric format."""
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "QuotaProblems" in line]
    assert all(one["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Holdfast" for one in found)
    return [value for one in found for value in one["QuotaProblems"]]


def test_a_deployment_asks_for_what_is_short_and_its_status_says_so(
    aws: Aws, memory: MemoryQuotas, cloudformation: CloudFormation, capsys: pytest.CaptureFixture[str]
) -> None:
    lambdas.quotas.handler(deployed(cloudformation), InTime())
    assert [(one["Status"], one["PhysicalResourceId"]) for one in cloudformation.answers] == [("SUCCESS", "quotas")]
    assert memory.asked()[NAME] == 16
    status = json.loads(aws.s3.get_object(Bucket=BUCKET, Key="status/quotas.json")["Body"].read())
    assert {one["name"]: one["verdict"] for one in status["quotas"]}[NAME] == "open"
    entry = DynamoQuotaItem(aws.dynamodb, TABLE).get().entry(NAME)
    assert entry is not None
    assert entry.value == 0
    assert problems(capsys) == [0]


def test_the_schedule_does_the_same_and_tells_people_of_a_grant(
    aws: Aws, memory: MemoryQuotas, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = aws.sqs.create_queue(QueueName="inbox")["QueueUrl"]
    (topic,) = aws.sns.list_topics()["Topics"]
    arn = aws.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    filtered = {"FilterPolicy": json.dumps({"team": ["vision"]})}
    aws.sns.subscribe(TopicArn=topic["TopicArn"], Protocol="sqs", Endpoint=arn, Attributes=filtered)
    lambdas.quotas.handler({"needs": NEEDS}, InTime())
    memory.service.decide(NAME, None)
    lambdas.quotas.handler({"needs": NEEDS}, InTime())
    lambdas.quotas.handler({"needs": NEEDS}, InTime())
    messages = aws.sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
    assert [json.loads(one["Body"])["Subject"] for one in messages] == [f"Holdfast: quota granted: {NAME}"]
    assert problems(capsys) == [0, 0, 0]


def test_a_deletion_asks_for_nothing_and_reads_nothing(memory: MemoryQuotas, cloudformation: CloudFormation) -> None:
    lambdas.quotas.handler(deployed(cloudformation, "Delete"), InTime())
    assert [one["Status"] for one in cloudformation.answers] == ["SUCCESS"]
    assert not memory.calls


def test_an_error_of_service_quotas_fails_no_deployment_and_is_in_the_metric(
    memory: MemoryQuotas, cloudformation: CloudFormation, capsys: pytest.CaptureFixture[str]
) -> None:
    memory.fails["RequestServiceQuotaIncrease"] = "QuotaExceededException"
    lambdas.quotas.handler(deployed(cloudformation), InTime())
    assert [one["Status"] for one in cloudformation.answers] == ["SUCCESS"]
    assert problems(capsys) == [2]


def test_an_exception_that_nobody_expected_fails_no_deployment_and_is_in_the_metric(
    aws: Aws,
    memory: MemoryQuotas,
    cloudformation: CloudFormation,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(quota_keeper, "plan", broken)
    lambdas.quotas.handler(deployed(cloudformation), InTime())
    assert [one["Status"] for one in cloudformation.answers] == ["SUCCESS"]
    assert problems(capsys) == [1]
    status = json.loads(aws.s3.get_object(Bucket=BUCKET, Key="status/quotas.json")["Body"].read())
    assert status["error"] == "ZeroDivisionError: a mistake of ours"


def test_a_function_whose_time_runs_out_fails_no_deployment(
    memory: MemoryQuotas, cloudformation: CloudFormation, capsys: pytest.CaptureFixture[str]
) -> None:
    class Late(Context):
        def get_remaining_time_in_millis(self) -> int:
            return 1_000

    lambdas.quotas.handler(deployed(cloudformation), Late())
    assert [one["Status"] for one in cloudformation.answers] == ["SUCCESS"]
    assert not memory.calls
    assert problems(capsys) == [1]


@pytest.mark.filterwarnings("ignore:No application metrics to publish")  # a function that is killed writes none
def test_a_function_that_is_killed_on_the_way_has_answered_before(
    cloudformation: CloudFormation, memory: MemoryQuotas, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        """As Lambda's time-out: nothing of the function runs on."""

    def killed(*_: object) -> None:
        raise KilledError

    monkeypatch.setattr(lambdas.quotas, "keep_quotas", killed)
    with pytest.raises(KilledError):
        lambdas.quotas.handler(deployed(cloudformation), InTime())
    assert [one["Status"] for one in cloudformation.answers] == ["SUCCESS"]


@pytest.mark.parametrize("needs", ["", "{}", '{"quotas": 7}'])
def test_a_property_that_cannot_be_read_fails_no_deployment(
    memory: MemoryQuotas, cloudformation: CloudFormation, needs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lambdas.quotas.handler(deployed(cloudformation, Needs=needs), InTime())
    assert [one["Status"] for one in cloudformation.answers] == ["SUCCESS"]
    assert problems(capsys) == [1]


def test_a_function_without_its_settings_fails_no_deployment(
    cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HOLDFAST_BUCKET", raising=False)
    lambdas.quotas.handler(deployed(cloudformation), InTime())
    assert [one["Status"] for one in cloudformation.answers] == ["SUCCESS"]
    assert problems(capsys) == [1]
