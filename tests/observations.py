"""Builders of what the core looks at. Times are seconds on an arbitrary clock; NOW is the moment of the tick."""

from __future__ import annotations

from holdfast.core.model import JobState
from holdfast.core.observation import Absent, HostSeries, Job, LogLine, Observation, Progress, Seals, Unknown

NOW = 1_000_000.0
TRAINING_AT = NOW - 3_600.0


def a_job(
    state: JobState = JobState.TRAINING, *, ours: bool = True, failure_reason: str = "", name: str = "job"
) -> Job:
    ended = NOW - 5 if state.terminal else None
    return Job(name, state, ours, failure_reason, training_at=TRAINING_AT, ended_at=ended)


def a_progress(*, stalled_for: float = 2.0, step: int | None = 120, silent_for: float | None = None) -> Progress:
    """`stalled_for`: seconds since the newest step; `silent_for`: since the newest log line, by default the same."""
    silent = stalled_for if silent_for is None else silent_for
    return Progress(step=step, step_at=None if step is None else NOW - stalled_for, log_at=NOW - silent)


def hosts_at(
    level: float,
    *,
    count: int = 2,
    metric: str = "CPUUtilization",
    swing: float = 0.0,
    seconds: float = 600.0,
    lag: float = 0.0,
) -> tuple[HostSeries, ...]:
    """Each host's metric around `level`, one point in 10 s, the newest `lag` seconds old."""
    ticks = [NOW - lag - 10.0 * back for back in range(int(seconds / 10), -1, -1)]
    return tuple(
        HostSeries(
            f"algo-{number}",
            metric,
            tuple((at, level + (swing if index % 2 else 0.0)) for index, at in enumerate(ticks)),
        )
        for number in range(1, count + 1)
    )


def an_observation(
    *,
    state: JobState = JobState.TRAINING,
    job: Job | Absent | Unknown | None = None,
    stalled_for: float = 2.0,
    step: int | None = 120,
    silent_for: float | None = None,
    progress: Progress | Unknown | None = None,
    hosts: tuple[HostSeries, ...] | Unknown | None = None,
    sealed_step: int | None = None,
    seals: Seals | Unknown | None = None,
    tail: tuple[LogLine, ...] | Unknown | None = (),
    live_jobs: tuple[str, ...] | Unknown | None = (),
    now: float = NOW,
) -> Observation:
    return Observation(
        now=now,
        job=job if job is not None else a_job(state),
        progress=progress
        if progress is not None
        else a_progress(stalled_for=stalled_for, step=step, silent_for=silent_for),
        hosts=hosts if hosts is not None else hosts_at(0.0),
        seals=seals if seals is not None else Seals(sealed_step),
        tail=tail,
        live_jobs=live_jobs,
    )
