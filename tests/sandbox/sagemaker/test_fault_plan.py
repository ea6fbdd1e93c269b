"""When an armed fault strikes, and when not."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.sagemaker.fault_plan import FaultPlan


def armed(kind: str, pattern: str = "job-*", count: int | None = 1, **options: Any) -> FaultPlan:
    plan = FaultPlan()
    plan.arm(kind, pattern, count, options)
    return plan


def test_a_fault_with_a_count_strikes_so_often_over_all_its_jobs_and_is_then_spent() -> None:
    plan = armed("FailUpload", count=2)
    struck = [plan.take("FailUpload", job) is not None for job in ("job-1", "job-2", "job-3")]
    assert struck == [True, True, False]
    assert plan.armed() == []
    assert [entry["TrainingJobName"] for entry in plan.recorded()] == ["job-1", "job-2"]


def test_a_fault_without_a_count_strikes_until_it_is_disarmed() -> None:
    plan = FaultPlan()
    fault = plan.arm("LoseEvents", "*", None, None)
    assert all(plan.take("LoseEvents", "job") for _ in range(20))
    plan.disarm(fault.id)
    assert plan.take("LoseEvents", "job") is None


def test_only_jobs_of_the_pattern_are_hit() -> None:
    plan = armed("FailUpload", "team-run-*-a00?")
    assert plan.take("FailUpload", "team-run-0a1b-a0010") is None
    assert plan.take("FailUpload", "team-run-0a1b-a001") is not None


def test_a_fault_of_another_kind_does_not_strike() -> None:
    plan = armed("FailUpload")
    assert plan.take("HealthCheckFailed", "job-1") is None
    assert plan.take("FailUpload", "job-1") is not None


def test_a_fault_that_comes_after_some_seconds_waits_for_them() -> None:
    plan = armed("InternalServerError", AfterSeconds=5)
    assert plan.take("InternalServerError", "job-1", elapsed=4.9) is None
    assert plan.take("InternalServerError", "job-1", elapsed=5.0) is not None


def test_an_answer_is_lost_for_the_operation_that_was_named() -> None:
    plan = armed("LoseAnswer", Operation="StopTrainingJob")
    assert plan.take("LoseAnswer", "job-1", Operation="CreateTrainingJob") is None
    assert plan.take("LoseAnswer", "job-1", Operation="StopTrainingJob") is not None


def test_a_lasting_fault_holds_for_every_look_and_the_latest_one_counts() -> None:
    plan = armed("GpuSignature", count=None, Shape="flat-0")
    plan.arm("GpuSignature", "job-1", None, {"Shape": "split"})
    assert [plan.lasting("GpuSignature", job).text("Shape") for job in ("job-1", "job-1", "job-2")] == [  # type: ignore[union-attr]
        "split",
        "split",
        "flat-0",
    ]
    assert plan.lasting("GpuSignature", "other") is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("Nothing", "*", 1, {}), "Kind: there is no fault 'Nothing'; there are RefuseCapacityAtCreate"),
        (("FailUpload", "", 1, {}), "JobNamePattern: '' is no pattern"),
        (("FailUpload", "*", 0, {}), "Count: 0 is no number of times; give 1 or more"),
        (("GpuSignature", "*", 1, {}), "Count: GpuSignature holds until it is disarmed"),
        (("FailUpload", "*", 1, {"Seconds": 1}), r"Options: FailUpload has no Seconds \(it has: none\)"),
        (("DelayEvents", "*", 1, {"Seconds": -1}), "Options: Seconds -1 is no number of seconds"),
        (("GpuSignature", "*", None, {"Shape": "round"}), "give one of flat-100, flat-0, split"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_by_the_name_of_what_is_wrong(given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FaultPlan().arm(*given)
