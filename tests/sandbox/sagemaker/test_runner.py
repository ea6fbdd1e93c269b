"""Ends of a job that a whole emulator would show only by luck of timing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sandbox.cloud.context import Credentials, RoleNotAssumable
from sandbox.sagemaker.access import RoleClients
from sandbox.sagemaker.endings import INTERNAL_ERROR
from sandbox.sagemaker.plant import Plant
from sandbox.sagemaker.profile import FAST, Profile
from sandbox.sagemaker.record import TrainingJob
from sandbox.sagemaker.runner import JobRunner
from tests.sandbox.sagemaker.test_rules import a_request


@dataclass
class FakeContext:
    """A context of which a job before its start asks only permissions."""

    state_dir: Path
    denied: set[str] = field(default_factory=set)
    broken: bool = False
    endpoint_url: str = "http://127.0.0.1:9"
    region: str = "us-east-1"
    account: str = "000000000000"

    def is_allowed(self, role_arn: str, action: str, resource: str, condition: Mapping[str, str] | None = None) -> bool:
        if self.broken:
            raise OSError("the emulator has a defect")
        return action not in self.denied

    def assume_job_role(
        self, role_arn: str, *, session_name: str = "SageMaker", source_arn: str | None = None
    ) -> Credentials:
        raise RoleNotAssumable(f"Could not assume role {role_arn}.")

    def guard_process_group(self, pgid: int) -> None:
        raise AssertionError("no process was to be started")

    release_process_group = guard_process_group

    def emit_event(self, detail_type: str, detail: dict[str, Any], resources: Sequence[str]) -> None: ...


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    return FakeContext(tmp_path)


def a_runner(context: Any, profile: Profile, **request: Any) -> JobRunner:
    arn = "arn:aws:sagemaker:us-east-1:000000000000:training-job/job"
    job = TrainingJob(a_request(**request), arn, changed=lambda job: None)
    job.enter("Starting")
    clients = RoleClients(context, job.request["RoleArn"])
    return JobRunner(job, Plant.new(context, profile), clients=clients, folder=context.state_dir / "jobs" / job.name)


def statuses(runner: JobRunner) -> list[str]:
    return [transition["Status"] for transition in runner.job.describe()["SecondaryStatusTransitions"]]


WAITING = replace(FAST, starting_seconds=3600.0)
AT_ONCE = replace(FAST, starting_seconds=0.0)


def test_a_job_that_waits_for_capacity_is_stopped_at_once(context: FakeContext) -> None:
    runner = a_runner(context, WAITING)
    runner.start()
    runner.job.begin_stopping()
    runner.wake()
    runner.join(10)
    assert statuses(runner) == ["Starting", "Stopping", "Stopped"]
    assert "TrainingStartTime" not in runner.job.describe()


def test_a_job_is_left_as_it_is_when_the_emulator_ends(context: FakeContext) -> None:
    runner = a_runner(context, WAITING)
    runner.start()
    runner.abandon()
    runner.join(10)
    assert runner.job.status == "InProgress"
    assert not runner._thread.is_alive()


def test_a_role_that_may_not_write_metrics_fails_the_job_before_it_downloads(context: FakeContext) -> None:
    context.denied = {"cloudwatch:PutMetricData"}
    runner = a_runner(context, AT_ONCE)
    runner.start()
    runner.join(10)
    assert statuses(runner) == ["Starting", "Failed"]
    assert "not authorized to perform: cloudwatch:PutMetricData" in runner.job.describe()["FailureReason"]


def test_a_job_in_a_vpc_needs_the_network_interface_calls_and_another_does_not(context: FakeContext) -> None:
    context.denied = {"ec2:CreateNetworkInterface"}
    vpc = {"SecurityGroupIds": ["sg-0a1b2c3d"], "Subnets": ["subnet-0a1b2c3d"]}
    inside, outside = a_runner(context, AT_ONCE, VpcConfig=vpc), a_runner(context, AT_ONCE)
    for runner in (inside, outside):
        runner.start()
        runner.join(10)
    assert "ec2:CreateNetworkInterface" in inside.job.describe()["FailureReason"]
    assert "ec2" not in outside.job.describe().get("FailureReason", "")


def test_an_output_key_needs_a_role_that_may_use_it(context: FakeContext) -> None:
    context.denied = {"kms:GenerateDataKey"}
    key = "arn:aws:kms:us-east-1:000000000000:key/0a1b2c3d"
    runner = a_runner(context, AT_ONCE, OutputDataConfig={"S3OutputPath": "s3://bucket/out", "KmsKeyId": key})
    runner.start()
    runner.join(10)
    assert key in runner.job.describe()["FailureReason"]


def test_a_defect_of_the_sandbox_is_an_internal_error_and_not_the_jobs(context: FakeContext) -> None:
    context.broken = True
    runner = a_runner(context, AT_ONCE)
    runner.start()
    runner.join(10)
    assert runner.job.describe()["FailureReason"] == INTERNAL_ERROR
