"""A host's log, with a CloudWatch in memory that has the limits of the real one."""

from __future__ import annotations

import io
import time
from typing import Any

from botocore.exceptions import ClientError

from sandbox.sagemaker.logs import HostLog, Line


class CloudWatchLogs:
    """Refuses what PutLogEvents refuses (API reference): too many, too large, out of order, empty."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.down = False

    def client(self, service: str) -> Any:
        assert service == "logs"
        return self

    def put_log_events(self, *, logGroupName: str, logStreamName: str, logEvents: list[dict[str, Any]]) -> None:  # noqa: N803
        if self.down:
            raise ClientError({"Error": {"Code": "ServiceUnavailableException", "Message": "down"}}, "PutLogEvents")
        assert 1 <= len(logEvents) <= 10_000
        assert sum(len(event["message"].encode()) + 26 for event in logEvents) <= 1_048_576
        assert [event["timestamp"] for event in logEvents] == sorted(event["timestamp"] for event in logEvents)
        assert all(event["message"] for event in logEvents)
        self.batches.append([event["message"] for event in logEvents])

    @property
    def lines(self) -> list[str]:
        return [line for batch in self.batches for line in batch]


def a_log(logs: CloudWatchLogs) -> tuple[HostLog, list[str]]:
    seen: list[str] = []

    def on_line(line: Line) -> None:
        seen.append(line[1])

    return HostLog(logs, "job/algo-1-1800000000", on_line), seen


def finish(log: HostLog) -> None:
    log.read_to_the_end(5)
    log.flush(read_before=None)


def test_output_is_split_into_lines_and_an_empty_one_stays_a_line() -> None:
    logs = CloudWatchLogs()
    log, seen = a_log(logs)
    log.follow(io.BytesIO(b"one\r\n\ntwo \xff\nno newline"))
    finish(log)
    assert logs.lines == ["one", " ", "two \ufffd", "no newline"]
    assert seen == logs.lines


def test_a_line_is_sent_only_when_it_is_old_enough() -> None:
    logs = CloudWatchLogs()
    log, _ = a_log(logs)
    log.add("old")
    time.sleep(0.02)
    limit = time.time()
    log.add("new")
    log.flush(read_before=limit)
    assert logs.lines == ["old"]
    finish(log)
    assert logs.lines == ["old", "new"]


def test_many_lines_go_in_batches_that_cloudwatch_takes() -> None:
    logs = CloudWatchLogs()
    log, _ = a_log(logs)
    for number in range(10_050):
        log.add(f"line {number}")
    finish(log)
    assert [len(batch) for batch in logs.batches] == [10_000, 50]


def test_long_lines_go_in_batches_that_cloudwatch_takes() -> None:
    logs = CloudWatchLogs()
    log, _ = a_log(logs)
    log.follow(io.BytesIO(b"x" * 3_000_000 + b"\nend\n"))
    finish(log)
    assert "".join(logs.lines) == "x" * 3_000_000 + "end"
    assert len(logs.batches) >= 3


def test_a_batch_that_cannot_be_sent_is_lost_and_the_next_one_is_not() -> None:
    logs = CloudWatchLogs()
    log, _ = a_log(logs)
    log.add("lost")
    logs.down = True
    log.flush(read_before=None)
    logs.down = False
    log.add("kept")
    log.flush(read_before=None)
    assert logs.lines == ["kept"]
