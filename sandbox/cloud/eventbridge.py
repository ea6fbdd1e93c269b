"""Events that a service itself puts on the default bus, with a source `aws.*`, which PutEvents refuses to customers."""

from __future__ import annotations

import contextvars
import json
from collections.abc import Sequence

from ministack.core import responses
from ministack.services import eventbridge

from sandbox.cloud.context import JsonObject

MAX_DETAIL_BYTES = 256 * 1024
"""An event entry of PutEvents may have 256 KB, so a service's event is never larger either
(https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevents.html)."""


def emit(
    source: str, detail_type: str, detail: JsonObject, resources: Sequence[str], *, account: str, region: str
) -> None:
    """Put one event on the default bus. Matching rules are started before this returns; their targets run on their own.

    Raises ValueError for a detail above MAX_DETAIL_BYTES or if the bus refused the event.
    """
    text = json.dumps(detail)
    if len(text.encode()) > MAX_DETAIL_BYTES:
        raise ValueError(
            f"event {detail_type!r}: the detail has {len(text.encode())} bytes, at most {MAX_DETAIL_BYTES}"
        )
    entry = {"Source": source, "DetailType": detail_type, "Detail": text, "Resources": list(resources)}
    # In a context of its own: the caller may be any thread, and MiniStack keeps account and Region per context.
    contextvars.copy_context().run(_put, entry, account, region)


def _put(entry: JsonObject, account: str, region: str) -> None:
    responses.set_request_account_id(account)
    responses.set_request_region(region)
    _, _, body = eventbridge._put_events({"Entries": [entry]}, allow_aws_source=True)
    answer = json.loads(body)
    if answer.get("FailedEntryCount"):
        raise ValueError(f"event {entry['DetailType']!r} was refused: {answer['Entries']}")
