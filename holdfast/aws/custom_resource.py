"""The answer to CloudFormation for a custom resource: a PUT to the event's ResponseURL.

Without an answer a deployment hangs until its time-out (the AWS CloudFormation user guide, "Custom resource response
objects").
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_TRIES = 3
_TIMEOUT_SECONDS = 5


class ResponseUrlError(ValueError):
    """The event's ResponseURL is no web address."""


@dataclass(frozen=True)
class Outcome:
    """What CloudFormation is told. `physical_id` names what the resource stands for."""

    status: str
    reason: str
    physical_id: str


def answer(event: Mapping[str, Any], outcome: Outcome) -> None:
    """Raises OSError where CloudFormation cannot be reached: Lambda then calls the function again."""
    document = {
        "Status": outcome.status,
        "Reason": outcome.reason,
        "PhysicalResourceId": outcome.physical_id,
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }
    _put(str(event["ResponseURL"]), json.dumps(document).encode())


def _put(url: str, body: bytes) -> None:
    if not url.startswith(("https://", "http://")):
        raise ResponseUrlError("ResponseURL is not a web address")
    # The empty Content-Type is what the URL was signed with.
    request = urllib.request.Request(url, data=body, method="PUT", headers={"Content-Type": ""})  # noqa: S310 - checked above
    for tries_left in reversed(range(_TRIES)):
        try:
            urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS).close()  # noqa: S310
        except OSError:
            if not tries_left:
                raise
        else:
            return
