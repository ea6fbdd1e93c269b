"""The same calls to the sandbox, to botocore's models, and to moto where moto has the call.

moto is an independent reading of the same API. Its jobs complete at once and run nothing, so what is compared is what
both must have: the members and types of an answer, and the code of an error. Where the two differ, the reason stands
here beside the difference.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from sandbox.sagemaker.api import service_model
from sandbox.sagemaker.shape_check import unknown_members, violations
from tests.sandbox.sagemaker.conftest import BUCKET, Lab

MODEL = service_model()

ONLY_IN_MOTO = {
    # moto invents a metric definition and a metric for each job; the sandbox has those of the request.
    "DescribeTrainingJob": {"FinalMetricDataList", "AlgorithmSpecification.MetricDefinitions"},
}


def kinds(value: Any, path: str = "") -> dict[str, str]:
    """Each member of an answer by its path, with its type; a list is judged by its first item."""
    if isinstance(value, dict):
        found: dict[str, str] = {}
        for name, inner in value.items():
            found |= kinds(inner, f"{path}.{name}".lstrip("."))
        return found or {path: "map"}
    if isinstance(value, list):
        return {path: "list"} | (kinds(value[0], f"{path}[]") if value else {})
    if isinstance(value, datetime):
        return {path: "timestamp"}
    return {path: "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__}


class Service:
    """One implementation of the API, called through boto3."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def answer(self, operation: str, **params: Any) -> dict[str, Any]:
        body: dict[str, Any] = getattr(self._client, operation)(**params)
        del body["ResponseMetadata"]
        return body

    def error(self, operation: str, **params: Any) -> str:
        with pytest.raises(ClientError) as caught:
            self.answer(operation, **params)
        return str(caught.value.response["Error"]["Code"])


@pytest.fixture
def moto(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield Service(boto3.client("sagemaker", region_name="us-east-1"))


@pytest.fixture
def sandbox(lab: Lab) -> Service:
    return Service(lab.client("sagemaker"))


def a_request(lab: Lab, role: str) -> dict[str, Any]:
    request = {
        **lab.request("import time; print('step=1'); time.sleep(0.5)", role=role),
        "Tags": [{"Key": "team", "Value": "research"}],
    }
    request["HyperParameters"] = {"a": "1"}
    request["CheckpointConfig"] = {"S3Uri": f"s3://{BUCKET}/checkpoints/{request['TrainingJobName']}/"}
    return request


class TestAgainstMoto:
    def test_each_answer_has_the_members_of_motos_and_of_the_same_types(
        self, lab: Lab, role: str, moto: Service, sandbox: Service
    ) -> None:
        request = a_request(lab, role)
        name = request["TrainingJobName"]
        answers: dict[str, list[dict[str, Any]]] = {}
        for service in (moto, sandbox):
            arn = service.answer("create_training_job", **request)["TrainingJobArn"]
            if service is sandbox:
                lab.wait_for(name, "Completed")
            for operation, answer in (
                ("CreateTrainingJob", {"TrainingJobArn": arn}),
                ("DescribeTrainingJob", service.answer("describe_training_job", TrainingJobName=name)),
                ("ListTrainingJobs", service.answer("list_training_jobs", NameContains=name)),
                ("AddTags", service.answer("add_tags", ResourceArn=arn, Tags=[{"Key": "b", "Value": "2"}])),
                ("ListTags", service.answer("list_tags", ResourceArn=arn)),
            ):
                answers.setdefault(operation, []).append(answer)
        for operation, (theirs, ours) in answers.items():
            expected = {
                path: kind
                for path, kind in kinds(theirs).items()
                if not path.startswith(tuple(ONLY_IN_MOTO.get(operation, ("-",))))
            }
            assert expected.items() <= kinds(ours).items(), operation
            assert len(expected) >= 1
        assert [answer["TrainingJobArn"].partition("training-job/")[2] for answer in answers["CreateTrainingJob"]] == [
            name,
            name,
        ]

    def test_an_unknown_job_and_a_false_token_give_the_same_codes(self, moto: Service, sandbox: Service) -> None:
        for operation, params in (
            ("describe_training_job", {"TrainingJobName": "nobody"}),
            ("list_training_jobs", {"NextToken": "no-token"}),
        ):
            assert sandbox.error(operation, **params) == moto.error(operation, **params) == "ValidationException"

    def test_a_name_that_is_taken_is_refused_here_as_documented_and_overwritten_by_moto(
        self, lab: Lab, role: str, moto: Service, sandbox: Service
    ) -> None:
        request = a_request(lab, role)
        for service in (moto, sandbox):
            service.answer("create_training_job", **request)
        assert moto.answer("create_training_job", **request)
        assert sandbox.error("create_training_job", **request) == "ResourceInUse"


class TestAgainstTheModels:
    """On the wire, past botocore's parser, which forgives what it does not know."""

    def test_every_operation_answers_what_its_model_says_in_every_state_of_a_job(self, lab: Lab, role: str) -> None:
        request = a_request(lab, role)
        request["ResourceConfig"]["KeepAlivePeriodInSeconds"] = 60
        request["RetryStrategy"] = {"MaximumRetryAttempts": 1}
        request["AlgorithmSpecification"]["MetricDefinitions"] = [{"Name": "step", "Regex": "step=([0-9]+)"}]
        name = request["TrainingJobName"]
        lab.faults.internal_server_error(name)
        arn = f"arn:aws:sagemaker:us-east-1:{lab.cloud.account}:training-job/{name}"
        self.check(lab, "CreateTrainingJob", request)

        def ended() -> bool:
            described = self.check(lab, "DescribeTrainingJob", {"TrainingJobName": name})
            return bool(described["TrainingJobStatus"] == "Completed")

        lab.until(ended)
        assert {"Restarting", "Uploading", "Completed"} <= self.passed(lab, name)
        self.check(lab, "ListTrainingJobs", {"NameContains": name})
        self.check(lab, "AddTags", {"ResourceArn": arn, "Tags": [{"Key": "c", "Value": "d"}]})
        self.check(lab, "ListTags", {"ResourceArn": arn})
        ended_pool = {"TrainingJobName": name, "ResourceConfig": {"KeepAlivePeriodInSeconds": 0}}
        assert self.check(lab, "UpdateTrainingJob", ended_pool) == {"TrainingJobArn": arn}
        assert self.check(lab, "DeleteTrainingJob", {"TrainingJobName": name}) == {}

    def test_a_stopped_job_too(self, lab: Lab, role: str) -> None:
        name = lab.create(lab.request("import time; time.sleep(60)", role=role))
        assert self.check(lab, "StopTrainingJob", {"TrainingJobName": name}) == {}
        lab.wait_for(name, "Stopped")
        self.check(lab, "DescribeTrainingJob", {"TrainingJobName": name})

    @pytest.mark.parametrize(
        ("operation", "params", "code"),
        [
            ("CreateTrainingJob", {}, "ValidationException"),
            ("StopTrainingJob", {"TrainingJobName": "nobody"}, "ValidationException"),
            ("UpdateTrainingJob", {"TrainingJobName": "nobody"}, "ValidationException"),
            ("DeleteTrainingJob", {"TrainingJobName": "nobody"}, "ValidationException"),
            ("DeleteTrainingJob", {"TrainingJobName": 7}, "SerializationException"),
            ("ListTrainingJobs", {"MaxResults": 101}, "ValidationException"),
        ],
    )
    def test_errors_have_the_form_of_the_protocol(
        self, lab: Lab, operation: str, params: dict[str, Any], code: str
    ) -> None:
        status, body = lab.wire(operation, params)
        assert (status, body["__type"]) == (400, code)
        assert body.keys() == {"__type", "message"}

    def test_the_codes_that_are_raised_beyond_validation_are_the_operations_own(self) -> None:
        for operation, code in (
            ("CreateTrainingJob", "ResourceInUse"),
            ("CreateTrainingJob", "ResourceLimitExceeded"),
            ("DeleteTrainingJob", "ResourceInUse"),
        ):
            assert code in {shape.name for shape in MODEL.operation_model(operation).error_shapes}

    @staticmethod
    def check(lab: Lab, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        status, body = lab.wire(operation, params)
        assert status == 200, (operation, body)
        shape = MODEL.operation_model(operation).output_shape
        if shape is None:
            assert body == {}
        else:
            assert unknown_members(shape, body) == []
            assert [str(found) for found in violations(shape, body)] == []
        return body

    @staticmethod
    def passed(lab: Lab, name: str) -> set[str]:
        return {entry["Status"] for entry in lab.describe(name)["SecondaryStatusTransitions"]}


def test_two_names_do_not_meet(lab: Lab, role: str, sandbox: Service) -> None:
    """`job-1` must not be answered with `job-10`: names are compared whole by all but NameContains."""
    family = f"names-{uuid.uuid4().hex[:6]}"
    lab.create(lab.request("", role=role, name=f"{family}-10"))
    assert sandbox.error("describe_training_job", TrainingJobName=f"{family}-1") == "ValidationException"
    assert len(sandbox.answer("list_training_jobs", NameContains=f"{family}-1")["TrainingJobSummaries"]) == 1
