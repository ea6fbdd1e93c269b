"""What was seen of the account, as it came: the input of every judgement. Times are epoch seconds.

`at` of a line or a value is CloudWatch's time of it; `said_at` is the time that the line itself tells, by the clock of
the host that wrote it; `seen_at` is when it was first read, by the clock of this machine. A delay is the difference of
two clocks: both are kept by NTP, and off by milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

TERMINAL = ("Completed", "Failed", "Stopped")


@dataclass(frozen=True)
class Answer:
    """Of one call: an empty code for a success, otherwise AWS's error code and words."""

    at: float
    code: str = ""
    words: str = ""

    @property
    def ok(self) -> bool:
        return not self.code


@dataclass(frozen=True)
class Line:
    stream: str
    at: float
    seen_at: float
    host: str
    event: str
    said_at: float
    words: Mapping[str, str]


_LINE = re.compile(r"\[acceptance/1\] t=(?P<t>[0-9.]+) (?:host=(?P<host>\S+) )?event=(?P<event>\S+)(?P<rest>.*)")


def parse_line(stream: str, at: float, seen_at: float, text: str) -> Line | None:
    """None for a line that is not ours."""
    found = _LINE.search(text)
    if found is None:
        return None
    words = dict(word.split("=", 1) for word in found["rest"].split() if "=" in word)
    return Line(stream, at, seen_at, found["host"] or "", found["event"], float(found["t"]), words)


@dataclass(frozen=True)
class Rise:
    """The highest value of the job's metric, as it was first read when it had risen from `before`."""

    value: int
    before: int
    seen_at: float


@dataclass(frozen=True)
class Look:
    """One answer of DescribeTrainingJob, or one entry of ListTrainingJobs (`secondary` None where it carries none)."""

    at: float
    status: str
    secondary: str | None
    last_modified: float


@dataclass(frozen=True)
class Transition:
    status: str
    start: float
    end: float | None


@dataclass(frozen=True)
class JobSeen:
    """One job from its creation until what came late had come. `looks` are where something had changed.

    `objects`: what lies under its checkpoint prefix at the end, by name, with S3's LastModified.
    """

    label: str
    name: str
    hosts: int
    created_at: float
    poll_seconds: float
    before_described: tuple[Answer, ...] = ()
    described_after_seconds: float | None = None
    looks: tuple[Look, ...] = ()
    listed: tuple[Look, ...] = ()
    transitions: tuple[Transition, ...] = ()
    status: str = ""
    reason: str = ""
    training_at: float | None = None
    ended_at: float | None = None
    terminal_seen_at: float | None = None
    stopped_at: float | None = None
    lines: tuple[Line, ...] = ()
    rises: tuple[Rise, ...] = ()
    streams: tuple[str, ...] = ()
    objects: Mapping[str, float] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return self.status in TERMINAL

    def events(self, event: str, host: str | None = None) -> list[Line]:
        return [one for one in self.lines if one.event == event and (host is None or one.host == host)]


@dataclass(frozen=True)
class Missing:
    """What should have been seen and was not, in words: a job that was refused, a step that failed."""

    why: str


@dataclass(frozen=True)
class CallsSeen:
    """`burst`: the answers to calls sent at once. `unknown_job`: operation -> answer for a name that no job has.

    `order`: (fault, fault) -> which of the two a request with both was refused for. `wording`: rule -> answer.
    """

    burst: tuple[Answer, ...] = ()
    unknown_job: Mapping[str, Answer] = field(default_factory=dict)
    order: Mapping[tuple[str, str], str] = field(default_factory=dict)
    wording: Mapping[str, Answer] = field(default_factory=dict)
    token: Answer | Missing = Missing("no second page was asked for")
    token_age_seconds: float = 0.0


@dataclass(frozen=True)
class KeysSeen:
    """`denied`: condition key -> the action that a caller was denied who may create jobs only where the key is filled.

    `control_allowed`: the action denied to the same caller without any condition, who may not pass roles;
    `control_denied`: the one denied for a job's name that no statement covers.
    """

    denied: Mapping[str, str]
    control_allowed: str
    control_denied: str


@dataclass(frozen=True)
class MutedSeen:
    """Jobs of roles that lack one permission, and the answers to the first create with each new role."""

    without_logs: JobSeen | Missing
    without_metrics: JobSeen | Missing
    spreading: tuple[Answer, ...]
    usable_after_seconds: float | None


@dataclass(frozen=True)
class PoolSeen:
    """`first_page`: the names on the first page of one, newest first, filtered by an available pool; the newest job of
    all has none."""

    job: JobSeen | Missing
    pool_status: str
    newest_without_pool: str
    first_page: tuple[str, ...]
    more: bool


@dataclass(frozen=True)
class RunSeen:
    """The run that was dropped by a manifest. `marks`: what happened -> when it was seen, in the order of time.

    `frozen_at`: when its script froze, by the hosts' clock. `host_values`: host -> (time, CPU) that CloudWatch has.
    `frozen_until`: when the watcher asked the agent, or the job ended.
    """

    marks: Mapping[str, float]
    attempts: tuple[Mapping[str, object], ...]
    phase: str
    why: str
    frozen_at: float | None = None
    frozen_until: float | None = None
    hosts: int = 0
    host_values: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)


Seen = JobSeen | CallsSeen | KeysSeen | MutedSeen | PoolSeen | RunSeen
