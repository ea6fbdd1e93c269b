"""Stack operations answer when the stack is done, if that is soon.

CloudFormation answers at once and works on; the CDK's command line then looks every five seconds, so each stack costs
it five seconds although the emulator is done in a fraction of one. Holding the answer back until the stack has settled
(or for HOLD_SECONDS) changes nothing that a client may rely on, and saves those seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlencode

from ministack import app

HOLD_SECONDS = 30.0
"""Below the 60 s after which SDKs give up on an answer."""
_POLL_SECONDS = 0.05
_HELD_ACTIONS = frozenset({"CreateStack", "UpdateStack", "ExecuteChangeSet"})

Response = tuple[int, dict[str, str], Any]
Handler = Callable[[str, str, dict[str, str], bytes, dict[str, Any]], Awaitable[Response]]


def install() -> None:
    app.SERVICE_HANDLERS["cloudformation"] = hold(app.SERVICE_HANDLERS["cloudformation"], HOLD_SECONDS)


def hold(handle: Handler, hold_seconds: float) -> Handler:
    """`handle`, whose answers to stack operations wait for the stack."""

    async def held(
        method: str, path: str, headers: dict[str, str], body: bytes, query_params: dict[str, Any]
    ) -> Response:
        answer = await handle(method, path, headers, body, query_params)
        form = parse_qs(body.decode("utf-8", "replace"))
        stack = form.get("StackName")
        if answer[0] == 200 and stack and form.get("Action", [""])[0] in _HELD_ACTIONS:
            await _settled(handle, headers, stack[0], hold_seconds)
        return answer

    return held


async def _settled(handle: Handler, headers: dict[str, str], stack: str, hold_seconds: float) -> None:
    question = urlencode({"Action": "DescribeStacks", "Version": "2010-05-15", "StackName": stack}).encode()
    deadline = asyncio.get_running_loop().time() + hold_seconds
    while asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(_POLL_SECONDS)
        status, _, body = await handle("POST", "/", headers, question, {})
        text = body if isinstance(body, str) else bytes(body).decode("utf-8", "replace")
        if status != 200 or "_IN_PROGRESS</StackStatus>" not in text:
            return
