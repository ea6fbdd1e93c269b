"""Jobs that leave their hosts to the next one, and the two operations that end a pool or a job's record."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.sandbox.sagemaker.conftest import Lab
from tests.sandbox.sagemaker.test_api import refusal
from tests.sandbox.sagemaker.test_lifecycle import PRELUDE

SAYS_WHERE = PRELUDE + 'print(cluster["current_host"])'


def pooled(lab: Lab, role: str, script: str = SAYS_WHERE, keep_alive: int = 600, **more: Any) -> dict[str, Any]:
    request = lab.request(script, role=role, **more)
    request["ResourceConfig"]["KeepAlivePeriodInSeconds"] = keep_alive
    return request


def pool(lab: Lab, job: str) -> Any:
    return lab.describe(job).get("WarmPoolStatus", {}).get("Status")


def end_pool(lab: Lab, job: str) -> None:
    lab.client("sagemaker").update_training_job(TrainingJobName=job, ResourceConfig={"KeepAlivePeriodInSeconds": 0})


class TestWarmPools:
    def test_a_matching_job_takes_over_the_hosts(self, lab: Lab) -> None:
        role = lab.role()  # pools match by role: one of its own keeps other tests' jobs away
        first = lab.create(pooled(lab, role))
        assert pool(lab, first) == "InUse"
        lab.wait_for(first, "Completed")
        assert pool(lab, first) == "Available"
        second = lab.create(pooled(lab, role))
        assert lab.describe(first)["WarmPoolStatus"]["ReusedByJob"] == second
        assert pool(lab, second) == "InUse"
        lab.wait_for(second, "Completed")
        assert (pool(lab, first), pool(lab, second)) == ("Reused", "Available")
        assert lab.lines(first) == lab.lines(second)
        end_pool(lab, second)
        assert pool(lab, second) == "Terminated"

    def test_a_job_that_does_not_match_gets_other_hosts(self, lab: Lab) -> None:
        role = lab.role()
        first = lab.run(pooled(lab, role))["TrainingJobName"]
        other = pooled(lab, role)
        other["ResourceConfig"]["VolumeSizeInGB"] = 11
        second = lab.run(other)["TrainingJobName"]
        assert pool(lab, first) == "Available"
        assert lab.lines(first) != lab.lines(second)
        for job in (first, second):
            end_pool(lab, job)

    def test_a_job_without_a_period_uses_a_pool_up(self, lab: Lab) -> None:
        role = lab.role()
        first = lab.run(pooled(lab, role))["TrainingJobName"]
        second = lab.run(lab.request(SAYS_WHERE, role=role))["TrainingJobName"]
        assert lab.lines(first) == lab.lines(second)
        assert (pool(lab, first), pool(lab, second)) == ("Reused", None)

    @pytest.mark.parametrize(
        ("ending", "kept"), [("error of the script", True), ("stopped", True), ("platform", False)]
    )
    def test_a_pool_stays_after_an_end_that_leaves_the_hosts_health_out_of_doubt(
        self, lab: Lab, ending: str, kept: bool
    ) -> None:
        name = f"pool-{uuid.uuid4().hex[:8]}"
        script = "raise SystemExit(1)" if ending == "error of the script" else "import time; time.sleep(60)"
        if ending == "platform":
            lab.faults.internal_server_error(name)
        job = lab.create(pooled(lab, lab.role(), script, name=name))
        if ending == "stopped":
            lab.wait_for(job, "Training")
            lab.stop(job)
        lab.wait_for(job, "Failed", "Stopped")
        assert pool(lab, job) == ("Available" if kept else "Terminated")
        if kept:
            end_pool(lab, job)

    def test_jobs_are_listed_by_the_state_of_their_pool(self, lab: Lab) -> None:
        job = lab.run(pooled(lab, lab.role()))["TrainingJobName"]

        def listed(status: str) -> list[str]:
            found = lab.client("sagemaker").list_training_jobs(NameContains=job, WarmPoolStatusEquals=status)
            return [entry["WarmPoolStatus"]["Status"] for entry in found["TrainingJobSummaries"]]

        assert (listed("Available"), listed("InUse")) == (["Available"], [])
        end_pool(lab, job)

    def test_a_job_without_a_pool_has_none_to_update(self, lab: Lab, role: str) -> None:
        job = lab.run(lab.request("", role=role))["TrainingJobName"]
        update = lab.client("sagemaker").update_training_job
        code, message = refusal(update, TrainingJobName=job, ResourceConfig={"KeepAlivePeriodInSeconds": 60})
        assert (code, "has no warm pool" in message) == ("ValidationException", True)

    def test_what_of_an_update_is_not_emulated_says_so(self, lab: Lab, role: str) -> None:
        job = lab.create(lab.request("", role=role))
        update = lab.client("sagemaker").update_training_job
        _, message = refusal(update, TrainingJobName=job, RemoteDebugConfig={"EnableRemoteDebug": True})
        assert message == "Not emulated by the sandbox: UpdateTrainingJob with RemoteDebugConfig"


class TestDeletion:
    def test_an_ended_job_is_gone_and_its_name_is_free(self, lab: Lab, role: str) -> None:
        request = lab.request("", role=role)
        job = lab.run(request)["TrainingJobName"]
        sagemaker = lab.client("sagemaker")
        sagemaker.delete_training_job(TrainingJobName=job)
        assert refusal(sagemaker.describe_training_job, TrainingJobName=job)[1] == "Requested resource not found."
        assert lab.run(request)["TrainingJobStatus"] == "Completed"

    def test_a_job_that_lives_is_not_deleted(self, lab: Lab, role: str) -> None:
        job = lab.create(lab.request("import time; time.sleep(60)", role=role))
        delete = lab.client("sagemaker").delete_training_job
        code, message = refusal(delete, TrainingJobName=job)
        assert (code, "is in status InProgress" in message) == ("ResourceInUse", True)
        lab.stop(job)
        lab.wait_for(job, "Stopped")
        delete(TrainingJobName=job)

    def test_a_job_that_keeps_a_pool_is_not_deleted_before_the_pool_ends(self, lab: Lab) -> None:
        job = lab.run(pooled(lab, lab.role()))["TrainingJobName"]
        delete = lab.client("sagemaker").delete_training_job
        assert refusal(delete, TrainingJobName=job)[0] == "ResourceInUse"
        end_pool(lab, job)
        delete(TrainingJobName=job)
