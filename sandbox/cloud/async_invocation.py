"""Asynchronous invocation of functions with AWS's retries and dead letters.

MiniStack retries after one second, counts a throttle as a failure of the function, writes its own envelope into a
dead-letter queue, and EventBridge rules bypass all of it. Here, as AWS documents it
(https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html):

- a function that fails is run two more times, after one and after two minutes (EventInvokeConfig may lower that);
- a throttled event goes back to the queue: 1 s, doubling up to 5 minutes, until its maximum age (6 hours);
- then the event itself goes to the dead-letter target with the attributes RequestID, ErrorCode and ErrorMessage, or an
  envelope to the on-failure destination. It is sent with the function's role: without the permission it is lost.

On-success destinations are not sent.
"""

from __future__ import annotations

import contextvars
import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from ministack.core import lambda_runtime
from ministack.services import eventbridge, lambda_svc

logger = logging.getLogger("sandbox.cloud")

FAILURE_WAITS_SECONDS = (60.0, 120.0)
FIRST_THROTTLE_WAIT_SECONDS = 1.0
LONGEST_THROTTLE_WAIT_SECONDS = 300.0
MAXIMUM_AGE_SECONDS = 21_600.0
_ERROR_MESSAGE_BYTES = 1024

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A failed event and where it goes."""

    target_arn: str
    body: str
    attributes: Mapping[str, tuple[str, str]]
    """Name to (data type, value)."""


def install(endpoint_url: str) -> None:
    def deliver(record: Record, letter: DeadLetter) -> None:
        _send(endpoint_url, record["config"], letter)

    def invoke_async_with_retry(func: Record, event: Any) -> None:
        record = func if "config" in func else {"config": func}
        execute = lambda_svc._execute_function_with_config_scope
        _in_background(
            lambda: run(record, event, execute=execute, deliver=deliver, sleep=time.sleep, clock=time.monotonic)
        )

    def dispatch_to_lambda(arn: str, payload: str) -> None:
        func, config, name = lambda_svc._get_func_record_for_ref(arn)
        if not func or not config:
            logger.warning("EventBridge: function %s does not exist", name)
            return
        invoke_async_with_retry(lambda_svc._execution_record_for_config(func, config), json.loads(payload))

    lambda_svc.invoke_async_with_retry = invoke_async_with_retry
    eventbridge._dispatch_to_lambda = dispatch_to_lambda


def run(
    record: Record,
    event: Any,
    *,
    execute: Callable[[Record, Any], Record],
    deliver: Callable[[Record, DeadLetter], None],
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> None:
    """One event, until it was handled, ran out of attempts or grew too old."""
    settings = record.get("event_invoke_config") or (record.get("event_invoke_configs") or {}).get("$LATEST") or {}
    retries = settings.get("MaximumRetryAttempts")
    retries = len(FAILURE_WAITS_SECONDS) if retries is None else int(retries)
    oldest = clock() + float(settings.get("MaximumEventAgeInSeconds") or MAXIMUM_AGE_SECONDS)
    failures, throttles, result = 0, 0, {}
    while True:
        result = execute(record, event)
        if not result.get("error"):
            return
        if result.get("throttle"):
            wait = min(FIRST_THROTTLE_WAIT_SECONDS * 2**throttles, LONGEST_THROTTLE_WAIT_SECONDS)
            throttles += 1
        elif failures >= retries:
            break
        else:
            wait = FAILURE_WAITS_SECONDS[failures]
            failures += 1
        if clock() + wait > oldest:
            break
        sleep(wait)
    letter = _dead_letter(record, settings, event, result, attempts=failures + throttles + 1)
    if letter is not None:
        deliver(record, letter)


def _dead_letter(
    record: Record, settings: Mapping[str, Any], event: Any, result: Record, *, attempts: int
) -> DeadLetter | None:
    config = record["config"]
    destination = ((settings.get("DestinationConfig") or {}).get("OnFailure") or {}).get("Destination")
    body = result.get("body")
    error = body if isinstance(body, dict) else {}
    request_id = str(uuid.uuid4())
    if destination:
        envelope = {
            "version": "1.0",
            "requestContext": {
                "requestId": request_id,
                "functionArn": f"{config['FunctionArn']}:$LATEST",
                "condition": "EventAgeExceeded" if result.get("throttle") else "RetriesExhausted",
                "approximateInvokeCount": attempts,
            },
            "requestPayload": event,
            "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
            "responsePayload": error,
        }
        return DeadLetter(target_arn=destination, body=json.dumps(envelope), attributes={})
    target = (config.get("DeadLetterConfig") or {}).get("TargetArn")
    if not target:
        return None
    message = str(error.get("errorMessage") or error.get("message") or "").encode()[:_ERROR_MESSAGE_BYTES]
    attributes = {
        "RequestID": ("String", request_id),
        "ErrorCode": ("Number", "429" if result.get("throttle") else "200"),
        "ErrorMessage": ("String", message.decode(errors="ignore") or "Unknown"),
    }
    return DeadLetter(target_arn=target, body=json.dumps(event), attributes=attributes)


def _send(endpoint_url: str, config: Mapping[str, Any], letter: DeadLetter) -> None:
    _, _, _, region, _, name = letter.target_arn.split(":", 5)
    service = letter.target_arn.split(":")[2]
    keys = lambda_runtime.execution_credentials(config)
    client_arguments = {
        "endpoint_url": endpoint_url,
        "region_name": region,
        "aws_access_key_id": keys["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": keys["AWS_SECRET_ACCESS_KEY"],
        "aws_session_token": keys["AWS_SESSION_TOKEN"],
    }
    attributes: dict[str, Any] = {
        key: {"DataType": data_type, "StringValue": value} for key, (data_type, value) in letter.attributes.items()
    }
    try:
        if service == "sqs":
            account = letter.target_arn.split(":")[4]
            url = f"{endpoint_url}/{account}/{name}"
            boto3.client("sqs", **client_arguments).send_message(
                QueueUrl=url, MessageBody=letter.body, MessageAttributes=attributes
            )
        elif service == "sns":
            boto3.client("sns", **client_arguments).publish(
                TopicArn=letter.target_arn, Message=letter.body, MessageAttributes=attributes
            )
        else:
            logger.error("function %s: a dead letter for %s is lost: not emulated", config["FunctionName"], service)
    except (ClientError, BotoCoreError) as error:
        logger.error("function %s: a dead letter for %s is lost: %s", config["FunctionName"], letter.target_arn, error)


def _in_background(work: Callable[[], None]) -> None:
    """MiniStack keeps account and Region in the context, so the thread gets a copy of it."""
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True, name="async-invocation").start()
