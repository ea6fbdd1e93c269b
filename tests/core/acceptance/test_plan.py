"""What an acceptance costs at the most, and what is refused before anything is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.acceptance.pace import ACCOUNT, EMULATED, pace_of
from holdfast.core.acceptance.plan import ENDING_SECONDS, PlanError, make_plan, planned_jobs
from holdfast.core.acceptance.probes import TRIALS

ALL = {trial.id for trial in TRIALS}


def plan(**changed: Any) -> Any:
    asked = {
        "allowed_types": ["ml.p5.48xlarge", "ml.m5.xlarge", "ml.m5.2xlarge"],
        "region": "us-east-1",
        "pace": ACCOUNT,
        "trials": ALL,
        "usd_per_hour": None,
        "cost_cap_usd": 2.0,
    }
    return make_plan(**{**asked, **changed})


def test_all_of_it_stays_under_two_dollars_at_the_pace_of_an_account_on_the_cheapest_allowed_type() -> None:
    made = plan()
    assert made.instance_type == "ml.m5.xlarge"
    by_hand = sum(one.hosts * one.count * (one.longest_seconds + ENDING_SECONDS) for one in planned_jobs(ACCOUNT))
    assert made.worst_case_usd == pytest.approx(by_hand * 0.23 / 3_600)
    assert 1.0 < made.worst_case_usd < 2.0


def test_a_plan_above_the_cap_is_refused_and_the_cap_that_it_names_is_enough() -> None:
    with pytest.raises(PlanError, match=r"at worst this costs \$1\.\d\d, above the cap of \$0\.50") as refused:
        plan(cost_cap_usd=0.5)
    named = float(str(refused.value).split("--cost-cap-usd ")[1].split(")")[0])
    assert plan(cost_cap_usd=named).worst_case_usd <= named


def test_only_the_jobs_of_the_wanted_trials_are_counted() -> None:
    assert [one.trial for one in plan(trials={"talk"}).jobs] == ["talk"]
    assert plan(trials={"burst", "keys"}).worst_case_usd == 0


def test_a_config_without_a_small_cpu_type_is_refused_with_those_that_would_do() -> None:
    with pytest.raises(PlanError, match=r"instance_types: .*ml\.m5\.large"):
        plan(allowed_types=["ml.p5.48xlarge"])


def test_another_region_needs_a_price_and_is_counted_by_it() -> None:
    with pytest.raises(PlanError, match="--price-usd-per-hour"):
        plan(region="eu-west-1")
    made = plan(region="eu-west-1", usd_per_hour=0.1)
    assert made.usd_per_hour == 0.1
    assert made.worst_case_usd == pytest.approx(plan().worst_case_usd * 0.1 / 0.23)


def test_every_trial_that_holds_instances_is_in_the_plan() -> None:
    with_hosts = {trial.id: trial.hosts for trial in TRIALS if trial.hosts}
    planned: dict[str, int] = {}
    for one in planned_jobs(ACCOUNT):
        planned[one.trial] = planned.get(one.trial, 0) + one.hosts
    # The requests of `calls` are to be refused; a job of theirs is there by mistake alone.
    assert planned == {**with_hosts, "calls": 1}


def test_the_trial_that_a_refused_plan_proposes_is_one_that_there_is_and_that_fits() -> None:
    with pytest.raises(PlanError) as refused:
        plan(cost_cap_usd=0.2)
    named = str(refused.value).split("--only ")[1].rstrip(")")
    assert named in ALL
    assert plan(trials={named}, cost_cap_usd=0.2).worst_case_usd < 0.2


@pytest.mark.parametrize("pace", [ACCOUNT, EMULATED])
def test_what_is_waited_for_fits_into_the_jobs_longest_run(pace: Any) -> None:
    assert pace.talk_seconds < pace.longest_direct_seconds
    assert pace.linger_seconds + 120 <= pace.longest_direct_seconds or pace is EMULATED
    # A run that nobody watches any more ends by itself within one attempt.
    assert pace.run_steps * pace.step_seconds < pace.longest_attempt_seconds
    assert max(trial.hosts for trial in TRIALS) <= pace.instances_at_once


def test_the_sandbox_and_an_account_differ_in_nothing_but_waits() -> None:
    assert pace_of("emulated") is EMULATED
    assert pace_of("aws") is ACCOUNT
    assert replace(EMULATED, **vars(ACCOUNT)) == ACCOUNT
