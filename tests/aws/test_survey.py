"""What a sweep reads in bulk, and what it does when single reads are used up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.aws.evidence import SERIES_A_CALL, Evidence
from holdfast.aws.observe import Observer
from holdfast.aws.survey import NotThisTickError, Survey, Surveyor
from holdfast.core.manifest import Watch
from holdfast.core.model import Attempt, Described, JobState, Phase, Run
from holdfast.core.observation import Absent, Job, Progress, Unknown
from holdfast.core.sweep import UNSEEN_SECONDS, Summary
from holdfast.core.watcher_state import WatcherState
from tests.aws.conftest import BUCKET
from tests.builders import a_manifest, a_run
from tests.memory_aws import MemoryAws, MemoryJob

NOW = 1_764_000_000.0


def a_training_run(nth: int = 0, *, described_ago: float = 60.0, watch: Watch | None = None) -> Run:
    attempt = Attempt(
        1,
        f"dev-job-{nth}",
        "s",
        "d",
        NOW - 9_000,
        seen_at=NOW - 9_000,
        training_at=NOW - 8_000,
        described=Described(JobState.TRAINING, NOW - 8_000, NOW - described_ago),
        last_step=4,
        last_step_at=NOW - 90,
    )
    manifest = a_manifest(watch=watch or Watch(stall_after_seconds=600))
    return a_run(name=f"run-{nth}", phase=Phase.TRAINING, attempts=(attempt,), manifest=manifest)


class Place:
    def __init__(self, *runs: Run) -> None:
        self.aws = MemoryAws(lambda: NOW)
        for run in runs:
            assert run.attempt is not None
            self.aws.jobs[run.attempt.job] = MemoryJob(
                {}, NOW - 9_000, NOW - 8_000, secondary="Training", training_at=NOW - 8_000, steps=[(NOW - 60, 5.0)]
            )
        self.evidence = Evidence(
            cloudwatch=self.aws.client("cloudwatch"), logs=self.aws.client("logs"), period_seconds=60
        )
        self.observer = Observer(
            sagemaker=self.aws.client("sagemaker"),
            s3=self.aws.client("s3"),
            evidence=self.evidence,
            bucket=BUCKET,
            environment="dev",
            now=lambda: NOW,
        )

    def survey(self, *runs: Run) -> Survey:
        return Surveyor(evidence=self.evidence, status_refresh_seconds=600).survey(runs, {}, NOW, WatcherState())


def test_the_steps_of_many_runs_take_one_call_for_each_five_hundred() -> None:
    runs = [a_training_run(nth) for nth in range(2 * SERIES_A_CALL + 1)]
    place = Place(*runs)
    survey = place.survey(*runs)
    assert place.aws.calls == {"GetMetricData": 3}
    assert set(survey.progress.values()) == {Progress(5, NOW, None)}


def test_a_young_run_is_also_asked_for_the_step_that_it_resumed_from() -> None:
    run = a_training_run()
    assert run.attempt is not None
    young = replace(run, attempts=(replace(run.attempt, training_at=NOW - 60),))
    place = Place(young)
    place.survey(young)
    assert place.aws.series == 2


def test_a_call_that_fails_makes_its_own_runs_unknown() -> None:
    run = a_training_run()
    place = Place(run)
    place.aws.fails["GetMetricData"] = "ThrottlingException"
    (found,) = place.survey(run).progress.values()
    assert isinstance(found, Unknown)
    assert "ThrottlingException" in found.why


def test_runs_that_do_not_train_are_not_asked_for() -> None:
    waiting = a_run(phase=Phase.WAITING)
    place = Place()
    assert place.survey(waiting).progress == {}
    assert not place.aws.calls


def test_a_run_whose_job_did_not_change_costs_no_call_of_its_own() -> None:
    run = a_training_run()
    place = Place(run)
    survey = place.survey(run)
    place.aws.tick_calls()
    seen = place.observer.observe(run, survey=survey)
    assert isinstance(seen.job, Job)
    assert (seen.job.state, seen.job.modified_at) == (JobState.TRAINING, None)
    assert not place.aws.calls


def test_a_run_whose_job_changed_is_described() -> None:
    run = a_training_run()
    place = Place(run)
    place.aws.end("dev-job-0", "Completed")
    survey = replace(place.survey(run), listed={"dev-job-0": Summary("dev-job-0", JobState.COMPLETED, NOW)})
    seen = place.observer.observe(run, survey=survey)
    assert isinstance(seen.job, Job)
    assert seen.job.state is JobState.COMPLETED
    assert place.aws.calls["DescribeTrainingJob"] == 1


def test_a_suspect_is_described_and_its_metrics_are_read_again_although_nothing_was_listed() -> None:
    run = a_training_run(watch=Watch(stall_after_seconds=10))
    place = Place(run)
    place.aws.jobs["dev-job-0"].steps = [(NOW - 300, 5.0)]
    survey = place.survey(run)
    place.aws.tick_calls()
    seen = place.observer.observe(run, survey=survey)
    assert seen.hosts is not None
    assert place.aws.calls == {"DescribeTrainingJob": 1, "GetMetricData": 2, "FilterLogEvents": 1}


def test_a_suspect_that_moved_on_since_the_bulk_reading_is_seen_to_move() -> None:
    run = a_training_run(watch=Watch(stall_after_seconds=130))
    place = Place(run)
    job = place.aws.jobs["dev-job-0"]
    job.steps = [(NOW - 300, 5.0)]
    survey = place.survey(run)
    job.steps = [(NOW - 300, 5.0), (NOW - 30, 6.0)]
    seen = place.observer.observe(run, survey=survey)
    assert isinstance(seen.progress, Progress)
    assert seen.progress.step == 6


@pytest.mark.parametrize("spent", ["describes", "suspects"])
def test_a_suspect_for_which_reads_are_used_up_waits_for_the_next_tick(spent: str) -> None:
    run = a_training_run(watch=Watch(stall_after_seconds=10))
    place = Place(run)
    place.aws.jobs["dev-job-0"].steps = [(NOW - 300, 5.0)]
    survey = place.survey(run)
    setattr(survey, spent, 0)
    with pytest.raises(NotThisTickError):
        place.observer.observe(run, survey=survey)


def test_a_throttled_describe_ends_all_describes_of_the_sweep() -> None:
    run = a_training_run()
    place = Place(run)
    survey = replace(place.survey(run), listed={"dev-job-0": Summary("dev-job-0", JobState.COMPLETED, NOW)})
    place.aws.fails["DescribeTrainingJob"] = "ThrottlingException"
    for _ in range(5):
        with pytest.raises(NotThisTickError):
            place.observer.observe(run, survey=survey)
    assert place.aws.calls["DescribeTrainingJob"] == 1
    assert survey.missed


def test_a_job_unseen_for_long_is_described_when_its_status_is_refreshed() -> None:
    run = a_training_run(described_ago=UNSEEN_SECONDS)
    place = Place(run)
    survey = place.survey(run)
    del place.aws.jobs["dev-job-0"]
    assert isinstance(place.observer.observe(run, survey=survey).job, Job)
    assert place.observer.observe(run, survey=survey, read_seals_too=True).job == Absent()


def test_revisits_and_refreshes_are_bounded_and_what_is_over_is_as_before() -> None:
    run = a_training_run(described_ago=UNSEEN_SECONDS)
    place = Place(run)
    survey = replace(place.survey(run), revisits=0, refreshes=1)
    assert isinstance(place.observer.observe(run, survey=survey, read_seals_too=True).job, Job)
    assert place.aws.calls["DescribeTrainingJob"] == 0
    assert [survey.refresh(), survey.refresh()] == [True, False]
