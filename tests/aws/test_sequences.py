"""Sequences that break naive designs, against real clients."""

from __future__ import annotations

import pytest

from holdfast.core.manifest import Watch
from holdfast.core.model import JobState, Outcome, Phase
from tests.builders import a_manifest, a_run
from tests.memory_aws import MemoryAws
from tests.world import World, a_world


def test_a_create_that_succeeded_and_whose_answer_was_lost_is_adopted_although_the_manifest_changed() -> None:
    world = a_world()
    world.aws.loses.add("CreateTrainingJob")
    world.tick()
    first = world.job()
    world.drop(a_manifest(hyperparameters={"steps": 7}))
    world.tick(3)
    assert world.aws.living() == [first]
    attempt = world.run().attempt
    assert attempt is not None
    assert attempt.seen_at is not None
    assert attempt.spec_hash != world.run().spec_hash  # what runs is the old one, and the record says so
    assert "At the next attempt" in world.run().note


def test_after_the_table_was_emptied_last_years_completed_job_does_not_pass_for_this_run() -> None:
    world = a_world()
    world.tick()
    last_year = world.job()
    world.aws.end(last_year, "Completed")
    world.tick(2)
    assert world.run().phase is Phase.SUCCEEDED
    world.store.forget()
    world.drop(a_manifest(), uid="minted-anew")
    world.tick()
    assert world.run().phase is Phase.STARTING
    assert world.job() == last_year.replace("-a001", "-a002")
    assert world.aws.living() == [world.job()]


def test_after_the_table_was_emptied_a_job_that_lives_gets_no_second_beside_it() -> None:
    world = a_world()
    world.tick()
    first = world.job()
    world.store.forget()
    world.drop(a_manifest(), uid="minted-anew")
    world.tick(5)
    assert world.aws.living() == [first]
    assert world.run().attempts == ()
    world.aws.end(first, "Stopped")
    world.tick()
    assert world.aws.living() == [world.job()]


def test_a_name_that_was_taken_between_the_look_and_the_create_is_not_adopted() -> None:
    world = a_world()
    world.aws.fails["CreateTrainingJob"] = "InternalFailure"
    world.tick()
    taken = world.job()
    del world.aws.fails["CreateTrainingJob"]
    world.aws.client("sagemaker").create_training_job(
        **{**world.intend(world.run(), 1).request, "Tags": [{"Key": "holdfast:uid", "Value": "somebody else's"}]}
    )
    world.aws.end(taken, "Completed")
    world.tick(3)
    first, second = world.run().attempts
    assert (first.job, first.outcome) == (taken, Outcome.NOT_CREATED)
    assert world.aws.living() == [second.job]


def test_teams_and_runs_that_read_alike_once_joined_do_not_meet() -> None:
    world = World(a_run(team="a", name="b-c"), a_run(team="a-b", name="c"))
    world.tick()
    one, other = world.job("a", "b-c"), world.job("a-b", "c")
    assert one != other
    world.aws.end(one, "Completed")
    world.tick(2)
    assert world.run("a", "b-c").phase is Phase.SUCCEEDED
    assert world.run("a-b", "c").phase is Phase.STARTING
    assert world.aws.living() == [other]


def test_environments_of_which_one_begins_like_the_other_do_not_meet() -> None:
    europe = World(a_run(), environment="prodeu")
    shared: MemoryAws = europe.aws
    prod = World(a_run(), environment="prod", aws=shared)
    prod.people.now = europe.people.now
    europe.tick()
    prod.people.now = europe.people.now
    prod.tick(seconds=0)
    theirs, ours = europe.job(), prod.job()
    assert len(shared.living()) == 2
    shared.end(theirs, "Completed")
    assert prod.tick(2).listed == 1  # "Contains prod-" would be in nonprod- too; theirs is not ours in any list
    assert prod.run().phase is Phase.STARTING
    assert shared.living() == [ours]


def test_a_job_stopped_by_hand_is_respected_and_said_so() -> None:
    world = a_world()
    world.tick()
    world.aws.train(world.job())
    world.tick()
    world.aws.end(world.job(), "Stopped")
    world.tick(5)
    assert world.run().phase is Phase.STOPPED
    assert "respected" in world.run().why
    assert len(world.aws.jobs) == 1


def test_a_job_deleted_by_hand_is_noticed_although_no_list_shows_it() -> None:
    world = a_world()
    world.tick()
    world.aws.train(world.job())
    world.tick(3)
    world.aws.jobs.clear()
    world.tick(35)
    assert world.run().phase is Phase.STOPPED
    assert "deleted" in world.run().why
    assert not world.aws.jobs


def test_a_change_whose_event_is_lost_is_seen_by_the_next_list() -> None:
    world = a_world()
    world.tick()
    world.aws.train(world.job())
    world.tick()
    assert world.run().phase is Phase.TRAINING
    world.aws.end(world.job(), "Failed", "InternalServerError: We encountered an internal error.")
    world.tick()
    assert world.run().attempts[0].outcome is Outcome.FAILED


def test_a_change_that_could_not_be_described_for_long_is_not_forgotten() -> None:
    world = a_world()
    world.tick()
    world.aws.train(world.job())
    world.tick(3)
    world.aws.end(world.job(), "Failed", "InternalServerError: We encountered an internal error.")
    world.aws.fails["DescribeTrainingJob"] = "ThrottlingException"
    # Longer than the overlap of two lists: without its own memory the sweep would list the change no more.
    assert world.tick(10).left == 1
    del world.aws.fails["DescribeTrainingJob"]
    world.tick()
    assert world.run().attempts[0].outcome is Outcome.FAILED


@pytest.mark.parametrize("operation", ["ListTrainingJobs", "DescribeTrainingJob", "GetMetricData"])
def test_a_throttled_hour_changes_nothing_and_heals(operation: str) -> None:
    world = World(a_run(manifest=a_manifest(watch=Watch(stall_after_seconds=120, ask_seconds=60))))
    world.tick()
    world.aws.train(world.job())
    world.tick()
    world.step(5)
    world.tick()
    world.aws.fails[operation] = "ThrottlingException"
    world.tick(60)
    assert world.aws.living() == [world.job()]
    assert world.run().phase is Phase.TRAINING
    del world.aws.fails[operation]
    world.aws.end(world.job(), "Completed")
    world.tick(2)
    assert world.run().phase is Phase.SUCCEEDED


def test_before_a_stop_job_and_metrics_are_read_in_the_very_tick() -> None:
    world = World(a_run(manifest=a_manifest(watch=Watch(stall_after_seconds=120, ask_seconds=60))))
    world.tick()
    job = world.aws.train(world.job())
    world.tick()
    world.step(5)
    world.tick()
    job.hosts = [(world.people.now - 60 + 60 * nth, 0.0) for nth in range(60)]
    # It ended, and neither an event nor the list says so: a stop decided on what was known would hit a finished job.
    job.status, job.secondary, job.ended_at = "Completed", "Completed", world.people.now
    world.tick(10)
    assert world.aws.calls["StopTrainingJob"] == 0
    assert world.run().phase is Phase.SUCCEEDED


def test_its_twin_that_did_not_end_is_stopped() -> None:
    world = World(a_run(manifest=a_manifest(watch=Watch(stall_after_seconds=120, ask_seconds=60))))
    world.tick()
    job = world.aws.train(world.job())
    world.tick()
    world.step(5)
    world.tick()
    job.hosts = [(world.people.now - 60 + 60 * nth, 0.0) for nth in range(60)]
    world.tick(10)
    assert world.aws.calls["StopTrainingJob"] == 1
    assert job.status == "Stopping"


def test_a_stop_without_a_token_is_not_sent_and_sent_once_there_is_one() -> None:
    world = a_world()
    world.tick()
    world.aws.train(world.job())
    world.tick()
    world.drop(a_manifest(state="stopped"))
    world.tokens.left = {"stop": 0}  # type: ignore[dict-item]
    assert world.tick().left == 1
    assert world.run().attempt.stopped_at is None  # type: ignore[union-attr]
    world.tokens.left = {}
    world.tick()
    assert world.aws.jobs[world.job()].status == "Stopping"


def test_a_quiet_job_costs_no_describe_and_one_series() -> None:
    world = a_world()
    world.tick()
    world.aws.train(world.job())
    for step in range(50):
        world.tick()
        world.step(step)
    world.aws.tick_calls()
    world.aws.series = 0
    world.tick()
    assert world.run().attempt.described.state is JobState.TRAINING  # type: ignore[union-attr]
    assert world.aws.series == 1
    assert world.aws.calls["DescribeTrainingJob"] == 0
