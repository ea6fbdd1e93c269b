"""Is the run healthy? Two independent signals that agree in two polls make a hang; anything less does not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from holdfast.core.detect.flat_hosts import Movement, flat_hosts, horizon_of
from holdfast.core.detect.stale_step import Staleness, stale_step
from holdfast.core.manifest import Manifest
from holdfast.core.model import JobState, Suspicion
from holdfast.core.observation import Job, Observation, Progress, Unknown

POLLS_THAT_MUST_AGREE = 2


class Health(StrEnum):
    STARTING = "starting"
    HEALTHY = "healthy"
    SUSPECT = "suspect"
    HUNG = "hung"
    UNKNOWN = "unknown"
    FINISHED = "finished"


@dataclass(frozen=True)
class Verdict:
    """`suspicion` is what the next poll builds on; None clears it. `alert`: people are told though nothing is done.

    `doubted`: too many runs look hung at once (`mass.py`), so a request to end that still lies there is taken back.
    """

    health: Health
    basis: str
    suspicion: Suspicion | None = None
    alert: bool = False
    doubted: bool = False


def is_stale_on_the_face(observation: Observation, manifest: Manifest, training_at: float) -> bool:
    """Whether the cheap reading alone makes a suspect, for which logs and host metrics are worth their calls."""
    if not isinstance(observation.progress, Progress):
        return False
    return stale_step(
        watch=manifest.watch, progress=observation.progress, training_at=training_at, horizon=observation.now
    ).stale


def judge(
    observation: Observation,
    *,
    manifest: Manifest,
    training_at: float | None,
    before: Suspicion | None,
    poll_seconds: float,
) -> Verdict:
    """The verdict on a live attempt. `before` is what earlier polls suspected."""
    job = observation.job
    if not isinstance(job, Job) or job.state is JobState.UNKNOWN:
        why = job.why if isinstance(job, Unknown) else "the job's status could not be read"
        return Verdict(Health.UNKNOWN, why, before)
    if job.state.terminal:
        return Verdict(Health.FINISHED, f"the job is {job.state}")
    if job.state is not JobState.TRAINING or training_at is None:
        # Provisioning, downloads, SageMaker's own retry: never a hang; what was suspected before it is void.
        return Verdict(Health.STARTING, f"the job is {job.state}")
    if not isinstance(observation.progress, Progress):
        why = observation.progress.why if isinstance(observation.progress, Unknown) else "the step was not read"
        return Verdict(Health.UNKNOWN, why, before)
    on_face = stale_step(
        watch=manifest.watch, progress=observation.progress, training_at=training_at, horizon=observation.now
    )
    if not on_face.stale:
        started = observation.progress.step_at is not None
        return Verdict(Health.HEALTHY if started else Health.STARTING, on_face.basis)
    return _judge_suspect(observation, observation.progress, on_face, manifest, training_at, before, poll_seconds)


def _judge_suspect(
    observation: Observation,
    progress: Progress,
    on_face: Staleness,
    manifest: Manifest,
    training_at: float,
    before: Suspicion | None,
    poll_seconds: float,
) -> Verdict:
    # A poll or two without the second signal is how evidence arrives; twice the bound without it is worth a look.
    long = on_face.stale_for_seconds >= 2 * on_face.bound_seconds
    if not isinstance(observation.hosts, tuple):
        why = observation.hosts.why if isinstance(observation.hosts, Unknown) else "host metrics were not read"
        return Verdict(Health.UNKNOWN, f"{on_face.basis}; {why}", before, alert=long)
    hosts = manifest.resources.instance_count
    horizon = horizon_of(observation.hosts, hosts)
    if horizon is None:
        return Verdict(Health.UNKNOWN, f"{on_face.basis}; not every host reports metrics", before, alert=long)
    stale = stale_step(watch=manifest.watch, progress=progress, training_at=training_at, horizon=horizon)
    if not stale.stale:
        words = f"metrics are delivered up to {observation.now - horizon:.0f} s ago: {stale.basis}"
        return Verdict(Health.UNKNOWN, words, before, alert=long)
    movement = flat_hosts(observation.hosts, hosts=hosts, since=stale.since)
    basis = f"{stale.basis}; hosts {movement.movement}: {movement.basis}"
    if movement.movement is Movement.UNKNOWN:
        return Verdict(Health.UNKNOWN, basis, before, alert=long)
    if movement.movement is Movement.MOVING or not stale.log_silent:
        # One source says "stuck" and another says "alive": people are told, nothing is stopped.
        return Verdict(Health.SUSPECT, basis, None, alert=long)
    suspicion = _count(before, progress.step, stale.since, observation.now, poll_seconds)
    if suspicion.polls < POLLS_THAT_MUST_AGREE:
        return Verdict(Health.SUSPECT, f"{basis}; poll {suspicion.polls} of {POLLS_THAT_MUST_AGREE}", suspicion)
    if not stale.enforceable:
        return Verdict(
            Health.SUSPECT, f"{basis}; the manifest sets no bound, so nothing is stopped", suspicion, alert=True
        )
    return Verdict(Health.HUNG, basis, suspicion)


def _count(before: Suspicion | None, step: int | None, since: float, now: float, poll_seconds: float) -> Suspicion:
    """Polls that agree on the same step. Two looks within one tick (an event beside the schedule) are one poll."""
    if before is None or before.step != step:
        return Suspicion(step=step, since=since, polls=1, polled_at=now)
    if now - before.polled_at < poll_seconds / 2:
        return before
    return replace(before, polls=before.polls + 1, polled_at=now)
