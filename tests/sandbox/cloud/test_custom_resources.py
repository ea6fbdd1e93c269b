from __future__ import annotations

from typing import Any

import pytest

from sandbox.cloud.custom_resources import fail_at_once

EVENT = {"ResponseURL": "http://127.0.0.1:1/_ministack/cfn-response/token-1", "LogicalResourceId": "Published"}
FAILED = {"error": True, "body": {"errorType": "ImportError", "errorMessage": "No module named 'x'"}}


def _delivered(result: dict[str, Any], event: Any) -> list[tuple[str, dict[str, Any]]]:
    delivered: list[tuple[str, dict[str, Any]]] = []

    def deliver(token: str, answer: dict[str, Any]) -> bool:
        delivered.append((token, answer))
        return True

    assert fail_at_once(lambda _function, _event: result, deliver)({}, event) is result
    return delivered


def test_a_failed_function_answers_for_its_custom_resource() -> None:
    reason = "its function failed: ImportError: No module named 'x'"
    assert _delivered(FAILED, EVENT) == [("token-1", {"Status": "FAILED", "Reason": reason})]


def test_a_function_that_worked_answers_for_itself() -> None:
    assert _delivered({"body": None}, EVENT) == []


@pytest.mark.parametrize("event", [{"detail-type": "Scheduled Event"}, [], "text", None])
def test_other_events_are_left_alone(event: Any) -> None:
    assert _delivered(FAILED, event) == []
