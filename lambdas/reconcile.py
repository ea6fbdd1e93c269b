"""Triggers: the schedule (all active runs) and a training job's state change (that job's run). One step for both."""

from __future__ import annotations

import os
from typing import Any

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.data_classes import EventBridgeEvent, event_source
from aws_lambda_powertools.utilities.typing import LambdaContext

from holdfast.aws.settings import ReconcileSettings
from lambdas.wiring import reconciler_of

logger = Logger(service="reconcile")
tracer = Tracer(service="reconcile")
metrics = Metrics(namespace="Holdfast", service="reconcile")
part = reconciler_of(ReconcileSettings.from_env(os.environ))


@logger.inject_lambda_context(correlation_id_path="id")
@tracer.capture_lambda_handler(capture_response=False)
@metrics.log_metrics
@event_source(data_class=EventBridgeEvent)
def handler(event: EventBridgeEvent, context: LambdaContext) -> dict[str, Any]:
    part.publisher.idempotency.register_lambda_context(context)
    # An event carries a name, never a verdict: what it says of the job's status is not looked at.
    swept = part.changed(event.detail) if event.source == "aws.sagemaker" else part.sweep.run()
    for report in swept.reports:
        log = logger.error if report.error else logger.debug if report.quiet else logger.info
        log("run", extra=report.fields())
    (logger.error if swept.denied else logger.info)("sweep", extra=swept.fields())
    metrics.add_metric(name="RunsLookedAt", unit=MetricUnit.Count, value=len(swept.reports))
    metrics.add_metric(name="RunsFailed", unit=MetricUnit.Count, value=sum(1 for one in swept.reports if one.error))
    metrics.add_metric(name="SweepsDenied", unit=MetricUnit.Count, value=int(swept.denied))
    metrics.add_metric(name="RunsLeft", unit=MetricUnit.Count, value=swept.left)
    return {"runs": len(swept.reports), "left": swept.left}
