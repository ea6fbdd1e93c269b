"""The demo's claims can fail: each test takes a good story and spoils one thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.model import Attempt, Cause, Outcome, Phase
from holdfast_agent.contract import Heartbeat
from sandbox.demo.account import Beat
from sandbox.demo.summary import Story, invariants, invariants_of_mishaps, row, steps_lost
from tests.builders import a_run

TARGET = 8
FROZEN_AT = 100.0
REFUSED = {"phase": "refused", "manifest": {"errors": ["template: no such one", "role: remove it"]}}
FIELDS = ("template", "role")


def beats(first: int, last: int, *, at: float, attempt: int = 1, off: float = 0.0) -> list[Beat]:
    return [
        Beat(at + step, Heartbeat("step", attempt, step=step, loss=4.0 - step / 10 + off))
        for step in range(first, last + 1)
    ]


def an_attempt(number: int, **fields: Any) -> Attempt:
    values: dict[str, Any] = {
        "number": number,
        "job": f"job-{number}",
        "spec_hash": "s",
        "request_digest": "d",
        "intended_at": 10.0,
        "seen_at": 11.0,
        "training_at": 20.0,
        "ended_at": 90.0,
        "outcome": Outcome.COMPLETED,
        **fields,
    }
    return Attempt(**values)


def a_healthy_story() -> Story:
    run = a_run(name="healthy", phase=Phase.SUCCEEDED, attempts=(an_attempt(1),))
    return Story(run, TARGET, {"job-1": beats(1, TARGET, at=20.0)})


def a_frozen_story(*, off: float = 0.0, **first: Any) -> Story:
    hung = {
        "outcome": Outcome.STOPPED,
        "cause": Cause.HANG,
        "hung_at": 130.0,
        "asked_at": 130.0,
        "stopped_at": 146.0,
        "ended_at": 150.0,
        "sealed_step": 4,
        **first,
    }
    again = an_attempt(2, intended_at=155.0, training_at=160.0, ended_at=190.0, resumed_from_step=4)
    run = a_run(name="frozen", phase=Phase.SUCCEEDED, attempts=(an_attempt(1, **hung), again))
    lines = {"job-1": beats(1, 6, at=80.0), "job-2": beats(5, TARGET, at=160.0, attempt=2, off=off)}
    return Story(run, TARGET, lines, cued_at=FROZEN_AT)


def judged(
    healthy: Story | None = None, frozen: Story | None = None, refused: dict[str, Any] | None = None
) -> set[str]:
    found = invariants(healthy or a_healthy_story(), frozen or a_frozen_story(), refused or REFUSED, FIELDS)
    return {name for name, holds in found.items() if not holds}


def test_a_good_story_holds_every_invariant() -> None:
    assert judged() == set()


def test_the_row_says_what_was_lost_and_how_long_it_took() -> None:
    found = row(a_frozen_story())
    assert found["cause"] == "hang"
    assert found["steps_lost"] == 2
    assert found["seconds_hang_to_detected"] == 30.0
    assert found["seconds_detected_to_training"] == 35.0
    assert [one["resumed_from_step"] for one in found["attempts"]] == [None, 4]
    assert found["final_step"] == found["target_step"] == TARGET


def test_a_run_that_never_restarted_lost_nothing() -> None:
    assert steps_lost(a_healthy_story()) == 0


def test_a_loss_that_differs_after_the_resume_is_found() -> None:
    assert judged(frozen=a_frozen_story(off=0.001)) == {"resumed_loss_curve_is_the_uninterrupted_one"}


def test_a_step_that_is_missing_is_found() -> None:
    story = a_frozen_story()
    kept = [beat for beat in story.beats["job-2"] if beat.heartbeat.step != TARGET - 1]
    holed = replace(story, beats={**story.beats, "job-2": kept})
    assert judged(frozen=holed) == {"resumed_loss_curve_is_the_uninterrupted_one"}


@pytest.mark.parametrize(
    ("spoilt", "broken"),
    [
        ({"hung_at": 99.0}, {"nothing_was_stopped_before_the_freeze"}),
        ({"stopped_at": None}, {"hang_was_noticed_and_the_agent_asked_before_the_job_was_stopped"}),
        ({"cause": Cause.UNKNOWN}, {"hang_was_noticed_and_the_agent_asked_before_the_job_was_stopped"}),
        ({"sealed_step": 6}, {"resumed_from_the_newest_sealed_checkpoint"}),
        ({"ended_at": 156.0}, {"one_job_lived_at_a_time"}),
    ],
)
def test_a_hang_that_was_not_handled_as_promised_is_found(spoilt: dict[str, Any], broken: set[str]) -> None:
    assert judged(frozen=a_frozen_story(**spoilt)) == broken


def test_a_false_stop_of_the_healthy_run_is_found() -> None:
    story = a_healthy_story()
    hung = replace(story.run, attempts=(an_attempt(1, hung_at=50.0),))
    assert judged(healthy=replace(story, run=hung)) == {"healthy_run_was_never_called_hung"}


def test_a_bad_manifest_that_is_accepted_or_half_explained_is_found() -> None:
    name = {"bad_manifest_was_refused_with_all_its_errors"}
    assert judged(refused={"phase": "accepted", "manifest": {"errors": []}}) == name
    assert judged(refused={"phase": "refused", "manifest": {"errors": ["template: no"]}}) == name


def a_mishap(name: str, phase: Phase, *attempts: Attempt, target: int = TARGET, lives: int = 1, **run: Any) -> Story:
    lines = {one.job: beats(1, target, at=20.0, attempt=one.number) for one in attempts[-1:]}
    return Story(a_run(name=name, phase=phase, attempts=attempts, **run), target, lines, cued_at=40.0, lives=lives)


def the_mishaps() -> dict[str, Story]:
    died = {"outcome": Outcome.FAILED, "sealed_step": 4}
    stopped = an_attempt(1, outcome=Outcome.STOPPED, cause=Cause.STOPPED_BY_PERSON)
    return {
        "killed": a_mishap(
            "killed",
            Phase.SUCCEEDED,
            an_attempt(1, cause=Cause.HARDWARE, **died),
            an_attempt(2, resumed_from_step=4),
        ),
        "broken": a_mishap(
            "broken", Phase.FAILED, an_attempt(1), cause=Cause.USER_ERROR, why="No module named 'no_such_module'"
        ),
        "crowded": a_mishap(
            "crowded",
            Phase.SUCCEEDED,
            an_attempt(1, cause=Cause.CAPACITY),
            an_attempt(2, cause=Cause.CAPACITY),
            an_attempt(3),
        ),
        "spot": a_mishap("spot", Phase.SUCCEEDED, an_attempt(1), lives=2),
        "person": a_mishap("person", Phase.STOPPED, stopped),
    }


def test_good_mishaps_hold_every_claim() -> None:
    assert all(invariants_of_mishaps(the_mishaps()).values())


@pytest.mark.parametrize(
    ("name", "spoil", "claim"),
    [
        ("killed", {"attempts": (an_attempt(1),)}, "dead_host_was_restarted_from_its_newest_seal"),
        ("broken", {"why": "failed"}, "missing_module_failed_fast_with_its_cause_in_words"),
        ("crowded", {"phase": Phase.FAILED}, "refused_capacity_was_waited_for"),
        ("spot", {"phase": Phase.STOPPED}, "spot_interruption_stayed_one_attempt"),
        ("person", {"attempts": (an_attempt(1), an_attempt(2))}, "a_persons_stop_was_respected"),
    ],
)
def test_a_mishap_that_was_not_handled_as_promised_is_found(name: str, spoil: dict[str, Any], claim: str) -> None:
    stories = the_mishaps()
    spoilt = {**stories, name: replace(stories[name], run=replace(stories[name].run, **spoil))}
    found = invariants_of_mishaps(spoilt)
    assert {one for one, holds in found.items() if not holds} == {claim}


def test_a_spot_host_that_was_never_taken_proves_nothing() -> None:
    stories = the_mishaps()
    untaken = {**stories, "spot": replace(stories["spot"], lives=1)}
    assert not invariants_of_mishaps(untaken)["spot_interruption_stayed_one_attempt"]
