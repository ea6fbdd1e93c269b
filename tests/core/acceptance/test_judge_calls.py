"""What is made of calls that were refused, counted, or let through."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from holdfast.core.acceptance import judge_calls
from holdfast.core.acceptance.finding import Verdict
from holdfast.core.acceptance.judge_calls import ASSUMED_WORDS, CHECKS
from holdfast.core.acceptance.seen import Answer, CallsSeen, JobSeen, KeysSeen, Missing, MutedSeen, PoolSeen

THROTTLED = Answer(0.0, "ThrottlingException", "Rate exceeded")
UNKNOWN_JOB = Answer(0.0, "ValidationException", "Requested resource not found.")


@pytest.mark.parametrize(
    ("admitted", "verdict", "bound"),
    [(5, Verdict.AS_ASSUMED, False), (12, Verdict.DIFFERENT, False), (20, Verdict.DIFFERENT, True)],
)
def test_a_burst_counts_what_was_not_throttled(admitted: int, verdict: Verdict, bound: bool) -> None:
    answers = (UNKNOWN_JOB,) * admitted + (THROTTLED,) * (20 - admitted)
    found = judge_calls.burst(CallsSeen(burst=answers))
    assert (found.verdict, found.values["describes_at_once"]) == (verdict, admitted)
    assert found.values["is_lower_bound"] is bound


def test_a_burst_that_was_denied_says_nothing() -> None:
    assert judge_calls.burst(CallsSeen(burst=(Answer(0.0, "AccessDeniedException"),) * 20)).verdict is Verdict.UNKNOWN
    assert judge_calls.burst(CallsSeen()).verdict is Verdict.UNKNOWN


def test_calls_for_an_unknown_job_all_refused_alike_or_not() -> None:
    alike = {"Describe": UNKNOWN_JOB, "Delete": UNKNOWN_JOB}
    assert judge_calls.unknown_job(CallsSeen(unknown_job=alike)).verdict is Verdict.AS_ASSUMED
    other = {**alike, "Delete": Answer(0.0, "ResourceNotFound", "gone")}
    assert judge_calls.unknown_job(CallsSeen(unknown_job=other)).verdict is Verdict.DIFFERENT
    denied = {**alike, "Delete": Answer(0.0, "AccessDeniedException", "no")}
    assert judge_calls.unknown_job(CallsSeen(unknown_job=denied)).verdict is Verdict.UNKNOWN


def order(*checks: str) -> CallsSeen:
    """What a service that checks in this order answers to each pair of faults."""
    pairs = itertools.combinations(CHECKS, 2)
    return CallsSeen(order={pair: min(pair, key=checks.index) for pair in pairs})


def test_the_order_of_checks_is_worked_out_from_pairs() -> None:
    assert judge_calls.create_order(order(*CHECKS)).verdict is Verdict.AS_ASSUMED
    turned = ("role", "quotas", "rules", "inputs", "name")
    found = judge_calls.create_order(order(*turned))
    assert found.verdict is Verdict.DIFFERENT
    assert found.values["order_of_checks"] == list(turned)


def test_answers_in_a_circle_are_no_order_and_an_answer_that_names_no_fault_is_none() -> None:
    circle = {**order(*CHECKS).order, ("rules", "quotas"): "quotas"}
    found = judge_calls.create_order(CallsSeen(order=circle))
    assert (found.verdict, found.basis) == (Verdict.DIFFERENT, "there is no fixed order")
    vague = {**order(*CHECKS).order, ("rules", "quotas"): "ValidationException something else"}
    assert judge_calls.create_order(CallsSeen(order=vague)).verdict is Verdict.UNKNOWN
    assert judge_calls.create_order(CallsSeen()).verdict is Verdict.UNKNOWN


def test_words_of_refusals_as_assumed_others_and_none() -> None:
    same = {rule: Answer(0.0, "ValidationException", words) for rule, words in ASSUMED_WORDS.items()}
    assert judge_calls.refusal_wording(CallsSeen(wording=same)).verdict is Verdict.AS_ASSUMED
    other = {**same, "no_volume": Answer(0.0, "ValidationException", "Volume!")}
    assert judge_calls.refusal_wording(CallsSeen(wording=other)).values["other_words"] == ["no_volume"]
    accepted = {**same, "no_volume": Answer(0.0)}
    assert judge_calls.refusal_wording(CallsSeen(wording=accepted)).values["accepted"] == ["no_volume"]


def test_an_old_token_is_taken_or_refused_or_there_was_none() -> None:
    assert judge_calls.list_token(CallsSeen(token=Answer(0.0), token_age_seconds=70)).verdict is Verdict.AS_ASSUMED
    late = CallsSeen(token=Answer(0.0, "ValidationException", "Invalid NextToken"), token_age_seconds=70)
    assert judge_calls.list_token(late).verdict is Verdict.DIFFERENT
    assert judge_calls.list_token(CallsSeen(token=Missing("one job"))).basis == "one job"


PASS, CREATE = "iam:PassRole", "sagemaker:CreateTrainingJob"


def test_a_key_is_filled_where_the_caller_got_as_far_as_passing_the_role() -> None:
    seen = KeysSeen({"a": PASS, "b": CREATE}, control_allowed=PASS, control_denied=CREATE)
    found = judge_calls.condition_keys(seen)
    assert (found.verdict, found.values) == (Verdict.DIFFERENT, {"filled": ["a"], "not_filled": ["b"]})
    assert judge_calls.condition_keys(replace(seen, denied={"a": PASS})).verdict is Verdict.AS_ASSUMED
    assert judge_calls.condition_keys(replace(seen, denied={"a": "ThrottlingException"})).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(("allowed", "denied"), [(CREATE, CREATE), (PASS, PASS), ("accepted", CREATE)])
def test_without_its_controls_nothing_is_said_of_a_key(allowed: str, denied: str) -> None:
    seen = KeysSeen({"a": PASS}, control_allowed=allowed, control_denied=denied)
    assert judge_calls.condition_keys(seen).verdict is Verdict.UNKNOWN


def ended(status: str) -> JobSeen:
    return JobSeen("nologs", "job", 1, 0.0, 5.0, status=status)


def test_a_job_that_goes_on_without_its_logs_is_different() -> None:
    seen = MutedSeen(ended("Failed"), ended("Failed"), (), 10.0)
    assert judge_calls.missing_permission(seen).verdict is Verdict.AS_ASSUMED
    found = judge_calls.missing_permission(replace(seen, without_logs=ended("Completed")))
    assert found.verdict is Verdict.DIFFERENT
    assert found.values == {"fails_without_logs": False, "fails_without_metrics": True}
    missing = replace(seen, without_metrics=Missing("refused"))
    assert judge_calls.missing_permission(missing).verdict is Verdict.UNKNOWN
    assert judge_calls.missing_permission(replace(seen, without_logs=ended("InProgress"))).verdict is Verdict.UNKNOWN


def test_a_new_roles_refusals_are_read_where_there_are_any() -> None:
    refused = Answer(1.0, "ValidationException", "Could not assume role x.")
    seen = MutedSeen(ended("Failed"), ended("Failed"), (refused, Answer(9.0)), 9.0)
    assert judge_calls.new_role(seen).verdict is Verdict.AS_ASSUMED
    odd = replace(seen, spreading=(replace(refused, code="AccessDeniedException"), Answer(9.0)))
    assert judge_calls.new_role(odd).verdict is Verdict.DIFFERENT
    assert judge_calls.new_role(replace(seen, spreading=(Answer(1.0),))).verdict is Verdict.UNKNOWN
    assert judge_calls.new_role(replace(seen, usable_after_seconds=None)).verdict is Verdict.UNKNOWN


def test_a_page_that_is_filtered_first_holds_the_job_with_the_pool() -> None:
    seen = PoolSeen(ended("Completed"), "Available", "newer", ("job",), more=False)
    assert judge_calls.warm_pool_list(seen).verdict is Verdict.AS_ASSUMED
    assert judge_calls.warm_pool_list(replace(seen, first_page=(), more=True)).verdict is Verdict.DIFFERENT
    assert judge_calls.warm_pool_list(replace(seen, first_page=())).verdict is Verdict.UNKNOWN
    assert judge_calls.warm_pool_list(replace(seen, pool_status="Terminated")).verdict is Verdict.UNKNOWN
    assert judge_calls.warm_pool_list(replace(seen, job=Missing("quota 0"))).basis == "quota 0"
