"""Telemetry that lies or comes late: delays, silenced logs, frozen steps, GPU signatures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sandbox.sagemaker.delays import Delay
from sandbox.sagemaker.fault_plan import FaultPlan
from sandbox.sagemaker.line_faults import Delivered, LineFaults
from sandbox.sagemaker.metrics import Shipment, signature_utilization
from sandbox.sagemaker.profile import AWS, FAST, LAGGED, deviations

STEP = {"Name": "holdfast:step", "Regex": r"step=([0-9]+)"}
LOSS = {"Name": "loss", "Regex": r"loss=([0-9.]+)"}


def line_faults(plan: FaultPlan, job: str = "job") -> LineFaults:
    return LineFaults(job, [STEP, LOSS], plan)


class TestDelays:
    def test_a_job_is_as_late_in_every_draw_and_another_one_otherwise(self) -> None:
        delay = Delay(60, 300)
        draws = [delay.draw(0, job, "metrics") for job in ("a", "a", "b")]
        assert draws[0] == draws[1] != draws[2]
        assert delay.draw(1, "a", "metrics") != draws[0]

    def test_draws_stay_between_their_bounds_and_use_the_room(self) -> None:
        draws = [Delay(5, 60).draw(0, f"job-{number}", "logs") for number in range(200)]
        assert all(5 <= draw <= 60 for draw in draws)
        assert min(draws) < 15
        assert max(draws) > 50

    def test_the_lagged_profile_is_fast_but_as_late_as_aws(self) -> None:
        assert (LAGGED.log_delay, LAGGED.metric_delay) == (Delay(5, 60), Delay(60, 300))
        late = {"log_delay", "metric_delay", "late_after_end"}
        assert deviations(FAST).keys() - deviations(LAGGED).keys() == late
        assert AWS.late_after_end


class TestSilencedLogs:
    def test_a_line_goes_to_the_log_and_to_the_metrics(self) -> None:
        assert line_faults(FaultPlan()).of("step=7") == Delivered("step=7", "step=7")

    @pytest.mark.parametrize(("metrics", "delivered"), [(True, "step=7"), (False, None)])
    def test_a_silenced_line_reaches_no_log_and_its_metrics_as_the_fault_says(
        self, metrics: bool, delivered: str | None
    ) -> None:
        plan = FaultPlan()
        fault = plan.arm("SilenceLogs", "job", None, {"Metrics": metrics})
        assert line_faults(plan).of("step=7") == Delivered(None, delivered)
        assert line_faults(plan, "another").of("step=7").log == "step=7"
        plan.disarm(fault.id)
        assert line_faults(plan).of("step=7").log == "step=7"


class TestFrozenSteps:
    def test_the_step_stands_where_it_was_while_the_rest_of_the_line_goes_on(self) -> None:
        plan = FaultPlan()
        faults = line_faults(plan)
        assert faults.of("step=7 loss=0.5").log == "step=7 loss=0.5"
        plan.arm("FreezeStep", "job", None, {})
        assert faults.of("step=8 loss=0.4") == Delivered("step=7 loss=0.4", "step=7 loss=0.4")
        assert faults.of("no number").log == "no number"

    def test_a_step_that_was_never_seen_freezes_at_its_first(self) -> None:
        plan = FaultPlan()
        plan.arm("FreezeStep", "job", None, {})
        faults = line_faults(plan)
        assert [faults.of(f"step={step}").log for step in (3, 4)] == ["step=3", "step=3"]

    def test_another_metric_is_frozen_by_its_name(self) -> None:
        plan = FaultPlan()
        plan.arm("FreezeStep", "job", None, {"Metric": "loss"})
        faults = line_faults(plan)
        faults.of("step=1 loss=0.5")
        assert faults.of("step=2 loss=0.4").log == "step=2 loss=0.5"


@pytest.mark.parametrize(
    ("shape", "hosts"), [("flat-100", [800, 800, 800]), ("flat-0", [0, 0, 0]), ("split", [800, 0, 800])]
)
def test_a_gpu_signature_is_the_sum_over_the_hosts_gpus(shape: str, hosts: list[float]) -> None:
    assert [signature_utilization(shape, 8, number) for number in (1, 2, 3)] == hosts


class CloudWatch:
    def __init__(self) -> None:
        self.values: list[float] = []

    def client(self, service: str) -> Any:
        assert service == "cloudwatch"
        return self

    def put_metric_data(self, *, Namespace: str, MetricData: list[dict[str, Any]]) -> None:  # noqa: N803
        self.values += [datum["Value"] for datum in MetricData]


def test_a_value_is_sent_when_it_is_old_enough_and_once() -> None:
    cloudwatch = CloudWatch()
    shipment = Shipment(cloudwatch)
    now = datetime(2027, 1, 1, tzinfo=UTC)
    shipment.add([{"Timestamp": now - timedelta(seconds=age), "Value": age} for age in (90, 30)])
    shipment.send(older_than=now - timedelta(seconds=60))
    assert cloudwatch.values == [90]
    assert not shipment.empty
    shipment.send(older_than=None)
    shipment.send(older_than=None)
    assert cloudwatch.values == [90, 30]
    assert shipment.empty
