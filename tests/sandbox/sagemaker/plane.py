"""The training plane with shorter waits still, for the tests: plugged into the emulator by its module name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox.sagemaker import api
from sandbox.sagemaker.delays import Delay
from sandbox.sagemaker.profile import FAST

if TYPE_CHECKING:
    from sandbox.cloud.context import CloudContext

PROFILE = replace(
    FAST,
    starting_seconds=0.1,
    restart_seconds=0.05,
    image_seconds=0.1,
    stop_grace_seconds=1.5,
    peer_grace_seconds=1.0,
    log_flush_seconds=0.3,
    log_delay=Delay(0.2, 0.2),
    metric_flush_seconds=0.3,
    host_metric_seconds=1.0,
    checkpoint_sync_seconds=0.3,
    # The tests poll ten times a second and start a job each; the documented rates are tested by themselves.
    rate_burst_seconds=3600.0,
    # Jobs of many tests live side by side; instances a job and its longest run stay AWS's.
    quotas={"*.* usage": 64, "Number of instances across all*": 64},
)


def install(context: CloudContext) -> None:
    api.install(context, PROFILE)
