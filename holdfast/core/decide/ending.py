"""The job is terminal: what becomes of the run?"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.decide.decision import GiveUp, RestStopped, Succeed, WaitUntil
from holdfast.core.decide.restart import restart
from holdfast.core.diagnose.cause import WISH, Diagnosis
from holdfast.core.manifest import Manifest
from holdfast.core.model import Cause, JobState, Ledger, Outcome

OUTCOME_OF_STATE: dict[JobState, Outcome] = {
    JobState.COMPLETED: Outcome.COMPLETED,
    JobState.FAILED: Outcome.FAILED,
    JobState.STOPPED: Outcome.STOPPED,
    JobState.MAX_RUNTIME: Outcome.TIMED_OUT,
    JobState.MAX_WAIT: Outcome.TIMED_OUT,
}


@dataclass(frozen=True)
class Ending:
    decision: Succeed | RestStopped | WaitUntil | GiveUp
    ledger: Ledger


def ending(
    *,
    diagnosis: Diagnosis | None,
    manifest: Manifest,
    ledger: Ledger,
    sealed_step: int | None,
    uid: str,
    now: float,
) -> Ending:
    """`diagnosis` is None exactly when the job completed."""
    if diagnosis is None:
        return Ending(Succeed("Training finished."), ledger)
    if manifest.state == "stopped":
        return Ending(RestStopped("Stopped, as its manifest asks. Set state: running to go on."), ledger)
    if diagnosis.signature == WISH:
        return Ending(WaitUntil(now, "It was stopped by its manifest, which asks for state: running again."), ledger)
    if diagnosis.cause is Cause.STOPPED_BY_PERSON:
        said = f"{diagnosis.basis} That is respected: it is not restarted. Set state: stopped, then running, to go on."
        return Ending(RestStopped(said), ledger)
    went = restart(
        cause=diagnosis.cause,
        basis=diagnosis.basis,
        ledger=ledger,
        sealed_step=sealed_step,
        limits=manifest.limits,
        uid=uid,
        now=now,
    )
    return Ending(went.decision, went.ledger)
