"""Triggers: a deployment (custom resource), and a daily schedule. Asks for short quotas and follows the requests."""

from __future__ import annotations

import os
from typing import Any

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from holdfast.aws.custom_resource import Outcome, answer
from lambdas.wiring import keep_quotas

logger = Logger(service="quotas")
tracer = Tracer(service="quotas")
metrics = Metrics(namespace="Holdfast", service="quotas")


@logger.inject_lambda_context
@tracer.capture_lambda_handler(capture_response=False)
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    if "ResponseURL" in event:
        # First of all: whatever becomes of the quotas, and be it this function's death, no deployment waits for it.
        answer(event, Outcome("SUCCESS", "see status/quotas.json in the bucket", "quotas"))
    kept = keep_quotas(event, context, os.environ)
    metrics.add_metric(name="QuotaProblems", unit=MetricUnit.Count, value=kept.problems)
    (logger.error if kept.problems else logger.info)("quotas", extra=kept.fields())
