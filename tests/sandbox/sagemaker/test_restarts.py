"""Jobs whose hosts end and that go on under their name: spot interruption, in-job retry, cluster repair."""

from __future__ import annotations

import uuid
from typing import Any

from tests.sandbox.sagemaker.conftest import BUCKET, LOG_GROUP, Lab
from tests.sandbox.sagemaker.test_lifecycle import PRELUDE, statuses

ONE_LIFE = ["Starting", "Downloading", "Training"]
GPU = "ml.g5.xlarge"

# The first life waits until it is ended from outside; what it left in its checkpoints tells the second one to finish.
TWICE = (
    PRELUDE
    + """
folder = base / "checkpoints"
found = sorted(path.name for path in folder.iterdir())
print("life", len(found) + 1, "at", cluster["current_host"], flush=True)
(folder / f"life-{len(found) + 1}").write_text("x")
if not found:
    time.sleep(120)
"""
)


def a_job(lab: Lab, role: str, *, script: str = TWICE, instance_type: str = "ml.m5.xlarge", **more: Any) -> str:
    request = lab.request(script, role=role, **more)
    prefix = f"checkpoints/{request['TrainingJobName']}/"
    request["CheckpointConfig"] = {"S3Uri": f"s3://{BUCKET}/{prefix}"}
    request["ResourceConfig"]["InstanceType"] = instance_type
    job = lab.create(request)
    if script is TWICE:
        lab.until(lambda: lab.keys(prefix))  # the first life's checkpoint is uploaded
    return job


def spot(max_wait: int = 60) -> dict[str, Any]:
    limits = {"MaxRuntimeInSeconds": min(60, max_wait), "MaxWaitTimeInSeconds": max_wait}
    return {"EnableManagedSpotTraining": True, "StoppingCondition": limits}


def streams(lab: Lab, job: str) -> list[str]:
    listed = lab.client("logs").describe_log_streams(logGroupName=LOG_GROUP, logStreamNamePrefix=f"{job}/algo-1-")
    return [stream["logStreamName"] for stream in listed["logStreams"]]


def lives(lab: Lab, job: str) -> list[str]:
    return [line for line in lab.lines(job) if line.startswith("life")]


class TestSpot:
    def test_an_interrupted_job_comes_back_under_its_name_with_its_checkpoints(self, lab: Lab, role: str) -> None:
        job = a_job(lab, role, **spot())
        lab.faults.interrupt_spot(job)
        described = lab.wait_for(job, "Completed")
        assert statuses(described) == [*ONE_LIFE, "Interrupted", *ONE_LIFE, "Uploading", "Completed"]
        assert described["EnableManagedSpotTraining"] is True
        assert described["BillableTimeInSeconds"] <= described["TrainingTimeInSeconds"]
        first, second = lives(lab, job)
        assert (first.split()[1], second.split()[1]) == ("1", "2")
        assert first.split()[3] != second.split()[3]  # other hosts
        assert len(streams(lab, job)) == 2

    def test_an_on_demand_job_is_not_interrupted(self, lab: Lab, role: str) -> None:
        job = a_job(lab, role)
        fault = lab.faults.interrupt_spot(job)
        lab.stop(job)
        assert statuses(lab.wait_for(job, "Stopped")) == [*ONE_LIFE, "Stopping", "Stopped"]
        lab.faults.disarm(fault)  # it was never spent

    def test_a_job_that_waits_for_capacity_past_its_limit_is_stopped(self, lab: Lab, role: str) -> None:
        name = f"spot-{uuid.uuid4().hex[:8]}"
        lab.faults.delay_capacity(name, seconds=30)
        described = lab.run(lab.request("", role=role, name=name, **spot(max_wait=1)))
        assert described["TrainingJobStatus"] == "Stopped"
        assert statuses(described) == ["Starting", "Stopping", "MaxWaitTimeExceeded"]


class TestRetry:
    def test_an_internal_error_is_retried_as_often_as_the_strategy_says(self, lab: Lab, role: str) -> None:
        name = f"retry-{uuid.uuid4().hex[:8]}"
        lab.faults.internal_server_error(name, count=2)
        script = "import time; time.sleep(0.5); print('ran')"
        described = lab.run(lab.request(script, role=role, name=name, RetryStrategy={"MaximumRetryAttempts": 2}))
        assert statuses(described) == [
            *(*ONE_LIFE, "Restarting", *ONE_LIFE, "Restarting", *ONE_LIFE),
            "Uploading",
            "Completed",
        ]
        assert described["RetryStrategy"] == {"MaximumRetryAttempts": 2}
        assert len(streams(lab, name)) == 3

    def test_one_more_than_that_fails_the_job(self, lab: Lab, role: str) -> None:
        name = f"retry-{uuid.uuid4().hex[:8]}"
        lab.faults.internal_server_error(name, count=2)
        script = "import time; time.sleep(30)"
        described = lab.run(lab.request(script, role=role, name=name, RetryStrategy={"MaximumRetryAttempts": 1}))
        assert described["FailureReason"].startswith("InternalServerError: ")
        assert statuses(described).count("Restarting") == 1

    def test_a_container_that_fails_is_not_retried(self, lab: Lab, role: str) -> None:
        request = lab.request("raise SystemExit(2)", role=role, RetryStrategy={"MaximumRetryAttempts": 5})
        described = lab.run(request)
        assert described["FailureReason"] == "AlgorithmError: , exit code: 2"
        assert "Restarting" not in statuses(described)

    def test_the_time_limit_covers_all_lives_together(self, lab: Lab, role: str) -> None:
        name = f"retry-{uuid.uuid4().hex[:8]}"
        lab.faults.internal_server_error(name, count=30, after_seconds=0.7)
        request = lab.request("import time; time.sleep(60)", role=role, name=name)
        request |= {"RetryStrategy": {"MaximumRetryAttempts": 30}, "StoppingCondition": {"MaxRuntimeInSeconds": 2}}
        described = lab.run(request)
        assert statuses(described)[-1] == "MaxRuntimeExceeded"
        assert statuses(described).count("Restarting") >= 1


class TestRepair:
    def test_a_failed_gpu_job_is_repaired_on_new_hosts_and_not_billed_for_it(self, lab: Lab, role: str) -> None:
        job = a_job(lab, role, instance_type=GPU)
        lab.faults.repair_cluster(job)
        lab.faults.kill_hosts(job)
        described = lab.wait_for(job, "Completed")
        assert statuses(described) == [*ONE_LIFE, "Restarting", *ONE_LIFE, "Uploading", "Completed"]
        (repair,) = [one for one in described["SecondaryStatusTransitions"] if one["Status"] == "Restarting"]
        assert repair["StatusMessage"] == "Repairing training cluster due to hardware failure"
        first, second = lives(lab, job)
        assert first.split()[3] != second.split()[3]
        assert "FailureReason" not in described

    def test_a_failed_job_without_that_fault_or_without_gpus_just_fails(self, lab: Lab, role: str) -> None:
        healthy = a_job(lab, role, instance_type=GPU)
        cpu = a_job(lab, role)
        lab.faults.repair_cluster(cpu)
        for job in (healthy, cpu):
            lab.faults.kill_hosts(job)
            assert lab.wait_for(job, "Failed")["FailureReason"] == "AlgorithmError: , exit code: 137"

    def test_ten_repairs_are_the_limit(self, lab: Lab, role: str) -> None:
        name = f"repair-{uuid.uuid4().hex[:8]}"
        lab.faults.repair_cluster(name, count=None)
        request = lab.request("raise SystemExit(1)", role=role, name=name)
        request["ResourceConfig"]["InstanceType"] = GPU
        described = lab.wait_for(lab.create(request), "Failed", seconds=60)
        assert statuses(described).count("Restarting") == 10


def test_a_job_is_stopped_between_two_lives(lab: Lab, role: str) -> None:
    job = a_job(lab, role, **spot())
    lab.faults.delay_capacity(job, seconds=60)
    lab.faults.interrupt_spot(job)
    lab.until(lambda: statuses(lab.describe(job))[-2:] == ["Interrupted", "Starting"])
    lab.stop(job)
    assert statuses(lab.wait_for(job, "Stopped"))[-2:] == ["Stopping", "Stopped"]
