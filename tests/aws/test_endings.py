"""Every way a job can end: the phase, the cause in words, and what happens next."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from holdfast.core.decide.creation import CreateAnswer, CreateResult
from holdfast.core.model import Cause, JobState, Outcome, Phase
from tests.aws.test_reconciler import Story


@dataclass(frozen=True)
class Ending:
    name: str
    state: JobState
    reason: str
    phase: Phase
    """Of the run, at the tick that sees the end."""
    cause: Cause | None
    words: str
    """What its people read."""


# FailureReason texts as public users of SageMaker quote them; sources in docs/fidelity.md and signatures.py.
ENDINGS = [
    Ending("completed", JobState.COMPLETED, "", Phase.SUCCEEDED, None, "Training finished"),
    Ending(
        "failed by user error",
        JobState.FAILED,
        "AlgorithmError: host algo-1: the script ended with exit code 1: KeyError: 'x', exit code: 1",
        Phase.FAILED,
        Cause.USER_ERROR,
        "will raise again",
    ),
    Ending(
        "failed by the platform",
        JobState.FAILED,
        "InternalServerError: We encountered an internal error.  Please try again.",
        Phase.WAITING,
        Cause.PLATFORM,
        "the code is not at fault",
    ),
    Ending(
        "failed by hardware",
        JobState.FAILED,
        "AlgorithmError: , exit code: 137",
        Phase.WAITING,
        Cause.HARDWARE,
        "killed from outside",
    ),
    Ending(
        "health check failed",
        JobState.FAILED,
        "InternalError: the health check failed on an instance",
        Phase.WAITING,
        Cause.HARDWARE,
        "broken host",
    ),
    Ending("stopped by a person", JobState.STOPPED, "", Phase.STOPPED, Cause.STOPPED_BY_PERSON, "respected"),
    Ending("out of time", JobState.MAX_RUNTIME, "", Phase.WAITING, Cause.MAX_RUNTIME, "max_run_seconds"),
    Ending("out of patience for spot", JobState.MAX_WAIT, "", Phase.WAITING, Cause.CAPACITY, "spot capacity"),
    Ending(
        "capacity refused while pending",
        JobState.FAILED,
        "CapacityError: Unable to provision requested ML compute capacity. "
        "Please retry using a different ML instance type.",
        Phase.WAITING,
        Cause.CAPACITY,
        "no free instances",
    ),
    Ending(
        "upload failed after the model was done",
        JobState.FAILED,
        "ClientError: Artifact upload failed:Error 5: Received a failed archive status.",
        Phase.FAILED,
        Cause.USER_ERROR,
        "could not be uploaded",
    ),
    Ending(
        "the image cannot be pulled",
        JobState.FAILED,
        "ClientError: Cannot pull algorithm container. Either the image does not exist or its permissions are "
        "incorrect.",
        Phase.FAILED,
        Cause.USER_ERROR,
        "Cannot pull",
    ),
    Ending(
        "the role lacks a permission",
        JobState.FAILED,
        "ClientError: Data download failed:AccessDenied (403): Access Denied",
        Phase.FAILED,
        Cause.USER_ERROR,
        "AccessDenied",
    ),
    Ending(
        "nobody knows", JobState.FAILED, "AlgorithmError: hm, exit code: 3", Phase.WAITING, Cause.UNKNOWN, "is unknown"
    ),
]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda one: one.name)
def test_each_ending_has_its_phase_its_cause_and_its_words(ending: Ending) -> None:
    story = Story()
    story.train()
    story.end(ending.state, ending.reason)
    story.tick()
    run = story.run
    assert (run.phase, run.cause) == (ending.phase, ending.cause)
    assert ending.words in run.why
    assert run.attempts[0].cause is ending.cause
    assert story.account.notices[-1].body.startswith(run.why)


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda one: one.name)
def test_what_waits_goes_on_and_what_ended_stays_so(ending: Ending) -> None:
    story = Story()
    story.train()
    story.end(ending.state, ending.reason)
    story.tick(5)
    assert len(story.account.jobs) == (2 if ending.phase is Phase.WAITING else 1)


@pytest.mark.parametrize("state", [JobState.RETRYING, JobState.INTERRUPTED, JobState.STARTING, JobState.PENDING])
def test_sagemakers_own_retry_or_interruption_is_part_of_the_attempt(state: JobState) -> None:
    story = Story()
    story.train()
    story.job.state = state
    story.tick(10)
    assert len(story.account.jobs) == 1
    assert len(story.run.attempts) == 1
    assert story.run.attempt is not None
    assert story.run.attempt.hung_at is None
    story.job.state = JobState.TRAINING
    story.move(step=130)
    story.tick()
    assert story.run.phase is Phase.TRAINING


def test_a_data_channel_that_is_empty_is_refused_at_the_create_and_fails_in_words() -> None:
    story = Story()
    words = 'ValidationException: No S3 objects found under S3 URL "s3://b/data/research/x"'
    story.account.answers = [CreateResult(CreateAnswer.REFUSED, words)]
    story.tick()
    assert (story.run.phase, story.run.cause) == (Phase.FAILED, Cause.REFUSED)
    assert "No S3 objects found" in story.run.why
    assert story.run.attempts[0].outcome is Outcome.NOT_CREATED


def test_an_hour_of_throttling_loses_no_run_and_is_told_once() -> None:
    story = Story()
    story.account.answers = [CreateResult(CreateAnswer.UNANSWERED, "ThrottlingException: Rate exceeded")] * 60
    story.tick(60)
    assert [one.kind for one in story.account.notices] == ["waiting"]
    story.tick(2)
    assert story.account.live() == [story.run.attempts[0].job]
    assert [one.number for one in story.run.attempts] == [1]
