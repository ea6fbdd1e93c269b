"""Invokes a function every few seconds, as an EventBridge rule does every minute.

EventBridge has no schedule below one minute. The sandbox has no patience for minutes, and the reconciler does not care:
a tick is only an invocation. So the deployed rule stays as it is and this ticker adds ticks in between, with the very
payload that a rule sends.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Self

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from sandbox.cloud.lifecycle import Cloud

_FUNCTION_TIMEOUT_SECONDS = 900
"""No function may run longer (https://docs.aws.amazon.com/lambda/latest/dg/configuration-timeout.html)."""


def scheduled_event(*, account: str, region: str, rule: str, now: datetime) -> dict[str, Any]:
    """What a function gets from a rule with a schedule
    (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-run-lambda-schedule.html). `now` is aware."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": account,
        "time": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": region,
        "resources": [f"arn:aws:events:{region}:{account}:rule/{rule}"],
        "detail": {},
    }


class Ticker:
    """Ticks from `start()` (at once) to `stop()`, from a thread of its own. Also a context manager.

    The next tick waits until the last one has ended: ticks never pile up, one that takes longer than `every_seconds` is
    followed by the next at once. A tick that fails is reported and does not stop the ticker, as with a rule.
    """

    def __init__(
        self,
        cloud: Cloud,
        function_name: str,
        *,
        every_seconds: float,
        rule: str = "sandbox-ticker",
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        if every_seconds <= 0:
            raise ValueError(f"every_seconds is {every_seconds}; it has to be above 0")
        self._cloud = cloud
        self._function_name = function_name
        self._every_seconds = every_seconds
        self._rule = rule
        self._on_failure = on_failure or _ignore
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._tick_until_stopped, daemon=True, name=f"ticker-{function_name}")
        # One attempt: a retried tick would be two ticks.
        settings = Config(read_timeout=_FUNCTION_TIMEOUT_SECONDS, retries={"total_max_attempts": 1})
        self._lambda = boto3.client("lambda", config=settings, **cloud.client_arguments())  # type: ignore[call-overload]

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """No tick starts after this; waits at most `timeout_seconds` for the one that runs."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _tick_until_stopped(self) -> None:
        while not self._stopping.is_set():
            started = datetime.now(UTC)
            self._tick(started)
            taken = (datetime.now(UTC) - started).total_seconds()
            self._stopping.wait(max(0.0, self._every_seconds - taken))

    def _tick(self, now: datetime) -> None:
        event = scheduled_event(account=self._cloud.account, region=self._cloud.region, rule=self._rule, now=now)
        try:
            # RequestResponse although a rule would use Event: only then is it known when the tick has ended.
            answer = self._lambda.invoke(FunctionName=self._function_name, Payload=json.dumps(event).encode())
            if answer.get("FunctionError"):
                self._on_failure(answer["Payload"].read().decode(errors="replace"))
        except (ClientError, BotoCoreError) as error:
            if not self._stopping.is_set():
                self._on_failure(str(error))


def _ignore(_failure: str) -> None:
    """A failed tick is in the function's log already."""
