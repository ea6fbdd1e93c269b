"""A person's wish in the manifest, `state: running | stopped`, against what the run is doing."""

from __future__ import annotations

from holdfast.core.decide.decision import RestStopped, StopJob
from holdfast.core.model import Run
from holdfast.core.observation import Absent, Job, Observation


def wish(run: Run, observation: Observation) -> StopJob | RestStopped | None:
    """None where the run may go on."""
    if run.manifest.state == "running" or run.phase.terminal:
        return None
    attempt = run.attempt
    if attempt is None or attempt.ended_at is not None:
        return RestStopped("Stopped, as its manifest asks. Set state: running to go on.")
    if isinstance(observation.job, Absent):
        return RestStopped("Stopped before its job was created, as its manifest asks.")
    if isinstance(observation.job, Job) and not observation.job.state.terminal and attempt.stopped_at is None:
        return StopJob("The manifest asks for state: stopped.")
    return None
