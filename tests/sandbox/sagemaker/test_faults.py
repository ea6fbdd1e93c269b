"""Faults through the control API, and what the job looks like from outside while they last."""

from __future__ import annotations

import time

import pytest

from sandbox.sagemaker.client import FaultError
from tests.sandbox.sagemaker.conftest import Lab
from tests.sandbox.sagemaker.test_lifecycle import PRELUDE, metric

TICKING = (
    PRELUDE
    + """
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
tick = 0
while True:
    tick += 1
    print("tick", tick)
    deadline = time.monotonic() + 0.1
    while time.monotonic() < deadline:
        pass
"""
)


def test_a_frozen_job_is_silent_and_flat_and_still_in_progress_until_it_is_thawed(lab: Lab, role: str) -> None:
    job = lab.create(lab.request(TICKING, role=role, hosts=2))
    for host in ("algo-1", "algo-2"):
        lab.wait_for_line(job, "tick 3", host)
    fault = lab.faults.freeze_hosts(job)
    assert fault.hosts == {"algo-1": 2, "algo-2": 2}
    assert fault in lab.faults.injected()
    time.sleep(1.0)  # what was read before the freeze has been sent by now
    before = {host: lab.lines(job, host) for host in ("algo-1", "algo-2")}
    time.sleep(2.5)
    assert {host: lab.lines(job, host) for host in ("algo-1", "algo-2")} == before
    assert lab.describe(job)["SecondaryStatus"] == "Training"
    for name in ("CPUUtilization", "GPUUtilization"):
        assert min(metric(lab, name, "Host", f"{job}/algo-2", "Minimum")) == 0
    lab.faults.thaw_hosts(job, "algo-2")
    lab.until(lambda: len(lab.lines(job, "algo-2")) > len(before["algo-2"]))
    assert lab.lines(job, "algo-1") == before["algo-1"]
    lab.stop(job)  # algo-1 is frozen and cannot hear SIGTERM
    lab.wait_for(job, "Stopped")


def test_a_killed_host_fails_the_job(lab: Lab, role: str) -> None:
    job = lab.create(lab.request(TICKING, role=role, hosts=2))
    for host in ("algo-1", "algo-2"):
        lab.wait_for_line(job, "tick 1", host)
    assert lab.faults.kill_hosts(job, "algo-2").hosts == {"algo-2": 2}
    described = lab.wait_for(job, "Failed")
    assert described["FailureReason"] == "AlgorithmError: , exit code: 137"


def test_a_fault_needs_a_running_host(lab: Lab, role: str) -> None:
    with pytest.raises(FaultError, match="there is no training job 'nobody'"):
        lab.faults.freeze_hosts("nobody")
    job = lab.create(lab.request(TICKING, role=role))
    lab.wait_for_line(job, "tick 1")
    with pytest.raises(FaultError, match=r"'algo-7' of .* is not running \(running: algo-1\)"):
        lab.faults.freeze_hosts(job, "algo-7")
    lab.stop(job)
    lab.wait_for(job, "Stopped")
    with pytest.raises(FaultError, match="is not running"):
        lab.faults.thaw_hosts(job)
