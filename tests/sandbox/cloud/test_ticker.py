from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import sleep
from typing import Any, Self

import pytest

from sandbox.cloud.lifecycle import Cloud
from sandbox.cloud.ticker import Ticker, scheduled_event
from tests.sandbox.cloud.processes import wait_until


class LambdaEndpoint:
    """The Invoke call of Lambda over http: takes `seconds` each time and answers with `error`, if any."""

    def __init__(self, *, seconds: float = 0.0, error: str | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self.running = 0
        self.most_at_once = 0
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint.running += 1
                endpoint.most_at_once = max(endpoint.most_at_once, endpoint.running)
                endpoint.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                sleep(seconds)
                endpoint.running -= 1
                self.send_response(200)
                if error is not None:
                    self.send_header("X-Amz-Function-Error", "Unhandled")
                self.end_headers()
                self.wfile.write(json.dumps({"errorMessage": error}).encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def cloud(self) -> Cloud:
        url = f"http://127.0.0.1:{self._server.server_port}"
        return Cloud(endpoint_url=url, region="us-east-1", account="000000000000", state_dir=Path("/nowhere"), pid=0)


def test_a_tick_looks_like_a_rule_s_event() -> None:
    now = datetime(2026, 12, 1, 3, 4, 5, tzinfo=UTC)
    event = scheduled_event(account="000000000000", region="us-east-1", rule="tick", now=now)
    assert event.pop("id")
    assert event == {
        "version": "0",
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": "000000000000",
        "time": "2026-12-01T03:04:05Z",
        "region": "us-east-1",
        "resources": ["arn:aws:events:us-east-1:000000000000:rule/tick"],
        "detail": {},
    }


def test_it_ticks_at_once_and_again() -> None:
    with LambdaEndpoint() as endpoint, Ticker(endpoint.cloud(), "reconcile", every_seconds=0.1):
        assert wait_until(lambda: len(endpoint.events) >= 3, within_seconds=10)
    assert {event["detail-type"] for event in endpoint.events} == {"Scheduled Event"}


def test_no_tick_comes_after_stop() -> None:
    with LambdaEndpoint() as endpoint:
        with Ticker(endpoint.cloud(), "reconcile", every_seconds=0.05):
            assert wait_until(lambda: bool(endpoint.events), within_seconds=10)
        count = len(endpoint.events)
        sleep(0.3)
        assert len(endpoint.events) == count


def test_slow_ticks_do_not_pile_up() -> None:
    with LambdaEndpoint(seconds=0.2) as endpoint, Ticker(endpoint.cloud(), "reconcile", every_seconds=0.01):
        assert wait_until(lambda: len(endpoint.events) >= 4, within_seconds=10)
    assert endpoint.most_at_once == 1


def test_a_failed_tick_is_reported_and_the_next_one_comes() -> None:
    failures: list[str] = []
    with (
        LambdaEndpoint(error="asked to fail") as endpoint,
        Ticker(endpoint.cloud(), "reconcile", every_seconds=0.05, on_failure=failures.append),
    ):
        assert wait_until(lambda: len(failures) >= 2, within_seconds=10)
    assert "asked to fail" in failures[0]


def test_an_interval_of_nothing_is_refused() -> None:
    with LambdaEndpoint() as endpoint, pytest.raises(ValueError, match="every_seconds is 0; it has to be above 0"):
        Ticker(endpoint.cloud(), "reconcile", every_seconds=0)
