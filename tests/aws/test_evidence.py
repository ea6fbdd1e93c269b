from __future__ import annotations

import time
from datetime import UTC, datetime

import boto3
import pytest
from botocore.stub import Stubber

from holdfast.aws.evidence import LOG_GROUP, NAMESPACE, Evidence
from holdfast.core.model import Attempt
from holdfast.core.observation import Progress, Unknown
from tests.aws.conftest import REGION, Aws

JOB = "dev-research-tiny-00000000-a001"
ATTEMPT = Attempt(number=1, job=JOB, spec_hash="s", request_digest="d", intended_at=0.0, seen_at=1.0)


@pytest.fixture
def now() -> float:
    # moto keeps recent points only, so the clock is the real one; nothing is compared with it that takes time.
    return float(int(time.time() // 60) * 60)


def put_metric(aws: Aws, name: str, value: float, at: float, **dimension: str) -> None:
    ((key, held),) = dimension.items()
    aws.cloudwatch.put_metric_data(
        Namespace=NAMESPACE,
        MetricData=[
            {
                "MetricName": name,
                "Dimensions": [{"Name": key, "Value": held}],
                "Value": value,
                "Timestamp": datetime.fromtimestamp(at, UTC),
            }
        ],
    )


def put_lines(aws: Aws, stream: str, *lines: tuple[float, str]) -> None:
    if not aws.logs.describe_log_groups(logGroupNamePrefix=LOG_GROUP)["logGroups"]:
        aws.logs.create_log_group(logGroupName=LOG_GROUP)
    aws.logs.create_log_stream(logGroupName=LOG_GROUP, logStreamName=stream)
    events = [{"timestamp": int(at * 1000), "message": text} for at, text in lines]
    aws.logs.put_log_events(logGroupName=LOG_GROUP, logStreamName=stream, logEvents=events)


def evidence(aws: Aws, period_seconds: int = 60) -> Evidence:
    return Evidence(cloudwatch=aws.cloudwatch, logs=aws.logs, period_seconds=period_seconds)


def read(found: Progress | Unknown) -> Progress:
    assert isinstance(found, Progress), found
    return found


def test_the_newest_step_and_when_it_was_first_reached_are_read(aws: Aws, now: float) -> None:
    for step, ago in ((10, 240), (20, 180), (20, 120), (20, 60)):
        put_metric(aws, "holdfast:step", step, now - ago, TrainingJobName=JOB)
    found = read(evidence(aws).progress(ATTEMPT, now - 600, now))
    assert found.step == 20
    # A step that is printed again has not moved: it counts from its first period's end.
    assert found.step_at == now - 120


def test_another_jobs_step_is_not_read(aws: Aws, now: float) -> None:
    put_metric(aws, "holdfast:step", 10, now - 60, TrainingJobName=JOB + "0")
    assert read(evidence(aws).progress(ATTEMPT, now - 600, now)).step is None


def test_the_step_that_a_run_resumed_from_is_read_once(aws: Aws, now: float) -> None:
    put_metric(aws, "holdfast:resumed_step", 80, now - 120, TrainingJobName=JOB)
    assert read(evidence(aws).progress(ATTEMPT, now - 600, now)).resumed_from_step == 80


def test_a_window_without_points_keeps_what_the_record_knows(aws: Aws, now: float) -> None:
    known = Attempt(**{**ATTEMPT.__dict__, "last_step": 77, "last_step_at": now - 9_000})
    found = read(evidence(aws).progress(known, now - 20_000, now))
    assert (found.step, found.step_at) == (77, now - 9_000)


def test_the_hosts_series_are_named_by_host_and_hosts_without_points_are_left_out(aws: Aws, now: float) -> None:
    for number in (1, 2):
        for ago in (180, 120, 60):
            put_metric(aws, "CPUUtilization", 50.0 + number, now - ago, Host=f"{JOB}/algo-{number}")
    found = evidence(aws).hosts(JOB, 3, now - 600, now)
    assert isinstance(found, tuple)
    assert [(one.host, one.metric, len(one.points)) for one in found] == [
        ("algo-1", "CPUUtilization", 3),
        ("algo-2", "CPUUtilization", 3),
    ]


def test_a_newer_step_in_the_log_beats_a_metric_that_lags(aws: Aws, now: float) -> None:
    line = "[holdfast/1] phase=step attempt=1 step=31 loss=2.5"
    put_lines(aws, f"{JOB}/algo-1-1700000000", (now - 30, line), (now - 20, "saving"))
    found = read(evidence(aws).with_log(Progress(20, now - 120), JOB, now - 120, now))
    assert (found.step, found.step_at, found.log_at) == (31, now - 30, now - 20)


def test_a_silent_log_has_no_newest_line(aws: Aws, now: float) -> None:
    put_lines(aws, f"{JOB}/algo-1-1700000000", (now - 500, "old"))
    assert read(evidence(aws).with_log(Progress(20, now - 120), JOB, now - 120, now)).log_at is None


def test_a_log_group_that_does_not_exist_is_an_empty_log(aws: Aws, now: float) -> None:
    assert read(evidence(aws).with_log(Progress(20, now - 120), JOB, now - 120, now)).log_at is None


def test_the_tail_holds_all_hosts_in_the_order_of_time_without_the_ssm_agents(aws: Aws, now: float) -> None:
    put_lines(aws, f"{JOB}/algo-2-1700000000", (now - 5, "RuntimeError: Connection reset by peer"))
    put_lines(aws, f"{JOB}/algo-1-1700000000", (now - 9, "ValueError: first"))
    put_lines(aws, f"{JOB}/algo-1-1700000000/ssm", (now - 8, "SSM Error"))
    tail = evidence(aws).tail(JOB, now)
    assert isinstance(tail, tuple)
    assert [(line.host, line.text) for line in tail] == [
        ("algo-1", "ValueError: first"),
        ("algo-2", "RuntimeError: Connection reset by peer"),
    ]


def test_throttled_reads_are_unknown_with_their_reason(now: float) -> None:
    cloudwatch = boto3.client("cloudwatch", region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")
    logs = boto3.client("logs", region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")
    reader = Evidence(cloudwatch=cloudwatch, logs=logs, period_seconds=60)
    with Stubber(cloudwatch) as metrics, Stubber(logs) as lines:
        for _ in range(2):
            metrics.add_client_error("get_metric_data", "ThrottlingException", "Rate exceeded")
        lines.add_client_error("filter_log_events", "ThrottlingException", "Rate exceeded")
        for found in (
            reader.progress(ATTEMPT, now - 600, now),
            reader.hosts(JOB, 1, now - 600, now),
            reader.with_log(Progress(20, now), JOB, now, now),
        ):
            assert isinstance(found, Unknown)
            assert "Rate exceeded" in found.why


def test_empty_pages_with_a_token_are_followed_and_a_log_too_long_to_read_is_not_silent(now: float) -> None:
    logs = boto3.client("logs", region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")
    cloudwatch = boto3.client("cloudwatch", region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")
    reader = Evidence(cloudwatch=cloudwatch, logs=logs, period_seconds=60)
    event = {"timestamp": int(now * 1000), "message": "Error", "logStreamName": f"{JOB}/algo-1-1"}
    with Stubber(logs) as stub:
        stub.add_response("filter_log_events", {"events": [], "nextToken": "more"})
        stub.add_response("filter_log_events", {"events": [event]})
        tail = reader.tail(JOB, now)
        assert isinstance(tail, tuple)
        assert len(tail) == 1
    with Stubber(logs) as stub:
        for _ in range(20):
            stub.add_response("filter_log_events", {"events": [], "nextToken": "more"})
        spoken = read(reader.with_log(Progress(20, now - 900), JOB, now - 900, now))
    assert (spoken.step, spoken.log_at) == (20, now)
