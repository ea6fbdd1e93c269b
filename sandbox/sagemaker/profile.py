"""Every constant of the training plane in one place: AWS's documented value, its source, and what the sandbox uses.

`AWS` is the service as documented; where nothing is documented the number is marked "assumed". `FAST` is what the demo
and the tests run with. Time is never scaled: the waits are shorter, a second is a second.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Durations are in seconds."""

    starting_seconds: float
    """In `Starting`: capacity and instances. AWS: minutes, undocumented; for ml.p and ml.g up to MaxPendingTime."""

    image_seconds: float
    """In `Training` before the container starts: the image's download. AWS: undocumented, minutes for large images."""

    stop_grace_seconds: float
    """From SIGTERM to SIGKILL. AWS: 120 (API reference of StopTrainingJob)."""

    peer_grace_seconds: float
    """From one host's failure to the SIGKILL of the others, which get SIGTERM at once. AWS: undocumented, assumed."""

    log_flush_seconds: float
    """Between two PutLogEvents of a host. AWS: undocumented, assumed."""

    log_delay_seconds: float
    """Least age of a line before it is sent. AWS: undocumented, assumed."""

    metric_flush_seconds: float
    """Between two PutMetricData of metrics found in the log. AWS: undocumented, assumed."""

    host_metric_seconds: float
    """Period of the host metrics. AWS: 60 ("1-minute", developer guide, monitoring-cloudwatch)."""

    checkpoint_sync_seconds: float
    """Between two passes of the checkpoint upload. AWS: undocumented ("in near real time"), assumed."""

    synthetic_gpus_per_host: int | None
    """GPUs to report for every instance type; None: as many as the type has, none for a CPU type. All are synthetic."""

    omp_num_threads: int | None
    """OMP_NUM_THREADS of the hosts' processes; None: not set, as in SageMaker. The sandbox's hosts share few cores."""

    keep_host_trees: bool
    """Keep the hosts' /opt/ml trees after the job, for a look; in SageMaker they go with the instance."""


AWS = Profile(
    starting_seconds=90.0,
    image_seconds=30.0,
    stop_grace_seconds=120.0,
    peer_grace_seconds=30.0,
    log_flush_seconds=5.0,
    log_delay_seconds=5.0,
    metric_flush_seconds=60.0,
    host_metric_seconds=60.0,
    checkpoint_sync_seconds=30.0,
    synthetic_gpus_per_host=None,
    omp_num_threads=None,
    keep_host_trees=False,
)

FAST = Profile(
    starting_seconds=0.5,
    image_seconds=0.2,
    stop_grace_seconds=5.0,
    peer_grace_seconds=2.0,
    log_flush_seconds=1.0,
    log_delay_seconds=0.5,
    metric_flush_seconds=2.0,
    host_metric_seconds=5.0,
    checkpoint_sync_seconds=1.0,
    # A CPU type has no GPU; the sandbox reports two, so that a watcher's GPU signal can be seen at work.
    synthetic_gpus_per_host=2,
    omp_num_threads=1,
    keep_host_trees=False,
)


def deviations(profile: Profile) -> dict[str, tuple[object, object]]:
    """What `profile` has different from AWS: field -> (AWS, profile)."""
    values = {field.name: (getattr(AWS, field.name), getattr(profile, field.name)) for field in fields(Profile)}
    return {name: pair for name, pair in values.items() if pair[0] != pair[1]}
