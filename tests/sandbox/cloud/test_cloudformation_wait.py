from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs, urlencode

from sandbox.cloud.cloudformation_wait import hold


class Stack:
    """Answers like CloudFormation: in progress for a number of looks, then done."""

    def __init__(self, looks_until_done: int) -> None:
        self._left = looks_until_done
        self.looks = 0

    async def handle(self, _method: str, _path: str, _headers: Any, body: bytes, _query: Any) -> tuple[int, Any, bytes]:
        if parse_qs(body.decode())["Action"] != ["DescribeStacks"]:
            return 200, {}, b"<Accepted/>"
        self.looks += 1
        self._left -= 1
        status = "CREATE_COMPLETE" if self._left <= 0 else "CREATE_IN_PROGRESS"
        return 200, {}, f"<StackStatus>{status}</StackStatus>".encode()


def _call(stack: Stack, action: str, *, hold_seconds: float = 5.0) -> bytes:
    body = urlencode({"Action": action, "StackName": "s"}).encode()
    return asyncio.run(hold(stack.handle, hold_seconds)("POST", "/", {}, body, {}))[2]  # type: ignore[no-any-return]


def test_a_stack_operation_is_answered_when_the_stack_is_done() -> None:
    stack = Stack(looks_until_done=3)
    assert _call(stack, "ExecuteChangeSet") == b"<Accepted/>"
    assert stack.looks == 3


def test_a_slow_stack_is_not_waited_for_forever() -> None:
    stack = Stack(looks_until_done=1_000)
    assert _call(stack, "CreateStack", hold_seconds=0.2) == b"<Accepted/>"
    assert stack.looks < 10


def test_reading_is_never_held() -> None:
    stack = Stack(looks_until_done=1_000)
    _call(stack, "DescribeStacks")
    assert stack.looks == 1
