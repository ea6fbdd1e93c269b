"""The retry rules of asynchronous invocation, with a clock that only `sleep` moves."""

from __future__ import annotations

import json
from typing import Any

from sandbox.cloud.async_invocation import DeadLetter, run

FAILED = {"error": True, "body": {"errorType": "RuntimeError", "errorMessage": "boom"}}
THROTTLED = {"error": True, "throttle": True, "body": {"message": "Rate Exceeded"}}
DONE = {"body": None}


class Invocation:
    def __init__(self, *results: dict[str, Any], **settings: Any) -> None:
        self._results = list(results)
        self.now = 0.0
        self.waits: list[float] = []
        self.letters: list[DeadLetter] = []
        config = {
            "FunctionName": "f",
            "FunctionArn": "arn:aws:lambda:us-east-1:000000000000:function:f",
            "DeadLetterConfig": {"TargetArn": "arn:aws:sqs:us-east-1:000000000000:dlq"},
        }
        self._record = {"config": config, "event_invoke_config": settings}

    def run(self) -> Invocation:
        run(
            self._record,
            {"name": "event"},
            execute=lambda _record, _event: self._results.pop(0) if len(self._results) > 1 else self._results[0],
            deliver=lambda _record, letter: self.letters.append(letter),
            sleep=self._sleep,
            clock=lambda: self.now,
        )
        return self

    def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def test_a_function_that_works_is_run_once() -> None:
    invocation = Invocation(DONE).run()
    assert invocation.waits == []
    assert invocation.letters == []


def test_a_failing_function_is_run_again_after_one_and_two_minutes() -> None:
    invocation = Invocation(FAILED).run()
    assert invocation.waits == [60.0, 120.0]
    assert len(invocation.letters) == 1


def test_a_function_that_works_the_second_time_leaves_no_dead_letter() -> None:
    invocation = Invocation(FAILED, DONE).run()
    assert invocation.waits == [60.0]
    assert invocation.letters == []


def test_no_retries_means_none() -> None:
    invocation = Invocation(FAILED, MaximumRetryAttempts=0).run()
    assert invocation.waits == []
    assert len(invocation.letters) == 1


def test_the_dead_letter_is_the_event_itself_with_the_error_as_attributes() -> None:
    (letter,) = Invocation(FAILED, MaximumRetryAttempts=0).run().letters
    assert json.loads(letter.body) == {"name": "event"}
    assert letter.attributes["ErrorMessage"] == ("String", "boom")
    assert letter.attributes["ErrorCode"] == ("Number", "200")
    assert "RequestID" in letter.attributes


def test_a_throttle_costs_no_attempt() -> None:
    invocation = Invocation(*[THROTTLED] * 4, DONE, MaximumRetryAttempts=0).run()
    assert invocation.waits == [1.0, 2.0, 4.0, 8.0]
    assert invocation.letters == []


def test_an_event_too_old_is_given_up() -> None:
    invocation = Invocation(THROTTLED, MaximumEventAgeInSeconds=60).run()
    assert sum(invocation.waits) <= 60
    assert invocation.letters[0].attributes["ErrorCode"] == ("Number", "429")


def test_an_on_failure_destination_gets_the_envelope_instead() -> None:
    destination = {"OnFailure": {"Destination": "arn:aws:sns:us-east-1:000000000000:failed"}}
    (letter,) = Invocation(FAILED, MaximumRetryAttempts=0, DestinationConfig=destination).run().letters
    envelope = json.loads(letter.body)
    assert letter.target_arn.endswith(":failed")
    assert envelope["requestPayload"] == {"name": "event"}
    assert envelope["requestContext"]["condition"] == "RetriesExhausted"
