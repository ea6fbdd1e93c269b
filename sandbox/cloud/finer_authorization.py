"""Resources and condition keys that AWS authorizes on and that MiniStack leaves out or cuts short.

Without them a policy that is right for AWS would be denied here, and people would widen it to make the sandbox work.
Source: the service authorization reference of CloudWatch Logs (PutLogEvents and GetLogEvents are authorized on the log
stream) and of CloudWatch (PutMetricData fills `cloudwatch:namespace`).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from ministack.core import iam_actions

_GZIP = b"\x1f\x8b"
_ON_THE_STREAM = frozenset({"PutLogEvents", "GetLogEvents"})


def install() -> None:
    """Before the first request. Wraps what is there, so that other extensions' own wrapping stays in force."""
    iam_actions.extract_resource_arn = _with_log_streams(iam_actions.extract_resource_arn)
    iam_actions.request_tag_context = _with_namespace(iam_actions.request_tag_context)


def _with_log_streams(extract: Callable[..., str]) -> Callable[..., str]:
    def extract_resource_arn(
        service: str, method: str, path: str, headers: dict[str, str], body: bytes, *rest: Any
    ) -> str:
        arn = extract(service, method, path, headers, body, *rest)
        operation = headers.get("x-amz-target", "").rpartition(".")[2]
        if service != "logs" or operation not in _ON_THE_STREAM or ":log-group:" not in arn:
            return arn
        return f"{arn}:log-stream:{_field(body, 'logStreamName')}"

    return extract_resource_arn


def _with_namespace(context_of: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def request_tag_context(service: str, iam_action: str, body: bytes, params: dict[str, Any]) -> dict[str, Any]:
        context = context_of(service, iam_action, body, params)
        if iam_action != "cloudwatch:PutMetricData":
            return context
        return {**context, "cloudwatch:namespace": _field(body, "Namespace")}

    return request_tag_context


def _field(body: bytes, name: str) -> str:
    """A string member of a request in JSON, which botocore speaks, or in the older query form.

    SDKs that speak CBOR only get no value here, and so are denied by a policy that asks for one: fails closed.
    """
    if body[:2] == _GZIP:  # botocore compresses a PutMetricData of more than 10 KiB
        body = gzip.decompress(body)
    if body[:1] == b"{":
        document: Any = json.loads(body)
    else:
        document = {key: values[0] for key, values in parse_qs(body.decode("utf-8", "replace")).items()}
    return str(document.get(name, "")) if isinstance(document, dict) else ""
