"""FilterLogEvents as the API reference has it: by stream prefix, and in pages.

MiniStack reads every stream of the group whatever `logStreamNamePrefix` says, so one job would read another's lines,
it cuts a long answer off without a token, and it does not know `?A ?B` patterns. Each would hide real mistakes of a
watcher.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from ministack.core.responses import error_response_json, json_response
from ministack.services import cloudwatch_logs

PAGE_EVENTS = 1_000
"""AWS: up to 1 MB or 10,000 events a page. Smaller here, so that whoever does not follow tokens is found out."""

_Answer = tuple[int, dict[str, str], bytes]


def install() -> None:
    cloudwatch_logs._compile_filter_pattern = _with_any_of(cloudwatch_logs._compile_filter_pattern)
    cloudwatch_logs._filter_log_events = _by_prefix_and_page(cloudwatch_logs._filter_log_events)


def _by_prefix_and_page(filter_events: Callable[[dict[str, Any]], _Answer]) -> Callable[[dict[str, Any]], _Answer]:
    def filter_log_events(data: dict[str, Any]) -> _Answer:
        try:
            asked, skip = _from_token(data)
        except ValueError:
            return _refusal("The specified nextToken is invalid.")
        prefix = asked.pop("logStreamNamePrefix", None)
        if prefix is not None:
            if asked.get("logStreamNames"):
                return _refusal("logStreamNames and logStreamNamePrefix are mutually exclusive.")
            asked["logStreamNames"] = _streams(asked, prefix)
            if not asked["logStreamNames"] and _group(asked) is not None:
                return _answer({"events": [], "searchedLogStreams": []})
        limit = min(int(asked.get("limit", PAGE_EVENTS)), PAGE_EVENTS)
        status, headers, body = filter_events({**asked, "limit": limit + skip})
        if status != 200:
            return status, headers, body
        found = json.loads(body)["events"]
        events = found[skip:]
        answer: dict[str, Any] = {"events": events, "searchedLogStreams": []}
        if len(events) == limit:
            answer["nextToken"] = _token(events[-1]["timestamp"], found)
        return _answer(answer)

    return filter_log_events


def _with_any_of(compile_pattern: Callable[[str], Callable[[str], bool]]) -> Callable[[str], Callable[[str], bool]]:
    """`?A ?B`: lines that hold A or B (CloudWatch Logs user guide, "Filter pattern syntax"). MiniStack finds none."""

    def compile_filter_pattern(raw: str) -> Callable[[str], bool]:
        words = (raw or "").split()
        if not words or not all(word.startswith("?") and len(word) > 1 for word in words):
            return compile_pattern(raw)
        wanted = [word[1:].strip('"') for word in words]
        return lambda message: any(word in message for word in wanted)

    return compile_filter_pattern


def _answer(document: dict[str, Any]) -> _Answer:
    status, headers, body = json_response(document)
    return status, headers, body


def _refusal(words: str) -> _Answer:
    status, headers, body = error_response_json("InvalidParameterException", words, 400)
    return status, headers, body


def _group(data: dict[str, Any]) -> Any:
    return cloudwatch_logs._log_groups.get(cloudwatch_logs._resolve_log_group_name(data))


def _streams(data: dict[str, Any], prefix: str) -> list[str]:
    group = _group(data)
    return [] if group is None else [name for name in group["streams"] if name.startswith(prefix)]


def _token(last: int, found: list[dict[str, Any]]) -> str:
    """Go on at the last event's time, past the events of that time which were given already."""
    given = sum(1 for event in found if event["timestamp"] == last)
    return base64.urlsafe_b64encode(json.dumps([last, given]).encode()).decode()


def _from_token(data: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The request from where its token left off, and how many events of that moment to pass over. Raises ValueError."""
    asked = dict(data)
    token = asked.pop("nextToken", None)
    if not token:
        return asked, 0
    start, given = json.loads(base64.urlsafe_b64decode(token))
    return {**asked, "startTime": int(start)}, int(given)
