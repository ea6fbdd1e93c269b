"""Is the newest step older than it may be?

Half of a hang at most: a step metric, a step line and log silence are one source, all scraped from standard output.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.manifest import Watch
from holdfast.core.observation import Progress

# Where the manifest sets no bound, a person is told and nothing is stopped: enforcement is earned.
ALERT_STEP_AFTER_SECONDS = 1_800.0
ALERT_START_AFTER_SECONDS = 3_600.0


@dataclass(frozen=True)
class Staleness:
    """`stale_for_seconds` runs from the newest sign of progress to the horizon of the evidence."""

    stale: bool
    since: float
    stale_for_seconds: float
    bound_seconds: float
    enforceable: bool
    log_silent: bool
    basis: str


def stale_step(*, watch: Watch, progress: Progress, training_at: float, horizon: float) -> Staleness:
    """Judge the step against its bound.

    `training_at`: when SageMaker's Training began. `horizon`: the newest moment for which evidence was delivered; a
    metrics pipe that is five minutes late must not make a healthy step look five minutes old.
    """
    if progress.step_at is None:
        since, explicit, alert = training_at, watch.start_after_seconds, ALERT_START_AFTER_SECONDS
        what = "no step yet, training began"
    else:
        # A point from the attempt before cannot be newer than this attempt's start.
        since, explicit, alert = max(progress.step_at, training_at), watch.stall_after_seconds, ALERT_STEP_AFTER_SECONDS
        what = f"last step {progress.step}"
    bound = alert if explicit is None else float(explicit)
    age = max(0.0, horizon - since)
    silent = progress.log_at is None or horizon - max(progress.log_at, training_at) >= bound
    return Staleness(
        stale=age >= bound,
        since=since,
        stale_for_seconds=age,
        bound_seconds=bound,
        enforceable=explicit is not None,
        log_silent=silent,
        basis=f"{what} {age:.0f} s ago, allowed are {bound:.0f} s; log {'silent' if silent else 'still written'}",
    )
