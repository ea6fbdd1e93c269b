"""CloudWatch's part of an observation: the step series, the hosts' metrics, the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.aws.errors import FAILED_READ, MISSING, code_of, unknown
from holdfast.core.model import Attempt
from holdfast.core.observation import HostSeries, LogLine, Progress, Unknown
from holdfast_agent.contract import parse_heartbeat

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.client import CloudWatchClient
    from mypy_boto3_logs.client import CloudWatchLogsClient

STEP = "holdfast:step"
RESUMED_STEP = "holdfast:resumed_step"
NAMESPACE = "/aws/sagemaker/TrainingJobs"
LOG_GROUP = "/aws/sagemaker/TrainingJobs"
SERIES_A_CALL = 500  # GetMetricData's limit
PAGES_AT_MOST = 20  # of FilterLogEvents in one look; the API allows 5 to 25 calls a second, an account
LOOK_BACK_SECONDS = 3 * 3_600.0
# The first window that holds a telling line is enough: pages come oldest first, so a long window of a talkative job
# would end before its death.
TAIL_WINDOWS_SECONDS = (120.0, 600.0, 1_800.0)
# Any of these words makes a line worth reading when a job died.
TAIL_PATTERN = "?Error ?error: ?Exception ?NCCL ?Xid ?ECC ?SIGKILL ?signal ?Holdfast ?memory"


class Evidence:
    """`period_seconds` is the metrics' granularity: 60 on AWS, less where host metrics come more often."""

    def __init__(self, *, cloudwatch: CloudWatchClient, logs: CloudWatchLogsClient, period_seconds: int) -> None:
        self._cloudwatch = cloudwatch
        self._logs = logs
        self._period = period_seconds

    def progress(self, attempt: Attempt, training_at: float, now: float) -> Progress | Unknown:
        """The step series. What the record already knows stands where the window no longer reaches back to it."""
        series = [(name, {"TrainingJobName": attempt.job}, "Maximum") for name in _series_of(attempt)]
        start = max(training_at - 60, now - LOOK_BACK_SECONDS)
        try:
            found = self._read(series, start, now)
        except FAILED_READ as error:
            return unknown("GetMetricData", error)
        return self._progress(attempt, found, now)

    def progress_of_all(
        self, attempts: Sequence[Attempt], window_seconds: float, now: float
    ) -> dict[str, Progress | Unknown]:
        """The step series of many jobs, by job, at most 500 series a call.

        The window is short, since the record holds each run's last step at every refresh; it has to reach beyond that.
        A run that looks stale by this reading is read again by itself, with the long window.
        """
        wanted: list[tuple[Attempt, tuple[str, ...]]] = []
        for attempt in attempts:
            # The step from which it resumed is said once, at the start of training.
            young = attempt.training_at is None or now - attempt.training_at < window_seconds
            wanted.append((attempt, _series_of(attempt) if young else (STEP,)))
        result: dict[str, Progress | Unknown] = {}
        for batch in _batches(wanted):
            series = [(name, {"TrainingJobName": one.job}, "Maximum") for one, names in batch for name in names]
            try:
                points = iter(self._read(series, now - window_seconds, now))
            except FAILED_READ as error:
                said = unknown("GetMetricData", error)
                result.update({one.job: said for one, _ in batch})
                continue
            for one, names in batch:
                result[one.job] = self._progress(one, [next(points) for _ in names], now)
        return result

    def _progress(self, attempt: Attempt, found: Sequence[tuple[tuple[float, float], ...]], now: float) -> Progress:
        steps, *resumed = found
        resumed_from = int(resumed[0][0][1]) if resumed and resumed[0] else None
        if not steps:
            return Progress(attempt.last_step, attempt.last_step_at, resumed_from_step=resumed_from)
        step = int(steps[-1][1])
        # A script may print the same step again and again; it moved when it was first reached. A point stands for the
        # whole period that it opens, so its end is the latest moment that it can mean.
        first = next(at for at, value in steps if int(value) == step)
        at = min(now, first + self._period)
        if attempt.last_step is not None and attempt.last_step_at is not None:
            if attempt.last_step == step:
                at = min(at, attempt.last_step_at)
            elif attempt.last_step > step and attempt.last_step_at > at:
                # The log, read for a suspect, was ahead of the metric.
                step, at = attempt.last_step, attempt.last_step_at
        return Progress(step=step, step_at=at, resumed_from_step=resumed_from)

    def hosts(self, job: str, count: int, since: float, now: float) -> tuple[HostSeries, ...] | Unknown:
        """CPU and GPU of every host from shortly before `since`. Dimension: Host = <job>/algo-<n>."""
        names = [f"{job}/algo-{number}" for number in range(1, count + 1)]
        wanted = [
            (metric, {"Host": name}, "Average") for name in names for metric in ("CPUUtilization", "GPUUtilization")
        ]
        try:
            found = self._read(wanted, since - self._period, now)
        except FAILED_READ as error:
            return unknown("GetMetricData", error)
        return tuple(
            HostSeries(dimensions["Host"].rpartition("/")[2], metric, points)
            for (metric, dimensions, _), points in zip(wanted, found, strict=True)
            if points
        )

    def with_log(self, progress: Progress, job: str, since: float, now: float) -> Progress | Unknown:
        """The same progress read afresh from the log: its newest line, and a newer step where there is one."""
        found = self._lines(job, since - self._period, now, pattern="")
        if isinstance(found, Unknown):
            return found
        lines, whole = found
        newest = progress
        for line in lines:
            beat = parse_heartbeat(line.text)
            stepped = beat is not None and beat.phase == "step" and beat.step is not None
            if stepped and beat is not None and beat.step is not None and beat.step > (newest.step or -1):
                newest = replace(newest, step=beat.step, step_at=line.at)
        # Of a log too long to be read whole it is certain that it is not silent, and nothing more is needed: a log that
        # is written to never makes a hang.
        return replace(newest, log_at=max((line.at for line in lines), default=None) if whole else now)

    def tail(self, job: str, ended_at: float) -> tuple[LogLine, ...] | Unknown:
        """Lines of all hosts from shortly before the end that may say why the job died, oldest first."""
        for seconds in TAIL_WINDOWS_SECONDS:
            found = self._lines(job, ended_at - seconds, ended_at + 60, pattern=TAIL_PATTERN)
            if isinstance(found, Unknown):
                return found
            if found[0]:
                return found[0]
        return ()

    def _lines(self, job: str, start: float, end: float, *, pattern: str) -> tuple[tuple[LogLine, ...], bool] | Unknown:
        """Lines in the order of time, and whether these are all of them. At most PAGES_AT_MOST pages are read."""
        lines: list[LogLine] = []
        # The slash: without it job-1 would read job-10's lines.
        call: dict[str, Any] = {
            "logGroupName": LOG_GROUP,
            "logStreamNamePrefix": f"{job}/",
            "startTime": int(max(0.0, start) * 1000),
            "endTime": int(end * 1000) + 1,
        }
        if pattern:
            call["filterPattern"] = pattern
        for _ in range(PAGES_AT_MOST):
            try:
                answer = self._logs.filter_log_events(**call)
            except FAILED_READ as error:
                if code_of(error) in MISSING:
                    return (), True
                return unknown("FilterLogEvents", error)
            for event in answer["events"]:
                stream = event["logStreamName"]
                if not stream.endswith("/ssm"):
                    host = stream.rpartition("/")[2].rpartition("-")[0]
                    lines.append(LogLine(event["timestamp"] / 1000, host, event["message"]))
            # A page may be empty while more follow.
            if not answer.get("nextToken"):
                return tuple(sorted(lines, key=lambda one: one.at)), True
            call["nextToken"] = answer["nextToken"]
        return tuple(sorted(lines, key=lambda one: one.at)), False

    def _read(
        self, series: Sequence[tuple[str, dict[str, str], str]], start: float, end: float
    ) -> list[tuple[tuple[float, float], ...]]:
        """Points of each series in order, oldest first."""
        found: list[dict[float, float]] = [{} for _ in series]
        for offset in range(0, len(series), SERIES_A_CALL):
            queries: list[Any] = [
                {
                    "Id": f"m{number}",
                    "MetricStat": {
                        "Metric": {
                            "Namespace": NAMESPACE,
                            "MetricName": metric,
                            "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
                        },
                        "Period": self._period,
                        "Stat": stat,
                    },
                }
                for number, (metric, dimensions, stat) in enumerate(series[offset : offset + SERIES_A_CALL], offset)
            ]
            pages = self._cloudwatch.get_paginator("get_metric_data").paginate(
                MetricDataQueries=queries,
                StartTime=datetime.fromtimestamp(start, UTC),
                EndTime=datetime.fromtimestamp(end + 1, UTC),
                ScanBy="TimestampAscending",
            )
            for page in pages:
                for result in page["MetricDataResults"]:
                    points = zip(result.get("Timestamps", []), result.get("Values", []), strict=True)
                    found[int(result["Id"][1:])].update({at.timestamp(): value for at, value in points})
        return [tuple(sorted(points.items())) for points in found]


def _series_of(attempt: Attempt) -> tuple[str, ...]:
    return (STEP,) if attempt.resumed_from_step is not None else (STEP, RESUMED_STEP)


def _batches(
    wanted: Sequence[tuple[Attempt, tuple[str, ...]]],
) -> Iterator[list[tuple[Attempt, tuple[str, ...]]]]:
    """Whole runs, in groups of at most one call's series: a call that fails leaves the other groups' runs known."""
    batch: list[tuple[Attempt, tuple[str, ...]]] = []
    size = 0
    for one in wanted:
        if size + len(one[1]) > SERIES_A_CALL:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += len(one[1])
    if batch:
        yield batch
