"""However the emulator ends, no process of a job outlives it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from sandbox.cloud.lifecycle import running_cloud
from sandbox.sagemaker.processes import with_environment
from tests.sandbox.sagemaker.conftest import BUCKET, PLANE, Lab
from tests.sandbox.sagemaker.test_faults import TICKING


def remaining(job: str) -> list[int]:
    """Processes of both hosts; the name of a job of these tests is unique."""
    return with_environment("TRAINING_JOB_NAME", job)


@pytest.mark.parametrize("killed", [False, True], ids=["in order", "by SIGKILL"])
def test_no_process_of_a_job_outlives_the_emulator(tmp_path: Path, killed: bool) -> None:
    with running_cloud(tmp_path / ("killed" if killed else "with a blank"), planes=[PLANE]) as cloud:
        lab = Lab(cloud)
        lab.client("s3").create_bucket(Bucket=BUCKET)
        job = lab.create(lab.request(TICKING, role=lab.role(), hosts=2))
        for host in ("algo-1", "algo-2"):
            lab.wait_for_line(job, "tick 1", host)
        lab.faults.freeze_hosts(job, "algo-1")
        assert len(remaining(job)) == 4
        if killed:
            os.kill(cloud.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while remaining(job) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert remaining(job) == []
