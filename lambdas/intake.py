"""Trigger: an object was created under manifests/. Registers the run, or refuses the manifest in words."""

from __future__ import annotations

import os
from typing import Any

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.data_classes import S3EventBridgeNotificationEvent, event_source
from aws_lambda_powertools.utilities.typing import LambdaContext

from holdfast.aws.settings import IntakeSettings
from lambdas.wiring import intake_of

logger = Logger(service="intake")
tracer = Tracer(service="intake")
metrics = Metrics(namespace="Holdfast", service="intake")
part = intake_of(IntakeSettings.from_env(os.environ))


@logger.inject_lambda_context(correlation_id_path="id")
@tracer.capture_lambda_handler(capture_response=False)
@metrics.log_metrics
@event_source(data_class=S3EventBridgeNotificationEvent)
def handler(event: S3EventBridgeNotificationEvent, context: LambdaContext) -> dict[str, Any]:
    part.publisher.idempotency.register_lambda_context(context)
    taken = part.intake.take(event.detail.object.key)
    metrics.add_metric(name="ManifestAccepted" if taken.accepted else "ManifestRefused", unit=MetricUnit.Count, value=1)
    logger.info("manifest", extra={"run": taken.run, "accepted": taken.accepted, "words": taken.words})
    return {"run": taken.run, "accepted": taken.accepted}
