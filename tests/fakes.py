"""An account in memory, for the reconciler's tests.

Fidelity gaps: jobs change state only when a test says so; reads never lag behind writes; there are no rate limits and
no IAM. Whatever depends on these is tested against the sandbox.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from botocore.exceptions import ClientError

from holdfast.aws.store import ConflictError
from holdfast.core.decide.creation import CreateAnswer, CreateResult
from holdfast.core.model import JobState, Notice, Run, digest_of, dump_run, load_run
from holdfast.core.observation import Absent, HostSeries, Job, Observation, Progress, Seals, Unknown
from holdfast.core.reconcile import Action, Intent, RemoveEndRequest, SendCreate, SendEndRequest, SendStop


class CrashError(Exception):
    """The function died here: nothing after this point happened."""


class FakeStore:
    """Holds runs as the JSON that the real store holds, so that what is not written is not remembered."""

    def __init__(self, *runs: Run) -> None:
        self._items: dict[str, tuple[str, int, bool]] = {}
        self.writes = 0
        for run in runs:
            self.save(run)

    def get(self, team: str, name: str) -> Run | None:
        item = self._items.get(f"{team}/{name}")
        return None if item is None else load_run(item[0], item[1])

    def save(self, run: Run) -> Run:
        held = self._items.get(run.id)
        if (held[1] if held else 0) != run.version:
            raise ConflictError(run.id)
        self.writes += 1
        self._items[run.id] = (dump_run(run), run.version + 1, run.active)
        return replace(run, version=run.version + 1)

    def active(self) -> Iterator[Run]:
        for text, version, active in list(self._items.values()):
            if active:
                yield load_run(text, version)


@dataclass
class FakeJob:
    request: dict[str, Any]
    state: JobState = JobState.STARTING
    failure_reason: str = ""
    training_at: float | None = None
    ended_at: float | None = None
    progress: Progress | Unknown = field(default_factory=Progress)
    hosts: tuple[HostSeries, ...] | Unknown = ()


class FakeAccount:
    """SageMaker, CloudWatch and the bucket as one object that observes, acts, publishes. `now` is set by the test."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.jobs: dict[str, FakeJob] = {}
        self.seals: Seals | Unknown = Seals()
        self.answers: list[CreateResult] = []
        self.crash_after: type[Action] | None = None
        self.crash_before: type[Action] | None = None
        self.lose_answers = False
        self.calls: list[Action] = []
        self.statuses: list[str] = []
        self.notices: list[Notice] = []
        self.publishing_fails = False

    def clock(self) -> float:
        return self.now

    def live(self) -> list[str]:
        return [name for name, job in self.jobs.items() if not job.state.terminal]

    def observe(self, run: Run, *, read_seals_too: bool = False) -> Observation:
        attempt = run.attempt
        job = self.jobs.get(attempt.job) if attempt else None
        seen: Job | Absent | None = None
        if attempt is not None:
            seen = Absent() if job is None else self._describe(run, attempt.job, job)
        return Observation(
            now=self.now,
            job=seen,
            progress=job.progress if job else None,
            hosts=job.hosts if job else None,
            seals=self.seals,
            tail=(),
            live_jobs=tuple(self.live()),
        )

    def _describe(self, run: Run, name: str, job: FakeJob) -> Job:
        attempt = run.attempt
        ours = attempt is not None and digest_of(job.request) == attempt.request_digest
        return Job(
            name,
            job.state,
            ours or bool(attempt and attempt.seen_at),
            job.failure_reason,
            job.training_at,
            job.ended_at,
        )

    def act(self, action: Action) -> CreateResult | None:
        if self.crash_before is type(action):
            self.crash_before = None
            raise CrashError
        self.calls.append(action)
        result = None
        match action:
            case SendCreate():
                result = self._create(action)
            case SendStop():
                self.jobs[action.job].state = JobState.STOPPING
            case SendEndRequest() | RemoveEndRequest():
                pass
        if self.crash_after is type(action):
            self.crash_after = None
            raise CrashError
        return result

    def _create(self, action: SendCreate) -> CreateResult:
        if self.answers:
            return self.answers.pop(0)
        if action.job in self.jobs:
            return CreateResult(CreateAnswer.NAME_TAKEN, "ResourceInUse")
        self.jobs[action.job] = FakeJob(action.request)
        return CreateResult(CreateAnswer.UNANSWERED if self.lose_answers else CreateAnswer.CREATED)

    def status(self, run: Run, now: float) -> None:
        if self.publishing_fails:
            raise ClientError({"Error": {"Code": "SlowDown", "Message": "Reduce your request rate"}}, "PutObject")
        self.statuses.append(run.phase.value)

    def notify(self, notice: Notice) -> None:
        self.notices.append(notice)


def intend(run: Run, number: int) -> Intent:
    """A request that differs with the spec and the number, as the real one does."""
    request = {"TrainingJobName": f"{run.team}-{run.name}-a{number:03d}", "spec": run.spec_hash, "uid": run.uid}
    return Intent(request["TrainingJobName"], request, digest_of(request))
