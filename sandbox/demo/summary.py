"""What the demo proved, from what was recorded: the table's rows and the invariants. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from holdfast.core.model import Attempt, Cause, Phase, Run
from sandbox.demo.account import Beat

# DDP over gloo on one CPU is bit-equal from run to run; the line prints six digits of the loss.
LOSS_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Story:
    """One run as it went: its record, its jobs' heartbeats by job name, and what befell it."""

    run: Run
    target_step: int
    beats: Mapping[str, Sequence[Beat]]
    cued_at: float | None = None
    """When its mishap was brought about."""
    lives: int = 1
    """How often SageMaker began the newest attempt's job: more than once after a spot interruption."""

    def steps(self, job: str) -> list[tuple[int, float | None, float]]:
        """(step, loss, at) of a job's step lines."""
        return [
            (beat.heartbeat.step, beat.heartbeat.loss, beat.at)
            for beat in self.beats.get(job, ())
            if beat.heartbeat.phase == "step" and beat.heartbeat.step is not None
        ]

    def losses(self) -> dict[int, float]:
        """Loss at each step; of a step that was trained twice, the second time."""
        found: dict[int, float] = {}
        for attempt in self.run.attempts:
            found.update({step: loss for step, loss, _ in self.steps(attempt.job) if loss is not None})
        return found

    @property
    def final_step(self) -> int | None:
        return (
            max((step for step, _, _ in self.steps(self.run.attempts[-1].job)), default=None)
            if self.run.attempts
            else None
        )


def row(story: Story) -> dict[str, Any]:
    """One entry of `runs` in summary.json."""
    attempts = story.run.attempts
    ended = [one for one in attempts if one.cause is not None]
    hung = next((one for one in attempts if one.hung_at is not None), None)
    return {
        "name": story.run.id,
        "phase": story.run.phase.value,
        "cause": ended[-1].cause.value if ended and ended[-1].cause else None,
        "attempts": [_attempt(story, one) for one in attempts],
        "steps_lost": steps_lost(story),
        "seconds_hang_to_detected": _between(story.cued_at, hung.hung_at) if hung else None,
        "seconds_detected_to_stopped": _between(hung.hung_at, hung.ended_at) if hung else None,
        "seconds_detected_to_training": _between(hung.hung_at, _training_again(story, hung)) if hung else None,
        "final_step": story.final_step,
        "target_step": story.target_step,
    }


def refused_row(identity: str, status: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": identity,
        "phase": status["phase"],
        "cause": "manifest",
        "attempts": [],
        "errors": status["manifest"]["errors"],
        "steps_lost": None,
        "seconds_hang_to_detected": None,
        "seconds_detected_to_stopped": None,
        "seconds_detected_to_training": None,
        "final_step": None,
        "target_step": None,
    }


def steps_lost(story: Story) -> int:
    """Steps that were trained and had to be trained again, over all restarts."""
    lost = 0
    for before, after in zip(story.run.attempts, story.run.attempts[1:], strict=False):
        reached = max((step for step, _, _ in story.steps(before.job)), default=None)
        if reached is not None:
            lost += reached - (after.resumed_from_step or 0)
    return lost


def invariants(
    healthy: Story, frozen: Story, refused: Mapping[str, Any], refused_fields: Sequence[str]
) -> dict[str, bool]:
    """Each claim of the demo. One that is false fails it."""
    attempts = frozen.run.attempts
    first, last = (attempts[0], attempts[-1]) if attempts else (None, None)
    return {
        "healthy_run_succeeded_in_one_attempt": healthy.run.phase is Phase.SUCCEEDED and len(healthy.run.attempts) == 1,
        "healthy_run_was_never_called_hung": all(one.hung_at is None for one in healthy.run.attempts),
        "healthy_run_reached_its_target": healthy.final_step == healthy.target_step,
        "hang_was_noticed_and_the_agent_asked_before_the_job_was_stopped": bool(
            first and first.cause is Cause.HANG and first.hung_at and first.asked_at and first.stopped_at
        ),
        "nothing_was_stopped_before_the_freeze": bool(
            first and first.hung_at and frozen.cued_at and first.hung_at > frozen.cued_at
        ),
        "hung_run_succeeded_in_two_attempts": frozen.run.phase is Phase.SUCCEEDED and len(attempts) == 2,
        "hung_run_reached_its_target": frozen.final_step == frozen.target_step,
        "one_job_lived_at_a_time": all(
            before.ended_at is not None and after.intended_at >= before.ended_at
            for before, after in itertools.pairwise(attempts)
        ),
        "resumed_from_the_newest_sealed_checkpoint": bool(
            first and last and first.sealed_step and last.resumed_from_step == first.sealed_step
        ),
        "resumed_loss_curve_is_the_uninterrupted_one": curves_agree(
            healthy.losses(), frozen.losses(), frozen.target_step
        ),
        "bad_manifest_was_refused_with_all_its_errors": refused.get("phase") == "refused"
        and all(any(error.startswith(field) for error in refused["manifest"]["errors"]) for field in refused_fields),
    }


def invariants_of_mishaps(stories: Mapping[str, Story]) -> dict[str, bool]:
    """The claims about the shorter scenes, by the runs' names."""
    killed, broken, crowded = stories["killed"], stories["broken"], stories["crowded"]
    spot, person = stories["spot"], stories["person"]
    return {
        "dead_host_was_restarted_from_its_newest_seal": [one.cause for one in killed.run.attempts]
        == [Cause.HARDWARE, None]
        and killed.run.attempts[1].resumed_from_step == killed.run.attempts[0].sealed_step
        and killed.final_step == killed.target_step,
        "missing_module_failed_fast_with_its_cause_in_words": broken.run.phase is Phase.FAILED
        and broken.run.cause is Cause.USER_ERROR
        and "no_such_module" in broken.run.why
        and len(broken.run.attempts) == 1,
        "refused_capacity_was_waited_for": crowded.run.phase is Phase.SUCCEEDED
        and causes(crowded) == [Cause.CAPACITY, Cause.CAPACITY, None],
        "spot_interruption_stayed_one_attempt": spot.run.phase is Phase.SUCCEEDED
        and len(spot.run.attempts) == 1
        and spot.lives == 2
        and spot.final_step == spot.target_step,
        "a_persons_stop_was_respected": person.run.phase is Phase.STOPPED
        and len(person.run.attempts) == 1
        and person.run.attempts[0].stopped_at is None,
    }


def causes(story: Story) -> list[Cause | None]:
    return [one.cause for one in story.run.attempts]


def curves_agree(one: Mapping[int, float], other: Mapping[int, float], target_step: int) -> bool:
    """The same loss at every step, within LOSS_TOLERANCE, and no step missing in either."""
    steps = range(1, target_step + 1)
    return all(step in one and step in other and abs(one[step] - other[step]) <= LOSS_TOLERANCE for step in steps)


def _attempt(story: Story, one: Attempt) -> dict[str, Any]:
    return {
        "job": one.job,
        "outcome": one.outcome.value if one.outcome else None,
        "cause": one.cause.value if one.cause else None,
        "started": _when(one.training_at),
        "ended": _when(one.ended_at),
        "resumed_from_step": one.resumed_from_step,
        "last_step": max((step for step, _, _ in story.steps(one.job)), default=None),
    }


def _training_again(story: Story, hung: Attempt) -> float | None:
    later = [one for one in story.run.attempts if one.number > hung.number]
    return min((at for one in later for _, _, at in story.steps(one.job)), default=None)


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else round(end - start, 1)


def _when(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
