"""State-change events on their way to EventBridge, which gets them at best effort (developer guide; EventBridge
reference, events-ref-sagemaker): normally once and at once, and by fault not at all, twice, or late."""

from __future__ import annotations

import logging
import threading

from sandbox.cloud.context import CloudContext, JsonObject
from sandbox.sagemaker.fault_plan import FaultPlan
from sandbox.sagemaker.record import TrainingJob

logger = logging.getLogger("sandbox.sagemaker")

DETAIL_TYPE = "SageMaker Training Job State Change"


class EventDelivery:
    def __init__(self, context: CloudContext, plan: FaultPlan) -> None:
        self._context = context
        self._plan = plan

    def announce(self, job: TrainingJob) -> None:
        """Send the job's state as it is now. Never raises: a job must not fail because its event could not be sent."""
        detail = job.event_detail()
        if self._plan.take("LoseEvents", job.name) is not None:
            return
        copies = 1 if self._plan.take("DoubleEvents", job.name) is None else 2
        late = self._plan.take("DelayEvents", job.name)
        if late is None:
            self._send(job, detail, copies)
            return
        timer = threading.Timer(late.seconds("Seconds"), self._send, (job, detail, copies))
        timer.daemon = True  # an event that is still on its way when the emulator ends is lost, as best effort allows
        timer.start()

    def _send(self, job: TrainingJob, detail: JsonObject, copies: int) -> None:
        for _ in range(copies):
            try:
                self._context.emit_event(DETAIL_TYPE, detail, [job.arn])
            except Exception:
                logger.exception("%s: event lost", job.name)
