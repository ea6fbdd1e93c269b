# ruff: noqa: INP001, T201, S310, BLE001 - a function's code: no package, prints to its log, reports any outcome
"""What the tests ask of a function: what it sees, what it may do, and to fail or to take long."""

import hashlib
import importlib.util
import json
import os
import time
import urllib.request
from typing import Any

import boto3


def work(event: dict[str, Any], context: Any) -> Any:
    print(json.dumps(event))
    ask = event.get("ask")
    if ask == "fail":
        raise RuntimeError("asked to fail")
    if ask == "sleep":
        time.sleep(event["seconds"])
    if ask == "modules":
        return {name: importlib.util.find_spec(name) is not None for name in event["names"]}
    if ask == "environment":
        return dict(os.environ)
    if ask == "put":
        return _outcome(
            lambda: boto3.resource("dynamodb").Table(event["table"]).put_item(Item={"pk": "from a function"})
        )
    if ask == "create_job":
        return _outcome(lambda: boto3.client("sagemaker").create_training_job(**event["request"]))
    if ask == "who":
        return boto3.client("sts").get_caller_identity()["Arn"]
    return None


def publish(event: dict[str, Any], context: Any) -> None:
    properties = event["ResourceProperties"]
    if properties["Fail"] == "1":
        raise RuntimeError("the publisher was asked to fail")
    body = boto3.client("s3").get_object(Bucket=properties["Bucket"], Key=properties["Key"])["Body"].read()
    answer = {
        "Status": "SUCCESS",
        "PhysicalResourceId": "published",
        **{name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")},
        "Data": {"Digest": hashlib.sha256(body).hexdigest()},
    }
    request = urllib.request.Request(event["ResponseURL"], data=json.dumps(answer).encode(), method="PUT")
    request.add_header("Content-Type", "")
    urllib.request.urlopen(request, timeout=10).read()


def _outcome(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return getattr(error, "response", {"Error": {"Code": repr(error)}})["Error"]["Code"]
    return "done"
