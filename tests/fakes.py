"""An account in memory, for the reconciler's tests.

Fidelity gaps: jobs change state only when a test says so; reads never lag behind writes; there are no rate limits and
no IAM. Whatever depends on these is tested against the sandbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from botocore.exceptions import ClientError

from holdfast.aws.listing import Listing
from holdfast.aws.lost_manifests import Handed
from holdfast.aws.quota_view import QuotaView
from holdfast.aws.reconciler import Reconciler
from holdfast.aws.store import ConflictError, Store, Unreadable
from holdfast.aws.survey import Survey
from holdfast.aws.sweep import HandsOver, Sweep
from holdfast.aws.sweep_item import Lease, LeaseLostError, SweepItem
from holdfast.aws.tokens import BURST, INTERVAL_SECONDS, Call
from holdfast.core.decide.creation import CreateAnswer, CreateResult
from holdfast.core.detect.mass import see
from holdfast.core.layout import history_key
from holdfast.core.model import Attempt, JobState, Notice, Run, digest_of, dump_run, load_run
from holdfast.core.observation import Absent, HostSeries, Job, Observation, Progress, Seals, Unknown
from holdfast.core.quotas.record import QuotaRecord, dump_record, load_record
from holdfast.core.reconcile import Action, Intent, RemoveEndRequest, SendCreate, SendEndRequest, SendStop
from holdfast.core.record_size import history_line
from holdfast.core.sweep import Summary, SweepState
from holdfast.core.watcher_state import WatcherState, take_stock


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

    def spoil(self, run: Run) -> None:
        """Put something into the record that no version can read."""
        self._items[run.id] = ("{}", run.version, True)

    def forget(self) -> None:
        """The table is emptied."""
        self._items.clear()

    def size(self, run: Run) -> int:
        return len(self._items[run.id][0])

    def active(self) -> Iterator[Run | Unreadable]:
        for identity, (text, version, active) in list(self._items.items()):
            if not active:
                continue
            try:
                yield load_run(text, version)
            except ValueError as error:
                yield Unreadable(identity, str(error))


class FakeQuotaItem:
    """Holds the record as the JSON that the real item holds."""

    def __init__(self, record: QuotaRecord | None = None) -> None:
        self._text = dump_record(record or QuotaRecord())

    def get(self) -> QuotaRecord:
        return load_record(self._text)

    def put(self, record: QuotaRecord) -> None:
        self._text = dump_record(record)

    def spoil(self) -> None:
        """Put something into the record that no version can read."""
        self._text = "[]"


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
        self.archived: dict[str, str] = {}
        self.crash_in_archive = False
        self.slept = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.now += seconds

    def live(self) -> list[str]:
        return [name for name, job in self.jobs.items() if not job.state.terminal]

    def observe(self, run: Run, *, read_seals_too: bool = False, survey: Survey | None = None) -> Observation:
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
            live_jobs=self._live_of(run),
            highest_number=self._highest_number(run),
        )

    def _live_of(self, run: Run) -> tuple[str, ...]:
        return tuple(name for name in self.live() if self.jobs[name].request.get("uid", run.uid) == run.uid)

    def _highest_number(self, run: Run) -> int | None:
        family = f"{run.team}-{run.name}-a"
        names = [name for name in self.jobs if name.startswith(family)]
        return max((int(name.removeprefix(family)) for name in names), default=None)

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

    def archive(self, run: Run, attempt: Attempt) -> None:
        self.archived[history_key(run.team, run.name, attempt.job, attempt.request_digest)] = history_line(run, attempt)
        if self.crash_in_archive:
            self.crash_in_archive = False
            raise CrashError

    def notify(self, notice: Notice) -> None:
        self.notices.append(notice)

    def read(self, state: SweepState, *, until: float) -> Listing:
        return Listing(whole=True, state=state)

    def survey(self, runs: Sequence[Run], listed: Mapping[str, Summary], now: float, watcher: WatcherState) -> Survey:
        seen = [
            see(run, job.progress, now)
            for run in runs
            if run.attempt is not None
            and (job := self.jobs.get(run.attempt.job)) is not None
            and job.state is JobState.TRAINING
        ]
        return Survey(listed, doubt=take_stock(watcher, runs, [one for one in seen if one is not None], now))

    def hand_over(self, since: float, to: float, *, until: float) -> Handed:
        return Handed(whole=True)


class FakeTokens:
    """Tokens as long as the test says so."""

    def __init__(self) -> None:
        self.left: dict[Call, int] = {}
        self.taken: list[Call] = []

    def take(self, call: Call) -> bool:
        if self.left.get(call, 1) <= 0:
            return False
        if call in self.left:
            self.left[call] -= 1
        self.taken.append(call)
        return True

    def wait_seconds(self, call: Call) -> float:
        return 0.0 if self.left.get(call, 1) > 0 else 1.0


class PacedTokens:
    """The real bucket's rule in memory: one a second, two at once."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._full_at: dict[Call, float] = {}

    def take(self, call: Call) -> bool:
        if self.wait_seconds(call) > 0:
            return False
        self._full_at[call] = max(self._now(), self._full_at.get(call, 0.0)) + INTERVAL_SECONDS
        return True

    def wait_seconds(self, call: Call) -> float:
        return max(0.0, self._full_at.get(call, 0.0) - (BURST - 1) * INTERVAL_SECONDS - self._now())


class FakeSweepItem:
    """The sweep's item with the conditions of the real one."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._holder, self._until, self._in_hand, self._count = "", 0.0, "", 0
        self.state = SweepState()
        self.watcher = WatcherState()
        self.writes = 0

    def take(self, holder: str, *, seconds: float) -> Lease | None:
        if self._holder and self._until > self._now():
            return None
        self.writes += 1
        self._count += 1
        state = replace(self.state, count=self._count)
        lease = Lease(holder, state, self.watcher, died=bool(self._holder), in_hand=self._in_hand)
        self._holder, self._until = holder, self._now() + seconds
        return lease

    def in_hand(self, holder: str, run: str) -> None:
        self._write_as(holder)
        self._in_hand = run

    def remember(self, holder: str, watcher: WatcherState) -> None:
        self._write_as(holder)
        self.watcher = watcher

    def _write_as(self, holder: str) -> None:
        if holder != self._holder:
            raise LeaseLostError(f"the lease of {holder} was taken by another")
        self.writes += 1

    def give_back(self, holder: str, state: SweepState) -> None:
        self._write_as(holder)
        self._holder, self._in_hand, self.state = "", "", state


class Ids:
    def __init__(self) -> None:
        self._made = 0

    def __call__(self) -> str:
        self._made += 1
        return f"holder-{self._made}"


class Watcher:
    """The real reconciler and the real sweep over a store and an account; what is not given is in memory."""

    def __init__(
        self,
        store: Store,
        account: FakeAccount,
        *,
        poll_seconds: float = 60.0,
        status_refresh_seconds: float = 600.0,
        item: SweepItem | None = None,
        lost_manifests: HandsOver | None = None,
        ids: Ids | None = None,
    ) -> None:
        self.tokens = FakeTokens()
        self.item = item or FakeSweepItem(account.clock)
        self.quotas = FakeQuotaItem()
        self.reconciler = Reconciler(
            store=store,
            observer=account,
            actor=account,
            publisher=account,
            tokens=self.tokens,
            quotas=QuotaView(item=self.quotas, store=store),
            intend=intend,
            now=account.clock,
            poll_seconds=poll_seconds,
            status_refresh_seconds=status_refresh_seconds,
        )
        self.sweep = Sweep(
            item=self.item,
            store=store,
            reconciler=self.reconciler,
            lister=account,
            surveyor=account,
            lost_manifests=lost_manifests or account,
            publisher=account,
            tokens=self.tokens,
            holder=ids or Ids(),
            now=account.clock,
            sleep=account.sleep,
        )


def intend(run: Run, number: int) -> Intent:
    """A request that differs with the spec and the number, as the real one does."""
    request = {"TrainingJobName": f"{run.team}-{run.name}-a{number:03d}", "spec": run.spec_hash, "uid": run.uid}
    return Intent(request["TrainingJobName"], request, digest_of(request))
