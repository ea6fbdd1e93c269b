"""Every constant of the training plane in one place: AWS's documented value, its source, and what the sandbox uses.

`ASSUMED` is the service as documented; where nothing is documented the number is marked "assumed". `AWS` is the same
with what a real account was recorded to do, where there is a recording (recorded.py). `FAST` is what the demo
and the tests run with; `LAGGED` is FAST with telemetry as late as in AWS. Time is never scaled: the waits are shorter,
a second is a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from sandbox.sagemaker.delays import Delay
from sandbox.sagemaker.recorded import committed


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Durations are in seconds."""

    starting_seconds: float
    """In `Starting`: capacity and instances. AWS: minutes, undocumented; for ml.p and ml.g up to MaxPendingTime."""

    warm_starting_seconds: float
    """The same on a warm pool, whose hosts also hold the image. AWS: undocumented, assumed."""

    restart_seconds: float
    """In `Interrupted` or `Restarting` before `Starting` comes again. AWS: undocumented, assumed."""

    image_seconds: float
    """In `Training` before the container starts: the image's download. AWS: undocumented, minutes for large images."""

    stop_grace_seconds: float
    """From SIGTERM to SIGKILL. AWS: 120 (API reference of StopTrainingJob)."""

    peer_grace_seconds: float
    """From one host's failure to the SIGKILL of the others, which get SIGTERM at once. AWS: undocumented, assumed."""

    log_flush_seconds: float
    """Between two PutLogEvents of a host. AWS: undocumented, assumed."""

    log_delay: Delay
    """Least age of a line before it is sent. AWS: undocumented, assumed."""

    metric_flush_seconds: float
    """Between two PutMetricData. AWS: undocumented, assumed."""

    metric_delay: Delay
    """Least age of a metric's value before it is sent. AWS: undocumented, assumed."""

    delay_seed: int
    """Another seed draws other delays for the same jobs."""

    late_after_end: bool
    """Whether lines and values are still on their way when the job has ended; else the end sends them. AWS: assumed."""

    host_metric_seconds: float
    """Period of the host metrics. AWS: 60 ("1-minute", developer guide, monitoring-cloudwatch)."""

    checkpoint_sync_seconds: float
    """Between two passes of the checkpoint upload. AWS: undocumented ("in near real time"), assumed."""

    calls_per_second: Mapping[str, float]
    """Operation -> rate for the whole account (general reference, Amazon SageMaker endpoints and quotas)."""

    rate_burst_seconds: float
    """Calls that may come at once, as seconds of the rate. AWS: undocumented, assumed."""

    quotas: Mapping[str, float]
    """Quotas (names or patterns of names) that differ from the defaults in sandbox/cloud/quota_values.py."""

    synthetic_gpus_per_host: int | None
    """GPUs to report for every instance type; None: as many as the type has, none for a CPU type. All are synthetic."""

    omp_num_threads: int | None
    """OMP_NUM_THREADS of the hosts' processes; None: not set, as in SageMaker. The sandbox's hosts share few cores."""

    keep_host_trees: bool
    """Keep the hosts' /opt/ml trees after the job, for a look; in SageMaker they go with the instance."""


CALLS_PER_SECOND = {
    "CreateTrainingJob": 1.0,
    "StopTrainingJob": 1.0,
    "UpdateTrainingJob": 1.0,
    "DeleteTrainingJob": 1.0,
    "DescribeTrainingJob": 5.0,
    "ListTrainingJobs": 2.0,
}

ASSUMED = Profile(
    starting_seconds=90.0,
    warm_starting_seconds=10.0,
    restart_seconds=60.0,
    image_seconds=30.0,
    stop_grace_seconds=120.0,
    peer_grace_seconds=30.0,
    log_flush_seconds=5.0,
    log_delay=Delay(5.0, 60.0),
    metric_flush_seconds=60.0,
    metric_delay=Delay(60.0, 300.0),
    delay_seed=0,
    late_after_end=True,
    host_metric_seconds=60.0,
    checkpoint_sync_seconds=30.0,
    calls_per_second=CALLS_PER_SECOND,
    rate_burst_seconds=1.0,
    quotas={},
    synthetic_gpus_per_host=None,
    omp_num_threads=None,
    keep_host_trees=False,
)

_RECORDED = committed(ASSUMED)
AWS = _RECORDED.profile
CONTRADICTED = _RECORDED.contradicted
"""Sentences: what an account was recorded to do and the sandbox cannot."""

FAST = Profile(
    starting_seconds=0.5,
    warm_starting_seconds=0.1,
    restart_seconds=0.2,
    image_seconds=0.2,
    stop_grace_seconds=5.0,
    peer_grace_seconds=2.0,
    log_flush_seconds=1.0,
    log_delay=Delay(0.5, 0.5),
    metric_flush_seconds=2.0,
    metric_delay=Delay(0.0, 0.0),
    delay_seed=0,
    late_after_end=False,
    host_metric_seconds=5.0,
    checkpoint_sync_seconds=1.0,
    calls_per_second=CALLS_PER_SECOND,
    # The watcher ticks six times as often here as in AWS, several runs at once start within a second of each other, and
    # a person at the screen looks on through the same account.
    rate_burst_seconds=15.0,
    # Those of a new account. Whoever wants more asks for it, as there, or has it granted (sandbox/granted.py).
    quotas={},
    # A CPU type has no GPU; the sandbox reports two, so that a watcher's GPU signal can be seen at work.
    synthetic_gpus_per_host=2,
    omp_num_threads=1,
    keep_host_trees=False,
)

LAGGED = replace(
    FAST,
    log_delay=AWS.log_delay,
    metric_delay=AWS.metric_delay,
    late_after_end=AWS.late_after_end,
)
"""A watcher that is right with this one is not helped by telemetry that comes at once."""


def deviations(profile: Profile) -> dict[str, tuple[object, object]]:
    """What `profile` has different from AWS: field -> (AWS, profile)."""
    values = {field.name: (getattr(AWS, field.name), getattr(profile, field.name)) for field in fields(Profile)}
    return {name: pair for name, pair in values.items() if pair[0] != pair[1]}
