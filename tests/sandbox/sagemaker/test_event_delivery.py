"""Events that are lost, doubled and late, beside those that are none of these."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from sandbox.sagemaker.event_delivery import EventDelivery
from sandbox.sagemaker.fault_plan import FaultPlan
from sandbox.sagemaker.record import TrainingJob
from tests.sandbox.sagemaker.test_rules import a_request


class Bus:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def emit_event(self, detail_type: str, detail: dict[str, Any], resources: Sequence[str]) -> None:
        assert detail_type == "SageMaker Training Job State Change"
        self.seen.append(detail["SecondaryStatus"])


@pytest.fixture
def bus() -> Bus:
    return Bus()


def a_job(bus: Any, plan: FaultPlan) -> TrainingJob:
    arn = "arn:aws:sagemaker:us-east-1:000000000000:training-job/job"
    return TrainingJob(a_request(), arn, changed=EventDelivery(bus, plan).announce)


def lived(job: TrainingJob) -> None:
    for secondary in ("Starting", "Downloading", "Training"):
        job.enter(secondary)


def test_every_state_is_announced_once(bus: Bus) -> None:
    lived(a_job(bus, FaultPlan()))
    assert bus.seen == ["Starting", "Downloading", "Training"]


def test_a_lost_event_is_not_sent_and_the_next_one_is(bus: Bus) -> None:
    plan = FaultPlan()
    plan.arm("LoseEvents", "job", 2, None)
    lived(a_job(bus, plan))
    assert bus.seen == ["Training"]


def test_a_doubled_event_comes_twice(bus: Bus) -> None:
    plan = FaultPlan()
    plan.arm("DoubleEvents", "job", 1, None)
    lived(a_job(bus, plan))
    assert bus.seen == ["Starting", "Starting", "Downloading", "Training"]


def test_a_late_event_comes_after_a_newer_one_and_says_what_was(bus: Bus) -> None:
    plan = FaultPlan()
    plan.arm("DelayEvents", "job", 1, {"Seconds": 0.2})
    lived(a_job(bus, plan))
    assert bus.seen == ["Downloading", "Training"]
    deadline = time.monotonic() + 5
    while len(bus.seen) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert bus.seen == ["Downloading", "Training", "Starting"]
