"""Random stories: jobs end, functions die, reads fail or lag, people change their minds, ticks double.

Each seed is one story of some hours. A story that breaks an invariant names its seed, and plays the same again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from holdfast.aws.store import ConflictError
from holdfast.aws.survey import Survey
from holdfast.core.decide import creation
from holdfast.core.decide.creation import CreateAnswer, CreateResult
from holdfast.core.manifest import Limits, Watch
from holdfast.core.model import JobState, Phase, Run, spec_hash
from holdfast.core.observation import Absent, Job, Observation, Seals, Unknown
from holdfast.core.reconcile import Action, SendCreate, SendStop
from holdfast.core.registration import register
from tests.builders import a_manifest, a_run, some_pins
from tests.fakes import CrashError, FakeAccount, FakeStore, Watcher
from tests.observations import NOW

TICKS = 120
TICK_SECONDS = 60.0
ENDS = (JobState.COMPLETED, JobState.FAILED, JobState.STOPPED, JobState.MAX_RUNTIME)


class UnreliableAccount(FakeAccount):
    """Reads that fail or lag behind, calls that die before or after they took effect, answers that are lost."""

    def __init__(self, now: float, chance: random.Random, *, trouble: float, lag_seconds: float) -> None:
        super().__init__(now)
        self.chance = chance
        self.trouble = trouble
        self.lag_seconds = lag_seconds
        self.born: dict[str, float] = {}
        self.most_alive = 0

    def observe(self, run: Run, *, read_seals_too: bool = False, survey: Survey | None = None) -> Observation:
        seen = super().observe(run, read_seals_too=read_seals_too, survey=survey)
        if isinstance(seen.job, Job) and self.now - self.born[seen.job.name] < self.lag_seconds:
            seen = replace(seen, job=Absent())
        if self.chance.random() < self.trouble:
            seen = replace(seen, job=Unknown("ThrottlingException"))
        return seen

    def act(self, action: Action) -> CreateResult | None:
        if self.chance.random() < self.trouble:
            raise CrashError
        if isinstance(action, SendStop) and self.jobs[action.job].state.terminal:
            return None
        result = super().act(action)
        if isinstance(action, SendCreate):
            self.born.setdefault(action.job, self.now)
            self.most_alive = max(self.most_alive, len(self.live()))
        if self.chance.random() < self.trouble:
            raise CrashError
        if result is not None and self.chance.random() < self.trouble:
            return CreateResult(CreateAnswer.UNANSWERED, "connection reset")
        return result


class RandomStory:
    def __init__(self, seed: int, *, lag_seconds: float, doubled_ticks: bool) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a story that plays the same again, no secret
        self.doubled_ticks = doubled_ticks
        self.orphans = 0
        manifest = a_manifest(watch=Watch(stall_after_seconds=120), limits=Limits(max_restarts=2, backoff_seconds=60))
        self.store = FakeStore(a_run(manifest=manifest))
        self.account = UnreliableAccount(NOW, self.chance, trouble=0.1, lag_seconds=lag_seconds)
        self.watcher = Watcher(self.store, self.account)

    @property
    def run(self) -> Run:
        run = self.store.get("research", "tiny")
        assert run is not None
        return run

    def play(self) -> None:
        for _ in range(TICKS):
            self.account.now += TICK_SECONDS
            self._world_goes_on()
            self._tick()
            newest = self.run.attempt
            watched = set() if self.run.phase.terminal or newest is None else {newest.job}
            self.orphans += len(set(self.account.live()) - watched)
        self._until_calm()

    def _tick(self) -> None:
        # What a second sweep has read before the first one wrote.
        read = [one for one in self.store.active() if isinstance(one, Run)]
        self.watcher.sweep.run()
        if self.doubled_ticks:
            for run in read:
                with suppress(ConflictError, CrashError):
                    self.watcher.reconciler.step(run)

    def _world_goes_on(self) -> None:
        for job in self.account.jobs.values():
            draw = self.chance.random()
            if job.state is JobState.STARTING and draw < 0.5:
                job.state, job.training_at = JobState.TRAINING, self.account.now
            elif job.state is JobState.TRAINING and draw < 0.08:
                job.state, job.ended_at = self.chance.choice(ENDS), self.account.now
                job.failure_reason = "InternalServerError: x" if job.state is JobState.FAILED else ""
                self.account.seals = Seals(self.chance.choice([None, len(self.account.jobs) * 10]))
            elif job.state is JobState.STOPPING and draw < 0.5:
                job.state, job.ended_at = JobState.STOPPED, self.account.now
        if self.chance.random() < 0.05:
            self._somebody_changes_the_manifest()

    def _somebody_changes_the_manifest(self) -> None:
        before = self.run
        wanted = before.manifest.model_copy(
            update={
                "state": self.chance.choice(["running", "stopped"]),
                "hyperparameters": {"steps": self.chance.randrange(5)},
            }
        )
        after = register(
            before,
            wanted,
            team=before.team,
            name=before.name,
            pins=some_pins(),
            spec_hash=spec_hash(wanted),
            uid="another",
            now=self.account.now,
        )
        if after.changed and after.run is not None:
            self.store.save(after.run)

    def _until_calm(self) -> None:
        """No more trouble; every job ends at last, and the run has to come to rest."""
        self.account.trouble = 0.0
        for _ in range(60):
            self.account.now += 600.0
            for job in self.account.jobs.values():
                if not job.state.terminal:
                    stopping = job.state is JobState.STOPPING
                    job.state, job.ended_at = JobState.STOPPED if stopping else JobState.COMPLETED, self.account.now
            self._tick()


def stories() -> Iterator[tuple[int, float, bool]]:
    for seed in range(60):
        yield seed, 0.0, False
        yield seed, 90.0, False
        yield seed, 0.0, True


@pytest.mark.parametrize(("seed", "lag_seconds", "doubled_ticks"), list(stories()))
def test_no_run_is_lost_or_doubled_whatever_happens(seed: int, lag_seconds: float, doubled_ticks: bool) -> None:
    story = RandomStory(seed, lag_seconds=lag_seconds, doubled_ticks=doubled_ticks)
    story.play()
    run, account = story.run, story.account
    assert account.most_alive <= 1, "two jobs of one run lived at once"
    assert not story.orphans, "a job lived that nobody watched"
    assert run.phase in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED), f"never came to rest: {run.phase} {run.why}"
    assert not run.active, "something is still owed to people"
    assert len({one.number for one in run.attempts}) == len(run.attempts)


def test_the_stories_find_a_core_that_believes_at_once_that_a_job_does_not_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The twin: with the settling time taken away, some story has to end badly."""
    monkeypatch.setattr(creation, "SETTLES_SECONDS", 0.0)
    broken = 0
    for seed in range(60):
        story = RandomStory(seed, lag_seconds=90.0, doubled_ticks=False)
        story.play()
        broken += bool(story.orphans)
    assert broken
