"""Refusals and endings that are armed, each beside a job that does not match and is left alone."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.sagemaker.client import Armed, FaultClient, FaultError
from tests.sandbox.sagemaker.conftest import Lab
from tests.sandbox.sagemaker.test_api import refusal
from tests.sandbox.sagemaker.test_lifecycle import PRELUDE, metric, statuses

Arming = Callable[[FaultClient, str], Armed]


def a_name(word: str) -> str:
    return f"{word}-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize(
    ("arm", "reason", "passed"),
    [
        (
            FaultClient.refuse_capacity_while_pending,
            "CapacityError: Unable to provision requested ML compute capacity. Please retry using a different ML",
            ["Starting", "Failed"],
        ),
        (FaultClient.insufficient_capacity, "InsufficientCapacityError: ", ["Starting", "Failed"]),
        (FaultClient.fail_health_check, "The health check failed on algo-1", ["Starting", "Failed"]),
        (
            FaultClient.fail_image_pull,
            "ClientError: Cannot pull algorithm container.",
            ["Starting", "Downloading", "Training", "Failed"],
        ),
        (
            FaultClient.internal_server_error,
            "InternalServerError: We encountered an internal error. Please try again.",
            ["Starting", "Downloading", "Training", "Uploading", "Failed"],
        ),
        (
            FaultClient.fail_upload,
            "ClientError: Artifact upload failed:Error 5: Received a failed archive status.",
            ["Starting", "Downloading", "Training", "Uploading", "Failed"],
        ),
    ],
)
def test_an_ending_that_was_armed_comes_once_with_its_words(
    lab: Lab, role: str, arm: Arming, reason: str, passed: list[str]
) -> None:
    family = a_name("ending")
    arm(lab.faults, f"{family}-*")
    script = "import time; time.sleep(0.4)"
    first = lab.create(lab.request(script, role=role, name=f"{family}-1"))
    described = lab.wait_for(first, "Failed")
    assert described["FailureReason"].startswith(reason)
    assert statuses(described) == passed
    assert lab.run(lab.request(script, role=role, name=f"{family}-2"))["TrainingJobStatus"] == "Completed"


class TestRefusedAtCreate:
    def test_capacity_is_refused_in_the_words_of_a_quota_and_the_name_stays_free(self, lab: Lab, role: str) -> None:
        lab.faults.refuse_capacity_at_create((name := a_name("full")) + "*", count=2)
        request = lab.request("", role=role, name=name)
        create = lab.client("sagemaker").create_training_job
        for _ in range(2):
            code, message = refusal(create, **request)
            assert code == "ResourceLimitExceeded"
            assert message.startswith("The account-level service limit 'ml.m5.xlarge for training job usage' is ")
            assert "and a request delta of 1 Instances. Please contact AWS support" in message
        assert lab.run(request)["TrainingJobStatus"] == "Completed"

    def test_a_quota_counts_the_instances_of_jobs_that_live_and_frees_them_at_their_end(
        self, lab: Lab, role: str
    ) -> None:
        lab.faults.set_quota("ml.c5.2xlarge for training job usage", 2)

        def request(script: str) -> dict[str, Any]:
            asked = lab.request(script, role=role)
            asked["ResourceConfig"]["InstanceType"] = "ml.c5.2xlarge"
            return asked

        holding = request("import time; time.sleep(60)")
        holding["ResourceConfig"]["InstanceCount"] = 2
        job = lab.create(holding)
        code, message = refusal(lab.client("sagemaker").create_training_job, **request(""))
        assert code == "ResourceLimitExceeded"
        assert "is 2 Instances, with current utilization of 2 Instances and a request delta of 1 Instances" in message
        lab.stop(job)
        lab.wait_for(job, "Stopped")
        assert lab.create(request(""))

    def test_an_answer_that_is_lost_leaves_a_job_that_the_next_create_finds(self, lab: Lab, role: str) -> None:
        request = lab.request("", role=role)
        lab.faults.lose_answer(request["TrainingJobName"])
        status, body = lab.wire("CreateTrainingJob", request)
        assert (status, body["__type"]) == (500, "InternalFailure")
        status, body = lab.wire("CreateTrainingJob", request)
        assert (status, body["__type"]) == (400, "ResourceInUse")
        lab.wait_for(request["TrainingJobName"], "Completed")

    def test_a_throttled_operation_is_refused_and_another_one_is_not(self, lab: Lab) -> None:
        lab.faults.throttle("ListTrainingJobs", 0.6)
        status, body = lab.wire("ListTrainingJobs", {})
        assert (status, body) == (400, {"__type": "ThrottlingException", "message": "Rate exceeded"})
        assert lab.wire("DescribeTrainingJob", {"TrainingJobName": "nobody"})[1]["__type"] == "ValidationException"
        time.sleep(0.7)
        assert lab.wire("ListTrainingJobs", {})[0] == 200


class TestWaitingForCapacity:
    def test_a_job_waits_says_why_and_goes_on(self, lab: Lab, role: str) -> None:
        name = a_name("waiting")
        lab.faults.delay_capacity(name, seconds=1.0)
        job = lab.create(lab.request("", role=role, name=name))

        def waits() -> bool:
            (*_, last) = lab.describe(job)["SecondaryStatusTransitions"]
            return bool(
                last["StatusMessage"] == "Insufficient capacity error from EC2 while launching instances, retrying!"
            )

        lab.until(waits)
        assert statuses(lab.wait_for(job, "Completed"))[:2] == ["Starting", "Downloading"]

    def test_a_job_on_gpu_instances_is_shown_as_pending(self, lab: Lab, role: str) -> None:
        name = a_name("pending")
        lab.faults.delay_capacity(name, seconds=0.3)
        request = lab.request("", role=role, name=name)
        request["ResourceConfig"]["InstanceType"] = "ml.g5.xlarge"
        assert statuses(lab.run(request))[:3] == ["Starting", "Pending", "Downloading"]


class TestTelemetryThatLies:
    SCRIPT = (
        PRELUDE
        + """
for step in range(1, 400):
    print(f"step={step} beat={time.monotonic()}", flush=True)
    time.sleep(0.05)
"""
    )

    def job(self, lab: Lab, role: str, **more: Any) -> str:
        request = lab.request(self.SCRIPT, role=role, **more)
        request["AlgorithmSpecification"]["MetricDefinitions"] = [{"Name": "holdfast:step", "Regex": "step=([0-9]+)"}]
        job = lab.create(request)
        lab.until(lambda: lab.lines(job))
        return job

    def end(self, lab: Lab, job: str) -> None:
        lab.stop(job)
        lab.wait_for(job, "Stopped")

    def steps(self, lab: Lab, job: str) -> float:
        return max(metric(lab, "holdfast:step", "TrainingJobName", job, "Maximum"), default=0)

    def test_a_silent_job_goes_on_stepping_in_its_metric_alone(self, lab: Lab, role: str) -> None:
        job = self.job(lab, role)
        silenced = lab.faults.silence_logs(job)
        time.sleep(0.8)  # what was read before is on its way
        lines, step = len(lab.lines(job)), self.steps(lab, job)
        lab.until(lambda: self.steps(lab, job) > step + 10)
        assert len(lab.lines(job)) == lines
        lab.faults.disarm(silenced)
        lab.until(lambda: len(lab.lines(job)) > lines)
        self.end(lab, job)

    def test_a_frozen_step_stands_while_lines_go_on(self, lab: Lab, role: str) -> None:
        job = self.job(lab, role)
        lab.faults.freeze_step(job)
        time.sleep(0.8)
        lines, step = len(lab.lines(job)), self.steps(lab, job)
        lab.until(lambda: len(lab.lines(job)) > lines + 20)
        assert self.steps(lab, job) == step
        assert lab.lines(job)[-1].startswith(f"step={step:.0f} beat=")
        self.end(lab, job)

    def test_gpus_read_what_the_fault_says_and_cpus_what_they_do(self, lab: Lab, role: str) -> None:
        job = a_name("pinned")
        lab.faults.gpu_signature(job, "split")
        self.job(lab, role, name=job, hosts=2)

        def gpus(host: str) -> set[float]:
            return set(metric(lab, "GPUUtilization", "Host", f"{job}/{host}"))

        lab.until(lambda: gpus("algo-1") and gpus("algo-2"))
        assert (gpus("algo-1"), gpus("algo-2")) == ({200.0}, {0.0})  # two synthetic GPUs a host
        assert max(metric(lab, "CPUUtilization", "Host", f"{job}/algo-2")) > 0
        self.end(lab, job)

    def test_late_lines_still_come_when_the_job_has_ended(self, lab: Lab, role: str) -> None:
        name = a_name("late")
        lab.faults.delay_telemetry(name, log_seconds=2.0, metric_seconds=1.0)
        job = lab.run(lab.request("print('said')", role=role, name=name))["TrainingJobName"]
        assert lab.lines(job) == []
        lab.until(lambda: lab.lines(job) == ["said"])


def test_what_struck_and_what_waits_is_told(lab: Lab, role: str) -> None:
    name = a_name("told")
    waiting = lab.faults.fail_upload(name, count=2)
    assert waiting in lab.faults.armed()
    assert lab.run(lab.request("", role=role, name=name))["TrainingJobStatus"] == "Failed"
    (struck,) = [fault for fault in lab.faults.injected() if fault.job == name]
    assert (struck.kind, struck.hosts) == ("FailUpload", {})
    assert [fault.left for fault in lab.faults.armed() if fault.id == waiting.id] == [1]
    lab.faults.disarm(waiting)
    with pytest.raises(FaultError, match="is not armed"):
        lab.faults.disarm(waiting)


def test_a_fault_that_cannot_be_is_refused_in_words(lab: Lab) -> None:
    with pytest.raises(FaultError, match="give one of flat-100, flat-0, split"):
        lab.faults.gpu_signature("job", "round")
    with pytest.raises(FaultError, match="Seconds: -1 is no number of 0 or more"):
        lab.faults.throttle("ListTrainingJobs", -1)
