"""During a deployment: unpacks a release's bundle under `templates/<digest>/`. Called by CloudFormation."""

from __future__ import annotations

import os

import boto3
from aws_lambda_powertools import Logger, Tracer
from aws_lambda_powertools.utilities.data_classes import CloudFormationCustomResourceEvent, event_source
from aws_lambda_powertools.utilities.typing import LambdaContext

from holdfast.aws.publish import answer_cloudformation, publish_bundle
from holdfast.aws.settings import PublishSettings

logger = Logger(service="publish")
tracer = Tracer(service="publish")


@logger.inject_lambda_context
@tracer.capture_lambda_handler(capture_response=False)
@event_source(data_class=CloudFormationCustomResourceEvent)
def handler(event: CloudFormationCustomResourceEvent, context: LambdaContext) -> None:
    def publish() -> str:
        return publish_bundle(
            boto3.client("s3"),
            bucket=PublishSettings.from_env(os.environ).bucket,
            properties=event.resource_properties,
            milliseconds_left=context.get_remaining_time_in_millis,
        )

    outcome = answer_cloudformation(event.raw_event, publish)
    logger.info(
        "bundle", extra={"request_type": event.request_type, "status": outcome.status, "reason": outcome.reason}
    )
