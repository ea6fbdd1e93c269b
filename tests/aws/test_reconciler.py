"""Whole stories of a run: the real core and the real shell against an account in memory."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from holdfast.aws.reconciler import Report
from holdfast.aws.survey import Survey
from holdfast.aws.tokens import Call
from holdfast.core.decide.creation import CreateAnswer, CreateResult
from holdfast.core.manifest import Limits, Watch
from holdfast.core.model import KEPT_ATTEMPTS, Cause, JobState, Outcome, Phase, Run
from holdfast.core.observation import Observation, Progress, Seals, Unknown
from holdfast.core.reconcile import RemoveEndRequest, SendCreate, SendEndRequest, SendStop
from tests.builders import a_manifest, a_run
from tests.fakes import CrashError, FakeAccount, FakeJob, FakeStore, Watcher, intend
from tests.observations import NOW, hosts_at

POLL = 60.0


class Story:
    """One run from its registration on; `tick` is one invocation of the function."""

    def __init__(self, run: Run | None = None) -> None:
        start = run or a_run(
            manifest=a_manifest(
                watch=Watch(stall_after_seconds=120, ask_seconds=60),
                limits=Limits(max_restarts=2, backoff_seconds=0),
                instance_count=2,
            )
        )
        self.store = FakeStore(start)
        self.team, self.name = start.team, start.name
        self.account = FakeAccount(NOW)
        self.watcher = Watcher(self.store, self.account)
        self.reconciler, self.sweep, self.tokens = (
            self.watcher.reconciler,
            self.watcher.sweep,
            self.watcher.tokens,
        )

    @property
    def run(self) -> Run:
        run = self.store.get(self.team, self.name)
        assert run is not None
        return run

    @property
    def job(self) -> FakeJob:
        attempt = self.run.attempt
        assert attempt is not None
        return self.account.jobs[attempt.job]

    def tick(self, times: int = 1, seconds: float = POLL) -> Report:
        report = None
        for _ in range(times):
            self.account.now += seconds
            reports = self.sweep.run().reports
            report = reports[0] if reports else Report("", "", "", "", "", "")
        assert report is not None
        return report

    def train(self, *, step: int = 100) -> None:
        """Bring the newest attempt to training, at `step`, healthy."""
        self.tick()
        self.tick()
        self.job.state, self.job.training_at = JobState.TRAINING, self.account.now
        self.move(step=step)
        self.tick()

    def move(self, *, step: int) -> None:
        self.job.progress = Progress(step, self.account.now + POLL, self.account.now + POLL)
        self.job.hosts = ()

    def freeze(self) -> None:
        """Nothing moves any more: the step and the log stay, the hosts' metrics go on at zero."""
        progress = self.job.progress
        assert isinstance(progress, Progress)
        self.job.progress = replace(progress, log_at=progress.step_at)

    def tick_frozen(self, times: int = 1) -> Report:
        report = None
        for _ in range(times):
            shift = self.account.now + POLL - NOW
            series = hosts_at(0.0)
            self.job.hosts = tuple(
                replace(one, points=tuple((at + shift, value) for at, value in one.points)) for one in series
            )
            report = self.tick()
        assert report is not None
        return report

    def end(self, state: JobState, reason: str = "", *, sealed_step: int | None = None) -> None:
        self.job.state, self.job.failure_reason, self.job.ended_at = state, reason, self.account.now
        self.account.seals = Seals(sealed_step)


def test_a_manifest_becomes_a_job_that_trains_and_succeeds() -> None:
    story = Story()
    story.train()
    assert story.run.phase is Phase.TRAINING
    story.end(JobState.COMPLETED, sealed_step=200)
    story.tick()
    assert story.run.phase is Phase.SUCCEEDED
    assert [one.outcome for one in story.run.attempts] == [Outcome.COMPLETED]
    assert [one.kind for one in story.account.notices] == ["succeeded"]
    assert story.account.statuses[-1] == "succeeded"
    story.tick()
    assert not list(story.store.active())


def test_a_hung_run_is_asked_then_stopped_then_restarted_from_its_checkpoint() -> None:
    story = Story()
    story.train()
    story.freeze()
    story.tick_frozen(3)
    attempt = story.run.attempt
    assert attempt is not None
    assert attempt.asked_at is not None
    assert [type(one) for one in story.account.calls].count(SendEndRequest) == 1
    assert SendStop not in {type(one) for one in story.account.calls}
    story.tick_frozen(2)
    assert [type(one) for one in story.account.calls].count(SendStop) == 1
    story.end(JobState.STOPPED, sealed_step=80)
    story.tick(2)
    first, second = story.run.attempts
    assert (first.outcome, first.cause, first.sealed_step) == (Outcome.STOPPED, Cause.HANG, 80)
    assert second.number == 2
    assert story.run.ledger.charged == {}
    assert story.account.live() == [second.job]


def test_a_run_that_moves_again_after_the_request_is_not_stopped() -> None:
    story = Story()
    story.train()
    story.freeze()
    story.tick_frozen(3)
    story.move(step=101)
    story.tick()
    story.move(step=140)
    story.tick(3)
    assert SendStop not in {type(one) for one in story.account.calls}
    assert story.run.phase is Phase.TRAINING
    assert story.run.attempt is not None
    assert story.run.attempt.hung_at is None


def test_metrics_that_cannot_be_read_never_stop_a_frozen_run() -> None:
    story = Story()
    story.train()
    story.freeze()
    story.job.hosts = Unknown("ThrottlingException")
    story.tick(30)
    assert {type(one) for one in story.account.calls} == {SendCreate}


def test_a_create_whose_answer_was_lost_is_adopted_and_not_repeated() -> None:
    story = Story()
    story.account.lose_answers = True
    story.tick(2)
    assert len(story.account.jobs) == 1
    attempt = story.run.attempt
    assert attempt is not None
    assert attempt.seen_at is not None
    assert attempt.request is None


@pytest.mark.parametrize("created", [True, False], ids=["after the create", "before the create"])
def test_a_function_that_dies_around_the_create_loses_no_run_and_doubles_none(created: bool) -> None:
    story = Story()
    if created:
        story.account.crash_after = SendCreate
    else:
        story.account.answers = [CreateResult(CreateAnswer.UNANSWERED, "connection reset")]
    story.tick(3)
    assert len(story.account.live()) == 1
    assert story.run.attempt is not None
    assert story.run.attempt.number == 1


def test_a_taken_name_that_is_not_this_intents_job_is_left_alone_and_the_next_number_is_used() -> None:
    story = Story()
    story.account.answers = [CreateResult(CreateAnswer.UNANSWERED, "connection reset")]
    story.tick()
    name = intend(story.run, 1).job
    story.account.jobs[name] = FakeJob({"someone": "else"}, state=JobState.COMPLETED)
    story.tick(4)
    assert next(one.outcome for one in story.run.attempts) is Outcome.NOT_CREATED
    assert story.account.live() == [intend(story.run, 2).job]


def test_no_attempt_is_created_beside_a_job_that_lives() -> None:
    story = Story()
    story.account.jobs["a-job-that-the-table-forgot"] = FakeJob({}, state=JobState.TRAINING)
    story.tick(3)
    assert story.run.attempt is None
    story.account.jobs["a-job-that-the-table-forgot"].state = JobState.STOPPED
    story.tick()
    assert story.run.attempt is not None


def test_a_quota_that_is_short_waits_and_then_trains() -> None:
    story = Story()
    story.account.answers = [CreateResult(CreateAnswer.QUOTA, "ResourceLimitExceeded: limit is 0 Instances")]
    story.tick()
    assert story.run.phase is Phase.WAITING
    assert "limit is 0" in story.run.why
    story.tick()
    assert [one.number for one in story.run.attempts] == [1]
    assert story.run.phase is Phase.STARTING


def test_a_request_that_sagemaker_refuses_fails_the_run_at_once_with_its_words() -> None:
    story = Story()
    story.account.answers = [CreateResult(CreateAnswer.REFUSED, "ValidationException: 1 validation error")]
    story.tick()
    assert (story.run.phase, story.run.cause) == (Phase.FAILED, Cause.REFUSED)
    assert "1 validation error" in story.run.why
    assert [one.kind for one in story.account.notices] == ["gave_up"]


def test_a_user_error_fails_fast() -> None:
    story = Story()
    story.train()
    story.end(JobState.FAILED, "AlgorithmError: ImportError: no flash_attn, exit code: 1")
    story.tick(3)
    assert story.run.phase is Phase.FAILED
    assert len(story.run.attempts) == 1


def test_a_crash_loop_without_progress_spends_its_budget_and_gives_up() -> None:
    story = Story()
    for _ in range(3):
        story.train()
        story.end(JobState.FAILED, "InternalServerError: We encountered an internal error.")
        story.tick()
    assert (story.run.phase, story.run.cause) == (Phase.FAILED, Cause.PLATFORM)
    assert len(story.run.attempts) == 3


def test_a_crash_loop_with_progress_goes_on_beyond_its_budget() -> None:
    story = Story()
    for nth in range(1, 7):
        story.train(step=100 * nth)
        story.end(JobState.FAILED, "InternalServerError: We encountered an internal error.", sealed_step=100 * nth)
        story.tick()
    assert story.run.phase is Phase.WAITING
    assert story.run.ledger.charged == {}


def test_a_wish_to_stop_stops_the_job_and_rests() -> None:
    story = Story()
    story.train()
    run = story.run
    story.store.save(replace(run, manifest=run.manifest.model_copy(update={"state": "stopped"})))
    story.tick()
    assert story.job.state is JobState.STOPPING
    story.end(JobState.STOPPED, sealed_step=40)
    story.tick(3)
    assert story.run.phase is Phase.STOPPED
    assert len(story.account.jobs) == 1


def test_a_job_stopped_by_hand_is_not_restarted() -> None:
    story = Story()
    story.train()
    story.end(JobState.STOPPED, sealed_step=40)
    story.tick(3)
    assert story.run.phase is Phase.STOPPED
    assert "respected" in story.run.why
    assert len(story.account.jobs) == 1


def test_a_job_deleted_by_hand_is_not_restarted() -> None:
    story = Story()
    story.train()
    story.account.jobs.clear()
    story.tick(3)
    assert story.run.phase is Phase.STOPPED
    assert not story.account.jobs


def test_a_job_that_is_not_described_a_moment_after_its_creation_is_not_taken_for_deleted() -> None:
    story = Story()
    story.tick()
    held = dict(story.account.jobs)
    story.account.jobs.clear()
    story.tick(seconds=30)
    assert story.run.phase is Phase.STARTING
    story.account.jobs.update(held)
    story.tick()
    assert story.run.phase is Phase.STARTING
    assert len(story.account.jobs) == 1


def test_a_stop_that_is_wished_while_a_create_is_in_flight_leaves_no_job_to_itself() -> None:
    story = Story()
    story.account.answers = [CreateResult(CreateAnswer.UNANSWERED, "timed out")]
    story.tick()
    run = story.run
    story.store.save(replace(run, manifest=run.manifest.model_copy(update={"state": "stopped"})))
    story.tick(seconds=10)
    assert story.run.phase is not Phase.STOPPED
    assert run.attempt is not None
    assert run.attempt.request is not None
    story.account.jobs[run.attempt.job] = FakeJob(run.attempt.request)  # it arrives after all
    story.tick(2, seconds=10)
    assert story.job.state is JobState.STOPPING


def test_a_manifest_that_changes_while_a_create_is_in_flight_never_makes_two_requests_of_one_name() -> None:
    story = Story()
    story.account.answers = [CreateResult(CreateAnswer.UNANSWERED, "timed out")]
    story.tick()
    first = story.run.attempt
    assert first is not None
    assert first.request is not None
    story.store.save(replace(story.run, spec_hash="changed"))
    story.account.jobs[first.job] = FakeJob(first.request)  # it arrives after all
    story.tick(3)
    assert [one.number for one in story.run.attempts] == [1]
    assert story.account.live() == [first.job]
    assert story.run.attempt is not None
    assert story.run.attempt.seen_at is not None


def test_a_request_to_end_that_was_lost_is_sent_again_before_the_job_is_stopped() -> None:
    story = Story()
    story.train()
    story.freeze()
    story.account.crash_before = SendEndRequest
    story.tick_frozen(3)
    assert story.run.attempt is not None
    assert story.run.attempt.asked_at is not None
    assert SendEndRequest not in {type(one) for one in story.account.calls}
    story.account.now -= 30  # half a tick: the bound of asking is not over yet
    story.tick_frozen()
    assert SendEndRequest in {type(one) for one in story.account.calls}
    assert SendStop not in {type(one) for one in story.account.calls}


def test_a_withdrawal_that_was_lost_is_made_at_the_next_tick() -> None:
    story = Story()
    story.train()
    story.freeze()
    story.tick_frozen(3)
    story.account.crash_before = RemoveEndRequest
    story.move(step=101)
    story.tick()
    assert RemoveEndRequest not in {type(one) for one in story.account.calls}
    story.move(step=102)
    story.tick()
    assert RemoveEndRequest in {type(one) for one in story.account.calls}


def test_a_second_hang_of_the_same_attempt_is_told_as_well() -> None:
    story = Story()
    story.train()
    story.freeze()
    story.tick_frozen(3)
    story.move(step=101)
    story.tick()
    story.freeze()
    story.tick_frozen(3)
    assert len({one.id for one in story.account.notices if one.kind == "hung"}) == 2


def test_a_quota_that_stays_short_for_days_loses_no_run_and_is_told_once() -> None:
    story = Story()
    story.account.answers = [CreateResult(CreateAnswer.QUOTA, "limit is 0 Instances")] * 60
    story.tick(60, seconds=3_600)
    assert story.run.phase is Phase.WAITING
    assert len({one.id for one in story.account.notices}) == 1
    assert [one.number for one in story.run.attempts] == [1]


def test_a_stop_that_is_wished_during_a_wait_takes_effect_at_once() -> None:
    story = Story()
    story.account.answers = [CreateResult(CreateAnswer.QUOTA, "limit is 0 Instances")]
    story.tick()
    waiting = replace(story.run, due_at=NOW + 90_000)
    story.store.save(replace(waiting, manifest=waiting.manifest.model_copy(update={"state": "stopped"})))
    story.tick()
    assert story.run.phase is Phase.STOPPED


def test_an_endless_run_keeps_its_record_small() -> None:
    story = Story()
    for nth in range(1, 40):
        story.train(step=100 * nth)
        story.end(JobState.FAILED, "InternalServerError: x", sealed_step=100 * nth)
        story.tick()
    assert [one.number for one in story.run.attempts] == list(range(30, 40))


def test_a_ledger_that_stays_unreadable_is_told_once() -> None:
    story = Story()
    story.train()
    story.end(JobState.FAILED, "InternalServerError: x")
    story.account.seals = Unknown("AccessDenied")
    story.tick(10)
    assert [one.kind for one in story.account.notices] == ["waiting"]
    assert "AccessDenied" in story.run.why


def test_an_unreadable_ledger_holds_the_restart_back() -> None:
    story = Story()
    story.train()
    story.end(JobState.FAILED, "InternalServerError: x")
    story.account.seals = Unknown("SlowDown")
    story.tick(5)
    assert len(story.account.jobs) == 1
    story.account.seals = Seals(40)
    story.tick(2)
    assert len(story.account.jobs) == 2


def test_what_could_not_be_published_is_published_at_a_later_tick() -> None:
    story = Story()
    story.train()
    story.end(JobState.COMPLETED)
    story.account.publishing_fails = True
    story.tick(2)
    assert story.account.notices == []
    story.account.publishing_fails = False
    story.tick()
    assert [one.kind for one in story.account.notices] == ["succeeded"]
    assert not list(story.store.active())


def test_one_poisoned_run_does_not_stop_the_sweep_for_the_others() -> None:
    story = Story()
    story.store.save(a_run(name="another"))

    observe = story.account.observe

    def poisoned(run: Run, *, read_seals_too: bool = False, survey: Survey | None = None) -> Observation:
        if run.name == "another":
            raise ValueError("poison")
        return observe(run, read_seals_too=read_seals_too, survey=survey)

    story.account.observe = poisoned  # type: ignore[method-assign]
    reports = story.sweep.run().reports
    assert [bool(one.error) for one in reports] == [True, False]
    assert len(story.account.jobs) == 1


def test_a_quiet_run_is_not_written_at_every_tick() -> None:
    story = Story()
    story.train()
    before = story.store.writes
    for step in range(101, 106):
        story.move(step=step)
        story.tick()
    assert story.store.writes == before
    story.move(step=200)
    story.tick(seconds=600)
    assert story.store.writes > before


def test_a_sweep_ends_with_its_time_and_leaves_the_rest_for_the_next() -> None:
    story = Story()
    assert story.sweep.run(seconds=0).left == 1
    assert story.account.jobs == {}
    story.tick()
    assert len(story.account.jobs) == 1


def test_two_reconcilers_at_once_create_one_job() -> None:
    story = Story()
    run = story.run
    story.reconciler.step(run)
    with pytest.raises(Exception, match=run.id):
        story.reconciler.step(run)
    assert len([one for one in story.account.calls if isinstance(one, SendCreate)]) == 1


def test_a_crash_error_is_reported_and_not_raised_out_of_the_sweep() -> None:
    story = Story()
    story.account.crash_after = SendCreate
    assert CrashError.__name__ in story.tick().error


def test_an_attempt_that_leaves_the_record_is_in_the_archive_first() -> None:
    story = Story()
    for nth in range(1, 14):
        story.train(step=100 * nth)
        story.end(JobState.FAILED, "InternalServerError: We encountered an internal error.", sealed_step=100 * nth)
        story.tick()
    kept = [one.number for one in story.run.attempts]
    lines = [json.loads(line)["attempt"] for line in story.account.archived.values()]
    assert len(kept) == KEPT_ATTEMPTS
    assert sorted([one["number"] for one in lines] + kept) == list(range(1, 14))
    assert all(one["outcome"] == "failed" for one in lines)


def test_a_function_that_dies_between_archive_and_record_loses_no_attempt_and_doubles_none() -> None:
    story = Story()
    for nth in range(1, 11):
        story.train(step=100 * nth)
        story.end(JobState.FAILED, "InternalServerError: We encountered an internal error.", sealed_step=100 * nth)
        story.tick()
    story.account.crash_in_archive = True
    assert CrashError.__name__ in story.tick().error
    assert [one.number for one in story.run.attempts] == list(range(1, 11))
    assert list(story.account.archived) != []
    story.tick()
    assert [one.number for one in story.run.attempts] == list(range(2, 12))
    assert len(story.account.archived) == 1
    assert len(story.account.live()) == 1


def test_a_quiet_run_is_written_once_a_refresh_with_its_status() -> None:
    story = Story()
    story.train()
    writes, statuses = story.store.writes, len(story.account.statuses)
    for step in range(101, 131):
        story.move(step=step)
        story.tick()
    assert story.store.writes - writes == 3
    assert len(story.account.statuses) - statuses == 3
    assert story.run.attempt is not None
    assert story.run.attempt.last_step is not None
    assert story.run.attempt.last_step >= 120


def test_a_changed_state_is_written_and_told_at_once() -> None:
    story = Story()
    story.tick(2)
    writes, statuses = story.store.writes, len(story.account.statuses)
    story.job.state, story.job.training_at = JobState.TRAINING, story.account.now
    story.tick()
    assert story.store.writes > writes
    assert story.account.statuses[statuses:] == ["training"]


@pytest.mark.parametrize("tagged", [True, False])
def test_an_event_of_a_job_moves_its_run_alone(tagged: bool) -> None:
    story = Story()
    story.store.save(a_run(name="another"))
    story.tick()
    job = story.run.attempt
    assert job is not None
    story.end(JobState.COMPLETED)
    reports = story.reconciler.for_job(job.job, run=story.run.id if tagged else "")
    assert [(one.run, one.phase) for one in reports] == [("research/tiny", "succeeded")]


@pytest.mark.parametrize("run", ["research/another", "research/nobody", "no id", "vision/tiny"])
def test_an_event_that_names_a_run_which_the_job_is_not_of_changes_nothing(run: str) -> None:
    story = Story()
    story.store.save(a_run(name="another"))
    story.tick()
    job = story.run.attempt
    assert job is not None
    assert story.reconciler.for_job(job.job, run=run) == []


def test_an_event_sends_no_call_without_a_token_either() -> None:
    story = Story()
    story.train()
    run = story.run
    story.store.save(replace(run, manifest=run.manifest.model_copy(update={"state": "stopped"})))
    story.tokens.left = {Call.STOP: 0}
    (report,) = story.reconciler.for_job(run.attempts[-1].job)
    assert report.left
    assert "no token" in report.reason
    assert story.run.attempts[-1].stopped_at is None
    story.tokens.left = {}
    story.tick()
    assert story.job.state is JobState.STOPPING
