"""The plane whose telemetry is as late as in AWS; the other tests' plane has every line at the job's end."""

from __future__ import annotations

from pathlib import Path

from sandbox.cloud.lifecycle import running_cloud
from tests.sandbox.sagemaker.conftest import BUCKET, Lab


def test_a_job_has_ended_before_its_lines_can_be_read(tmp_path: Path) -> None:
    with running_cloud(tmp_path, planes=["sandbox.sagemaker.lagged"]) as cloud:
        lab = Lab(cloud)
        lab.client("s3").create_bucket(Bucket=BUCKET)
        ended = lab.run(lab.request("print('said')", role=lab.role()))
        assert ended["TrainingJobStatus"] == "Completed"
        assert lab.lines(ended["TrainingJobName"]) == []


def test_a_job_of_the_other_plane_has_not(lab: Lab, role: str) -> None:
    ended = lab.run(lab.request("print('said')", role=role))
    assert lab.lines(ended["TrainingJobName"]) == ["said"]
