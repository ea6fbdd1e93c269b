"""A run is held back for a quota that is known to be short, never for long and never at its own cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.decide.creation import CreateAnswer, CreateResult
from holdfast.core.decide.decision import CreateAttempt, SendIntent, WaitUntil
from holdfast.core.decide.holding import BELIEVED_SECONDS
from holdfast.core.model import Attempt, Cause, Phase, QuotaRefusal, Run, spec_hash
from holdfast.core.observation import Absent, Observation, Seals, Unknown
from holdfast.core.quotas.preflight import QuotaFacts
from holdfast.core.quotas.record import Entry
from holdfast.core.reconcile import Step, after_create, reconcile
from holdfast.core.registration import register
from holdfast.core.status import status_of
from tests.builders import a_manifest, a_run
from tests.fakes import intend

NOW = 2_000_000_000.0
NAME = "ml.m5.xlarge for training job usage"
SHORT = QuotaFacts({NAME: Entry(NAME, "L-CCE2AFA6", 0, NOW - 60)})
ENOUGH = QuotaFacts({NAME: Entry(NAME, "L-CCE2AFA6", 4, NOW - 60)})


def step(run: Run, quotas: QuotaFacts | Unknown | None, now: float = NOW, **seen: Any) -> Step:
    observation = Observation(now, live_jobs=(), seals=Seals(), quotas=quotas, **seen)
    return reconcile(run, observation, intend=intend, poll_seconds=60, doubt=None)


def test_a_run_that_is_known_not_to_fit_waits_with_the_quota_in_words() -> None:
    held = step(a_run(), SHORT)
    assert isinstance(held.decision, WaitUntil)
    assert held.actions == ()
    assert (held.run.phase, held.run.cause) == (Phase.WAITING, Cause.QUOTA)
    assert held.run.due_at is not None
    assert held.run.due_at > NOW
    assert f"'{NAME}' (L-CCE2AFA6) is 0 instances" in held.run.why
    (short,) = status_of(held.run, NOW)["quotas_short"]
    assert (short["name"], short["short_by"], short["waiting_helps"]) == (NAME, 1, False)


@pytest.mark.parametrize("quotas", [ENOUGH, QuotaFacts(), Unknown("the table is throttled"), None])
def test_a_run_that_fits_and_one_of_whose_quotas_nothing_is_known_are_submitted(
    quotas: QuotaFacts | Unknown | None,
) -> None:
    sent = step(a_run(), quotas)
    assert isinstance(sent.decision, CreateAttempt)
    assert len(sent.actions) == 1


def test_a_hold_costs_no_attempt_and_no_restart() -> None:
    run = a_run()
    held = step(run, SHORT).run
    for _ in range(50):
        held = step(replace(held, due_at=None), SHORT, NOW + 60).run
    assert (held.ledger, held.attempts, held.next_number) == (run.ledger, (), 1)


def test_people_are_told_once_of_a_hold() -> None:
    held = step(a_run(), SHORT).run
    assert [one.kind for one in held.notices] == ["waiting"]
    again = step(replace(held, due_at=None, notices=()), SHORT, NOW + 60).run
    assert again.notices == ()


def test_sagemaker_itself_is_asked_after_a_quarter_of_an_hour_whatever_the_numbers_say() -> None:
    held = step(a_run(), SHORT).run
    early = step(replace(held, due_at=None), SHORT, NOW + BELIEVED_SECONDS - 1)
    assert isinstance(early.decision, WaitUntil)
    late = step(replace(held, due_at=None), SHORT, NOW + BELIEVED_SECONDS)
    assert isinstance(late.decision, CreateAttempt)


def test_no_hold_reaches_past_the_moment_when_sagemaker_is_asked() -> None:
    held, now = step(a_run(), SHORT).run, NOW
    while held.phase is Phase.WAITING and now < NOW + 10 * BELIEVED_SECONDS:
        assert held.due_at is not None
        assert held.due_at <= NOW + BELIEVED_SECONDS
        now = held.due_at
        held = step(held, SHORT, now).run
    assert held.phase is Phase.STARTING


def test_what_another_run_was_just_told_by_sagemaker_holds_this_one_on() -> None:
    held = replace(step(a_run(), SHORT).run, due_at=None)
    now = NOW + 2 * BELIEVED_SECONDS
    told = replace(SHORT, refusals={NAME: QuotaRefusal(NAME, 0, 0, now - BELIEVED_SECONDS / 2)})
    assert isinstance(step(held, told, now).decision, WaitUntil)
    assert isinstance(step(held, SHORT, now).decision, CreateAttempt)


def test_what_sagemaker_says_then_is_remembered_and_a_new_hold_may_begin() -> None:
    sent = step(a_run(), None).run
    words = (
        f"ResourceLimitExceeded: The account-level service limit '{NAME}' is 0 Instances, with current utilization of "
        "0 Instances and a request delta of 1 Instances."
    )
    refused = after_create(sent, CreateResult(CreateAnswer.QUOTA, words), NOW)
    assert refused.quota_refusal == QuotaRefusal(NAME, 0, 0, NOW)
    assert refused.hold is None
    attempt = refused.attempt
    assert attempt is not None
    held = step(replace(refused, due_at=None), SHORT, NOW + 60, job=Absent())
    assert isinstance(held.decision, WaitUntil)
    assert held.run.attempts == refused.attempts


def test_a_create_that_may_have_been_sent_is_seen_through_whatever_the_quota() -> None:
    sent = step(a_run(), None).run
    again = step(sent, SHORT, NOW + 300, job=Absent())
    assert isinstance(again.decision, SendIntent)


def test_a_job_that_is_seen_ends_hold_and_refusal() -> None:
    sent = replace(step(a_run(), None).run, quota_refusal=QuotaRefusal(NAME, 0, 0, NOW))
    assert isinstance(sent.attempt, Attempt)
    created = after_create(sent, CreateResult(CreateAnswer.CREATED), NOW)
    assert (created.hold, created.quota_refusal) == (None, None)


def test_a_stopped_run_is_not_held() -> None:
    run = a_run()
    stopped = replace(run, manifest=run.manifest.model_copy(update={"state": "stopped"}))
    assert step(stopped, SHORT).run.phase is Phase.STOPPED


def test_a_manifest_that_asks_for_less_is_looked_at_at_once() -> None:
    held = step(a_run(manifest=a_manifest(instance_count=8)), ENOUGH).run
    assert held.due_at is not None
    less = a_manifest(instance_count=4)
    changed = register(
        held, less, team=held.team, name=held.name, pins=held.pins, spec_hash=spec_hash(less), uid="new", now=NOW
    ).run
    assert changed is not None
    assert isinstance(step(changed, ENOUGH, NOW + 1).decision, CreateAttempt)


def test_a_manifest_that_asks_for_as_much_is_held_again() -> None:
    held = step(a_run(manifest=a_manifest(instance_count=8)), ENOUGH).run
    other = a_manifest(instance_count=8, hyperparameters={"steps": 7})
    changed = register(
        held, other, team=held.team, name=held.name, pins=held.pins, spec_hash=spec_hash(other), uid="new", now=NOW
    ).run
    assert changed is not None
    assert isinstance(step(changed, ENOUGH, NOW + 1).decision, WaitUntil)
