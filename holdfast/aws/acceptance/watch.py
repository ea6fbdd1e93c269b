"""One job, watched from its creation until what came late had come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from holdfast.aws.acceptance.bench import METRIC, Bench
from holdfast.aws.errors import FAILED_READ, MISSING, THROTTLES, code_of, words_of
from holdfast.aws.evidence import LOG_GROUP, NAMESPACE
from holdfast.core.acceptance.seen import TERMINAL, Answer, JobSeen, Line, Look, Missing, Rise, Transition, parse_line

# A wider window than any delay: the newest value is looked for in all of the job's life.
_METRIC_STEP_SECONDS = 60


@dataclass
class Watched:
    """What was seen of a job so far."""

    label: str
    name: str
    hosts: int
    created_at: float
    before_described: list[Answer] = field(default_factory=list)
    described_at: float | None = None
    looks: list[Look] = field(default_factory=list)
    listed: list[Look] = field(default_factory=list)
    lines: dict[str, Line] = field(default_factory=dict)
    rises: list[Rise] = field(default_factory=list)
    described: dict[str, Any] = field(default_factory=dict)
    stopped_at: float | None = None

    @property
    def status(self) -> str:
        return str(self.described.get("TrainingJobStatus", ""))

    def said(self, event: str) -> bool:
        return any(one.event == event for one in self.lines.values())

    @property
    def ticks(self) -> int:
        return max((int(one.words["n"]) for one in self.lines.values() if one.event == "tick"), default=0)


@dataclass(frozen=True, kw_only=True)
class Watching:
    """How a job is watched. `meanwhile` is called after each look while it lives, `on_end` once when it no longer does;
    with `settle` what comes late is waited for."""

    meanwhile: Callable[[Watched], None] | None = None
    on_end: Callable[[], None] | None = None
    listing: bool = False
    metrics: bool = False
    settle: bool = True


def run_job(bench: Bench, request: dict[str, Any], how: Watching) -> JobSeen | Missing:
    """Create a job and watch it to its end."""
    answer = bench.create(request)
    if not answer.ok:
        return Missing(f"its job was refused: {answer.code} {answer.words}")
    return watch_job(bench, request, answer.at, how)


def watch_job(bench: Bench, request: dict[str, Any], created_at: float, how: Watching) -> JobSeen | Missing:
    name = request["TrainingJobName"]
    label = name.removeprefix(bench.place.prefix)
    seen = Watched(label, name, request["ResourceConfig"]["InstanceCount"], created_at)
    deadline = created_at + bench.pace.job_deadline_seconds
    patience = bench.pace.settle_seconds if how.settle else 0.0
    terminal_at: float | None = None
    while True:
        _look_at_all(bench, seen, how)
        now = bench.now()
        if terminal_at is None and seen.status in TERMINAL:
            terminal_at = now
            bench.say(f"{label}: {seen.status}")
            if how.on_end is not None:
                how.on_end()
        if terminal_at is not None and (_has_all(seen, how.metrics) or now >= terminal_at + patience):
            return _seen(bench, seen, terminal_at)
        if terminal_at is None and now > deadline:
            bench.stop(name)
            return Missing(f"its job was {seen.status or 'not to be described'} after {now - created_at:.0f} s")
        if terminal_at is None and how.meanwhile is not None:
            how.meanwhile(seen)
        bench.sleep(bench.pace.poll_seconds)


def _look_at_all(bench: Bench, seen: Watched, how: Watching) -> None:
    _describe(bench, seen)
    if how.listing:
        _list(bench, seen)
    _read_lines(bench, seen)
    if how.metrics:
        _read_metric(bench, seen)


def _has_all(seen: Watched, metrics: bool) -> bool:
    """Whether nothing more of what the script writes is to come."""
    if not metrics:
        # The last line before SIGKILL is no line that can be known: one more look after the end has to do.
        return bool(seen.lines) and seen.said("last")
    newest = seen.rises[-1].value if seen.rises else 0
    return seen.said("last") and newest >= seen.ticks > 0


def _describe(bench: Bench, seen: Watched) -> None:
    try:
        described: Any = bench.clients.sagemaker.describe_training_job(TrainingJobName=seen.name)
    except FAILED_READ as error:
        if seen.described_at is None and code_of(error) not in THROTTLES:
            seen.before_described.append(Answer(bench.now(), code_of(error), words_of(error)))
        return
    now = bench.now()
    if seen.described_at is None:
        seen.described_at = now
    seen.described = dict(described)
    _add(seen.looks, _look(now, described))


def _list(bench: Bench, seen: Watched) -> None:
    try:
        found: Any = bench.clients.sagemaker.list_training_jobs(NameContains=seen.name, MaxResults=100)
    except FAILED_READ:
        return
    for one in found["TrainingJobSummaries"]:
        if one["TrainingJobName"] == seen.name:
            _add(seen.listed, _look(bench.now(), one))


def _look(now: float, found: dict[str, Any]) -> Look:
    return Look(now, found["TrainingJobStatus"], found.get("SecondaryStatus"), found["LastModifiedTime"].timestamp())


def _add(looks: list[Look], look: Look) -> None:
    """Only what is new: (status, secondary status, LastModifiedTime)."""
    if not looks or (looks[-1].status, looks[-1].secondary, looks[-1].last_modified) != (
        look.status,
        look.secondary,
        look.last_modified,
    ):
        looks.append(look)


def _read_lines(bench: Bench, seen: Watched) -> None:
    """Every line so far: some hundreds, of which a later read may bring earlier ones that were late."""
    pages = bench.clients.logs.get_paginator("filter_log_events").paginate(
        logGroupName=LOG_GROUP,
        logStreamNamePrefix=f"{seen.name}/",
        startTime=int((seen.created_at - 60) * 1000),
    )
    try:
        for page in pages:
            now = bench.now()
            for event in page["events"]:
                line = parse_line(event["logStreamName"], event["timestamp"] / 1000, now, event["message"])
                if line is not None:
                    seen.lines.setdefault(f"{line.stream} {line.said_at} {line.event} {line.words}", line)
    except FAILED_READ as error:
        if code_of(error) not in MISSING | THROTTLES:
            bench.say(f"{seen.label}: its log cannot be read: {words_of(error)}")


def _read_metric(bench: Bench, seen: Watched) -> None:
    """The highest value so far: it only rises, so the granularity of the values does not matter."""
    try:
        found = bench.clients.cloudwatch.get_metric_data(
            MetricDataQueries=[
                {
                    "Id": "n",
                    "MetricStat": {
                        "Metric": {
                            "Namespace": NAMESPACE,
                            "MetricName": METRIC,
                            "Dimensions": [{"Name": "TrainingJobName", "Value": seen.name}],
                        },
                        "Period": _METRIC_STEP_SECONDS,
                        "Stat": "Maximum",
                    },
                }
            ],
            StartTime=datetime.fromtimestamp(seen.created_at - 120, UTC),
            EndTime=datetime.fromtimestamp(bench.now() + 60, UTC),
        )
    except FAILED_READ:
        return
    highest = max((value for one in found["MetricDataResults"] for value in one.get("Values", [])), default=0.0)
    before = seen.rises[-1].value if seen.rises else 0
    if highest > before:
        seen.rises.append(Rise(int(highest), before, bench.now()))


def _seen(bench: Bench, seen: Watched, terminal_at: float | None) -> JobSeen:
    described = seen.described
    transitions = tuple(
        Transition(
            one["Status"], one["StartTime"].timestamp(), one["EndTime"].timestamp() if "EndTime" in one else None
        )
        for one in described.get("SecondaryStatusTransitions", [])
    )
    return JobSeen(
        label=seen.label,
        name=seen.name,
        hosts=seen.hosts,
        created_at=seen.created_at,
        poll_seconds=bench.pace.poll_seconds,
        before_described=tuple(seen.before_described),
        described_after_seconds=None if seen.described_at is None else max(0.0, seen.described_at - seen.created_at),
        looks=tuple(seen.looks),
        listed=tuple(seen.listed),
        transitions=transitions,
        status=seen.status,
        reason=str(described.get("FailureReason", "")),
        training_at=next((one.start for one in transitions if one.status == "Training"), None),
        ended_at=described["TrainingEndTime"].timestamp() if "TrainingEndTime" in described else None,
        terminal_seen_at=terminal_at,
        stopped_at=seen.stopped_at,
        lines=tuple(sorted(seen.lines.values(), key=lambda one: one.said_at)),
        rises=tuple(seen.rises),
        streams=_streams(bench, seen.name),
        objects=bench.keys(bench.checkpoints(seen.label)),
    )


def _streams(bench: Bench, name: str) -> tuple[str, ...]:
    pages = bench.clients.logs.get_paginator("describe_log_streams").paginate(
        logGroupName=LOG_GROUP, logStreamNamePrefix=f"{name}/"
    )
    try:
        return tuple(one["logStreamName"] for page in pages for one in page["logStreams"])
    except FAILED_READ:
        return ()
