"""A run without a living job: may an attempt be created now, and what became of the last try?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.core.decide.decision import CreateAttempt, Keep, SendIntent
from holdfast.core.model import Attempt, Cause, Run
from holdfast.core.observation import Job, Observation, Unknown

# A job that was just created may not be described for a moment, and a create whose answer was lost may still be on its
# way (assumed: AWS documents no read-after-write here; the clients give up after half a minute). Taking that moment for
# "there is no such job" would leave a living job to itself.
SETTLES_SECONDS = 120.0


def may_exist_unseen(attempt: Attempt, now: float) -> bool:
    """Whether "there is no job of that name" is not to be believed yet."""
    touched = max(attempt.sent_at or 0.0, attempt.seen_at or 0.0)
    return touched > 0.0 and now - touched < SETTLES_SECONDS


def creation(run: Run, observation: Observation) -> CreateAttempt | SendIntent | Keep:
    """For a run whose newest attempt has ended, or whose intent SageMaker does not know yet."""
    if run.due_at is not None and observation.now < run.due_at:
        return Keep(f"waits {run.due_at - observation.now:.0f} s more: {run.why}")
    attempt = run.attempt
    if attempt is not None and attempt.ended_at is None:
        if isinstance(observation.job, Unknown):
            return Keep(f"whether {attempt.job} exists is unknown: {observation.job.why}")
        if isinstance(observation.job, Job):
            return Keep(f"{attempt.job} exists")
        # What may have been sent is sent again as it was, never another request under its name: the first could still
        # arrive. A manifest that changed since is then for the next number.
        if attempt.spec_hash != run.spec_hash and attempt.sent_at is None:
            return CreateAttempt("the manifest changed before the job was created")
        return SendIntent(f"{attempt.job} is intended and not created yet")
    if isinstance(observation.live_jobs, Unknown) or observation.live_jobs is None:
        why = observation.live_jobs.why if isinstance(observation.live_jobs, Unknown) else "not read"
        return Keep(f"whether another job of this run lives is unknown: {why}")
    if observation.live_jobs:
        return Keep(f"{observation.live_jobs[0]} still lives; no new attempt beside it")
    return CreateAttempt("no job of this run lives")


class CreateAnswer(StrEnum):
    CREATED = "created"
    NAME_TAKEN = "name_taken"
    QUOTA = "quota"
    REFUSED = "refused"
    DENIED = "denied"
    UNANSWERED = "unanswered"


@dataclass(frozen=True)
class CreateResult:
    """What SageMaker said to CreateTrainingJob; `words` is its message."""

    answer: CreateAnswer
    words: str = ""


CAUSE_OF_ANSWER: dict[CreateAnswer, tuple[Cause, str]] = {
    CreateAnswer.QUOTA: (Cause.QUOTA, "The account's limit does not allow the job now"),
    CreateAnswer.REFUSED: (Cause.REFUSED, "SageMaker refused the request"),
    CreateAnswer.DENIED: (Cause.PERMISSION, "Holdfast or the job's role lacks a permission"),
}
"""Answers that cost a restart. The other three are settled by looking again at the next tick."""
