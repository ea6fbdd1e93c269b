"""The record of denied IAM decisions, and a function's log under its own role."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest

from sandbox.cloud.denials import DENIALS_FILE, Denial, DenialLog, read_denials
from sandbox.cloud.deploy import Outputs
from sandbox.cloud.lifecycle import Cloud
from tests.sandbox.cloud.probe_plane import JOB_ROLE
from tests.sandbox.cloud.processes import wait_until

WORKER, WORKER_LOG = "tiny-worker", "/aws/lambda/tiny-worker"


def _client(cloud: Cloud, service: str) -> Any:
    return boto3.client(service, **cloud.client_arguments())  # type: ignore[call-overload]


def _invoke(cloud: Cloud, **event: Any) -> Any:
    answer = _client(cloud, "lambda").invoke(FunctionName=WORKER, Payload=json.dumps(event).encode())
    return json.loads(answer["Payload"].read())


def test_what_is_written_down_is_read_in_its_order(tmp_path: Path) -> None:
    assert read_denials(tmp_path) == []
    log = DenialLog(tmp_path)
    for action in ("s3:PutObject", "s3:GetObject"):
        log.add(principal="arn:aws:sts::1:assumed-role/job/SageMaker", action=action, resource="*")
    assert [(one.role, one.action) for one in read_denials(tmp_path)] == [
        ("job", "s3:PutObject"),
        ("job", "s3:GetObject"),
    ]


def test_a_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    DenialLog(tmp_path).add(principal="arn:aws:iam::1:user/u", action="s3:PutObject", resource="*")
    with (tmp_path / DENIALS_FILE).open("a") as file:
        file.write('{"at": 1.0, "princ')
    (denial,) = read_denials(tmp_path)
    assert denial.role == ""


def _newest(cloud: Cloud, before: int) -> list[tuple[str, str, str]]:
    def told(one: Denial) -> tuple[str, str, str]:
        return one.role, one.action, one.resource

    return [told(one) for one in cloud.denials()[before:]]


@pytest.mark.usefixtures("outputs")
def test_a_denied_request_is_written_down_and_an_allowed_one_is_not(cloud: Cloud) -> None:
    before = len(cloud.denials())
    assert _invoke(cloud, ask="put", table="tiny-runs") == "done"
    assert _newest(cloud, before) == []
    assert _invoke(cloud, ask="put", table="another-table") == "AccessDeniedException"
    ((role, action, resource),) = _newest(cloud, before)
    assert role.startswith("tiny-control-plane-WorkerServiceRole")
    assert action == "dynamodb:PutItem"
    assert resource.endswith(":table/another-table")


@pytest.mark.usefixtures("outputs")
def test_what_a_service_asks_of_a_role_and_is_denied_is_written_down(cloud: Cloud) -> None:
    before = len(cloud.denials())
    arn = "arn:aws:ecr:us-east-1:763104351884:repository/huggingface-pytorch-training"
    _client(cloud, "sagemaker").list_tags(ResourceArn=f"allowed {JOB_ROLE} ecr:BatchGetImage {arn}")
    assert _newest(cloud, before) == [(JOB_ROLE.rpartition("/")[2], "ecr:BatchGetImage", arn)]


def test_a_function_whose_role_may_not_log_runs_on_and_its_lines_are_lost(cloud: Cloud, outputs: Outputs) -> None:
    def logged(words: str) -> bool:
        found = _client(cloud, "logs").filter_log_events(logGroupName=WORKER_LOG)["events"]
        return any(words in event["message"] for event in found)

    iam = _client(cloud, "iam")
    role = _client(cloud, "lambda").get_function(FunctionName=WORKER)["Configuration"]["Role"].rpartition("/")[2]
    deny = {"Effect": "Deny", "Action": "logs:*", "Resource": "*"}
    iam.put_role_policy(
        RoleName=role,
        PolicyName="silent",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [deny]}),
    )
    try:
        _invoke(cloud, words="said in vain")
    finally:
        iam.delete_role_policy(RoleName=role, PolicyName="silent")
    _invoke(cloud, words="said and heard")
    assert wait_until(lambda: logged("said and heard"), within_seconds=5)
    assert not logged("said in vain")
