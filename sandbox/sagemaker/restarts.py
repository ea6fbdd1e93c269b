"""When a job goes on under its name after its hosts have ended: spot interruption, in-job retry, cluster repair.

Sources: API reference, RetryStrategy (InternalServerError only; the secondary status is Starting again); developer
guide, model-managed-spot-training, and model-checkpoints-cluster-repair (a *failed* job, GPU instances, at most ten
repairs, not billed, from the previous checkpoint). Assumed: `Restarting` stands between the failure and `Starting`; how
repair and RetryStrategy go together (a repair does not count as a retry); hosts
are new ones after each of the three.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sandbox.sagemaker import record
from sandbox.sagemaker.endings import Failed, Interrupted
from sandbox.sagemaker.fault_plan import FaultPlan
from sandbox.sagemaker.record import TrainingJob

MAX_REPAIRS = 10
"""Developer guide, model-checkpoints-cluster-repair."""

_GPU_TYPE = re.compile(r"ml\.(p|g)\d")
_KEEPS_WARM_POOL = ("AlgorithmError", "ClientError")


@dataclass(frozen=True)
class Restart:
    secondary_status: str
    message: str | None
    last_sync: bool
    """Whether checkpoints that were not uploaded yet still are. A reclaimed or broken host has no time for it
    (assumed)."""


SPOT = Restart("Interrupted", None, last_sync=False)
REPAIR = Restart("Restarting", record.REPAIRING, last_sync=False)
RETRY = Restart("Restarting", None, last_sync=True)


class Restarts:
    """Of one job."""

    def __init__(self, job: TrainingJob, plan: FaultPlan) -> None:
        self._job = job
        self._plan = plan
        self._retries_left: int = job.request.get("RetryStrategy", {}).get("MaximumRetryAttempts", 0)
        self._repairs = 0

    def after(self, ending: Failed | Interrupted) -> Restart | None:
        """What follows, None if the job ends here."""
        if isinstance(ending, Interrupted):
            return SPOT
        reason = str(ending)
        if reason.startswith("InternalServerError") and self._retries_left > 0:
            self._retries_left -= 1
            return RETRY
        # Only a failed container is repaired: a hang never is, nor a job that somebody stops.
        if reason.startswith("AlgorithmError") and self._is_broken_hardware():
            self._repairs += 1
            return REPAIR
        return None

    def _is_broken_hardware(self) -> bool:
        instance_type = self._job.request["ResourceConfig"]["InstanceType"]
        if _GPU_TYPE.match(instance_type) is None or self._repairs >= MAX_REPAIRS:
            return False
        return self._plan.take("RepairCluster", self._job.name) is not None


def keeps_warm_pool(reason: str) -> bool:
    """Whether a job that failed with this reason leaves its hosts: after an algorithm or client error alone, since any
    other failure puts the cluster's health in doubt (developer guide, train-warm-pools)."""
    return reason.startswith(_KEEPS_WARM_POOL)
