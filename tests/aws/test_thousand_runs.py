"""What a tick costs with a thousand runs. The account's limits are shared: 5 Describes and 2 Lists a second, in all."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.core.model import Phase, Run
from tests.builders import a_run
from tests.world import World

RUNS = 1_000
LIMITED = ("DescribeTrainingJob", "ListTrainingJobs", "GetMetricData", "FilterLogEvents", "CreateTrainingJob")
TICKS = 30


@pytest.fixture(scope="module")
def world() -> World:
    """A thousand runs that were created one a second and have trained for half an hour."""
    world = World(*(a_run(name=f"run-{number:04d}") for number in range(RUNS)), paced=True)
    while len(world.aws.jobs) < RUNS:
        world.tick(seconds=15.0)  # of a minute; the sweep itself slept for the rest
    for name in list(world.aws.jobs):
        world.aws.train(name)
    for minute in range(30):
        _all_step(world, minute)
        world.tick()
    return world


def _all_step(world: World, step: int) -> None:
    for job in world.aws.jobs.values():
        job.steps = [*job.steps[-40:], (world.people.now, float(step))]


def _runs(world: World) -> list[Run]:
    return [one for one in world.store.active() if isinstance(one, Run)]


def test_a_steady_thousand_stays_far_below_the_accounts_limits(world: World) -> None:
    assert {run.phase for run in _runs(world)} == {Phase.TRAINING}
    writes, statuses = world.store.writes, len(world.people.statuses)
    world.aws.tick_calls()
    world.aws.series = 0
    worst, total = Counter[str](), Counter[str]()
    for minute in range(TICKS):
        _all_step(world, 30 + minute)
        assert world.tick().left == 0
        calls = world.aws.tick_calls()
        total.update(calls)
        worst |= calls
    assert sum(total[name] for name in LIMITED) / TICKS / RUNS <= 0.05
    assert worst["DescribeTrainingJob"] <= 40
    assert worst["ListTrainingJobs"] <= 6
    assert worst["GetMetricData"] == 2  # 500 series a call
    assert world.aws.series / TICKS == RUNS
    assert not {"FilterLogEvents", "CreateTrainingJob", "StopTrainingJob"} & set(total)
    # One status object and one write a run in ten minutes, and none in between.
    assert (world.store.writes - writes) / TICKS <= RUNS / 10 * 1.05
    assert (len(world.people.statuses) - statuses) / TICKS <= RUNS / 10 * 1.05


def test_when_all_die_at_once_each_is_read_within_the_rates_and_restarted_one_a_second(world: World) -> None:
    for name in world.aws.living():
        world.aws.end(name, "Failed", "InternalServerError: We encountered an internal error.")
    world.aws.tick_calls()
    worst = Counter[str]()
    began = world.people.now
    while len(world.aws.living()) < RUNS and world.people.now - began < 7_200:
        world.tick(seconds=15.0)
        worst |= world.aws.tick_calls()
    taken = world.people.now - began
    assert worst["DescribeTrainingJob"] <= 100
    assert worst["CreateTrainingJob"] <= 47  # 45 s and the burst
    assert taken <= 2 * RUNS  # one a second would be a thousand seconds
    assert len([one for one in world.aws.jobs if one.endswith("-a002")]) == RUNS
