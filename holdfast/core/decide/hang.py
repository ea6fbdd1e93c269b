"""The run is hung: report it, ask the agent, or stop the job?

The agent is asked first, because a job that *fails* gets SageMaker's unbilled node repair and one that is stopped does
not. StopTrainingJob comes only when asking had no effect in time, and only on a reading taken in this very tick.
"""

from __future__ import annotations

from holdfast.core.decide.decision import AskToEnd, Keep, StopJob, WithdrawRequest
from holdfast.core.detect.health import Health, Verdict
from holdfast.core.manifest import Watch
from holdfast.core.model import Attempt


def hang(
    *, verdict: Verdict, attempt: Attempt, watch: Watch, now: float
) -> Keep | AskToEnd | StopJob | WithdrawRequest:
    if attempt.stopped_at is not None:
        return Keep("StopTrainingJob was called; waiting for the job to end")
    if attempt.asked_at is not None:
        return _after_asking(verdict, attempt.asked_at, watch, now)
    if verdict.health is not Health.HUNG:
        return Keep(verdict.basis)
    if watch.mode == "shadow":
        return Keep(f"hung, but watch.mode is shadow: {verdict.basis}")
    return AskToEnd(f"Hung: {verdict.basis}.")


def _after_asking(verdict: Verdict, asked_at: float, watch: Watch, now: float) -> Keep | StopJob | WithdrawRequest:
    if verdict.health is Health.HEALTHY:
        return WithdrawRequest(f"The step moved again: {verdict.basis}.")
    if verdict.doubted:
        # Else a run that is well would end itself on the word of a watcher that is not.
        return WithdrawRequest(f"The request to end is taken back: {verdict.basis}.")
    left = watch.ask_seconds - (now - asked_at)
    if left > 0:
        return Keep(f"the agent was asked to end itself; {left:.0f} s left before StopTrainingJob")
    if verdict.health is not Health.HUNG:
        # UNKNOWN never stops a job, and neither does a reading that no longer says "hung".
        return Keep(f"the agent did not end itself, but the newest reading does not say hung: {verdict.basis}")
    return StopJob(f"The agent did not end itself in {watch.ask_seconds} s. {verdict.basis}.")
