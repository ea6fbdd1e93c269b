"""What is made of the run that was dropped by a manifest."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.acceptance.finding import Verdict
from holdfast.core.acceptance.judge_run import STEPS, frozen_host_metrics, product
from holdfast.core.acceptance.seen import RunSeen

FROZEN = {"outcome": "failed", "cause": "hang", "stopped": None}
RUN = RunSeen(
    marks={step: 100.0 * number for number, step in enumerate(STEPS)},
    attempts=(FROZEN, {"resumed_from_step": 20}, {"resumed_from_step": 60}),
    phase="succeeded",
    why="Training finished.",
    frozen_at=1_000.0,
    frozen_until=1_600.0,
    hosts=2,
    host_values={host: tuple((at, 1.0) for at in range(700, 1_601, 60)) for host in ("algo-1", "algo-2")},
)


def test_a_run_that_went_all_its_way_is_accepted_with_its_times() -> None:
    found = product(RUN)
    assert found.verdict is Verdict.AS_ASSUMED
    assert found.values["frozen_to_hung_seconds"] == 100
    assert found.values["ended_by_agent"] is True
    stopped = replace(RUN, attempts=({**FROZEN, "stopped": "2026"}, *RUN.attempts[1:]))
    assert product(stopped).values["ended_by_agent"] is False


def test_a_run_that_never_got_there_says_where_it_is() -> None:
    marks = {step: at for step, at in RUN.marks.items() if step in ("registered", "training", "frozen")}
    found = product(replace(RUN, marks=marks, phase="training", why="Not sure."))
    assert found.verdict is Verdict.DIFFERENT
    assert "the run never was hung; it is training: Not sure." in found.basis


def test_a_frozen_attempt_that_ended_for_another_cause_or_a_restart_from_nothing_is_different() -> None:
    other = replace(RUN, attempts=({**FROZEN, "cause": "user_error"}, *RUN.attempts[1:]))
    assert product(other).verdict is Verdict.DIFFERENT
    fresh = replace(RUN, attempts=(FROZEN, {"resumed_from_step": None}, RUN.attempts[2]))
    assert product(fresh).verdict is Verdict.DIFFERENT


def test_host_metrics_that_go_on_and_that_stop_while_the_hosts_are_frozen() -> None:
    assert frozen_host_metrics(RUN).verdict is Verdict.AS_ASSUMED
    stops = {**RUN.host_values, "algo-2": tuple((at, 1.0) for at in range(700, 1_001, 60))}
    assert frozen_host_metrics(replace(RUN, host_values=stops)).verdict is Verdict.DIFFERENT


def test_a_short_freeze_or_a_host_without_metrics_says_nothing() -> None:
    assert frozen_host_metrics(replace(RUN, frozen_until=1_060.0)).verdict is Verdict.UNKNOWN
    assert frozen_host_metrics(replace(RUN, host_values={})).verdict is Verdict.UNKNOWN
    assert frozen_host_metrics(replace(RUN, frozen_at=None)).verdict is Verdict.UNKNOWN
