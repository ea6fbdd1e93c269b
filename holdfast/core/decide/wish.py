"""A person's wish in the manifest, `state: running | stopped`, against what the run is doing."""

from __future__ import annotations

from holdfast.core.decide.creation import may_exist_unseen
from holdfast.core.decide.decision import RestStopped, StopJob
from holdfast.core.model import Attempt, Run
from holdfast.core.observation import Absent, Job, Observation


def wish(run: Run, observation: Observation) -> StopJob | RestStopped | None:
    """None where the run may go on."""
    if run.manifest.state == "running" or run.phase.terminal:
        return None
    attempt = run.attempt
    if attempt is None or attempt.ended_at is not None:
        return RestStopped("Stopped, as its manifest asks. Set state: running to go on.")
    if attempt.seen_at is None:
        return _before_its_job(attempt, observation)
    if isinstance(observation.job, Job) and not observation.job.state.terminal and attempt.stopped_at is None:
        return StopJob("The manifest asks for state: stopped.")
    return None


def _before_its_job(attempt: Attempt, observation: Observation) -> RestStopped | None:
    """A create that may still arrive is waited for: resting now would leave its job to itself, and to its bill."""
    unsent = attempt.sent_at is None
    gone = isinstance(observation.job, Absent) and not may_exist_unseen(attempt, observation.now)
    return RestStopped("Stopped before its job was created, as its manifest asks.") if unsent or gone else None
