"""Many runs that look hung at once: the real core, observer and sweep over forty runs in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from holdfast.core.detect.mass import QUIET_SECONDS, WINDOW_SECONDS
from holdfast.core.manifest import Limits, Watch
from holdfast.core.model import Attempt, Notice, Phase
from tests.aws.test_sweep import KilledError
from tests.builders import a_manifest, a_run
from tests.world import World

STALL_SECONDS = 300
NAMES = [f"run-{number:02d}" for number in range(40)]
UNTIL_HUNG = 12
"""Ticks after which a frozen run was seen to hang: the bound, the metrics' period, three points of the hosts, two
polls."""


class Fleet:
    """Forty runs that train; each minute every one that is not in `frozen` makes a step."""

    def __init__(self, *, max_restarts: int = 5, ask_seconds: int = 60) -> None:
        manifest = a_manifest(
            watch=Watch(stall_after_seconds=STALL_SECONDS, ask_seconds=ask_seconds),
            limits=Limits(max_restarts=max_restarts, backoff_seconds=0),
        )
        teams = ("research", "vision")
        self.world = World(*(a_run(team=teams[n % 2], name=name, manifest=manifest) for n, name in enumerate(NAMES)))
        self.team = {name: teams[n % 2] for n, name in enumerate(NAMES)}
        self.frozen: set[str] = set()
        self.hosts_report = True
        self.world.tick(2)
        for name in list(self.world.aws.jobs):
            self.world.aws.train(name)
        self.minutes(3)

    def minutes(self, times: int = 1) -> None:
        for _ in range(times):
            self.world.people.now += 60
            for name in NAMES:
                job = self.world.aws.jobs[self.attempt(name).job]
                now = self.world.people.now
                if name not in self.frozen:
                    job.steps.append((now, float(len(job.steps))))
                if self.hosts_report:
                    job.hosts.append((now, 100.0))  # GPUs pinned, whether a step comes or not
            self.world.tick(seconds=0)

    def attempt(self, name: str) -> Attempt:
        attempt = self.world.run(self.team[name], name).attempt
        assert attempt is not None
        return attempt

    def acted_on(self) -> set[str]:
        """Runs that were asked to end, or stopped, for a hang."""
        runs = [self.world.run(self.team[name], name) for name in NAMES]
        return {run.name for run in runs if any(one.hung_at or one.stopped_at for one in run.attempts)}

    def stops(self) -> int:
        return self.world.aws.calls["StopTrainingJob"]

    def pages(self) -> list[Notice]:
        return [one for one in self.world.people.notices if one.kind == "watcher"]

    def told_of_single_runs(self) -> list[str]:
        return [one.kind for one in self.world.people.notices if one.kind != "watcher"]


def test_forty_runs_that_look_hung_at_once_are_all_left_alone_and_people_get_one_page() -> None:
    fleet = Fleet()
    fleet.frozen = set(NAMES)
    fleet.minutes(40)
    assert fleet.acted_on() == set()
    assert fleet.stops() == 0
    (page,) = fleet.pages()
    assert page.teams == ("research", "vision")
    assert "research/run-00" in page.body
    assert "state: stopped" in page.body
    assert fleet.told_of_single_runs() == []
    health = fleet.world.run("research", "run-00").health
    assert health.startswith("unknown")
    assert "the watcher itself is suspect" in health


def test_two_runs_of_forty_that_hang_are_both_stopped_and_nobody_doubts() -> None:
    fleet = Fleet()
    fleet.frozen = set(NAMES[:2])
    fleet.minutes(UNTIL_HUNG)
    assert fleet.acted_on() == set(NAMES[:2])
    assert fleet.stops() == 2
    assert fleet.pages() == []
    assert fleet.told_of_single_runs() == ["hung", "hung"]


def test_a_third_is_left_alone_and_so_are_the_others_with_it() -> None:
    fleet = Fleet()
    fleet.frozen = set(NAMES[:3])
    fleet.minutes(2 * UNTIL_HUNG)
    assert fleet.acted_on() == set()
    assert len(fleet.pages()) == 1


def test_when_the_others_move_again_those_that_still_hang_are_ended_by_themselves() -> None:
    fleet = Fleet()
    fleet.frozen = set(NAMES)
    fleet.minutes(20)
    fleet.frozen = set(NAMES[5:7])
    fleet.minutes(int(QUIET_SECONDS / 60))
    assert fleet.acted_on() == set()
    fleet.minutes(4)
    assert fleet.acted_on() == set(NAMES[5:7])
    assert fleet.stops() == 2
    begun, over = fleet.pages()
    assert over.id == f"{begun.id}/over"
    fleet.minutes(10)
    assert len(fleet.pages()) == 2


def test_metrics_that_vanish_for_all_runs_stop_none_and_make_one_page_instead_of_forty() -> None:
    fleet = Fleet()
    fleet.frozen, fleet.hosts_report = set(NAMES), False
    fleet.minutes(30)
    assert fleet.acted_on() == set()
    assert len(fleet.pages()) == 1
    assert fleet.told_of_single_runs() == []


def test_metrics_that_vanish_for_two_runs_are_told_of_each_as_ever() -> None:
    fleet = Fleet()
    fleet.frozen, fleet.hosts_report = set(NAMES[:2]), False
    fleet.minutes(30)
    assert fleet.pages() == []
    assert fleet.told_of_single_runs() == ["hung", "hung"]


def test_a_doubt_outlives_the_evidence_that_it_began_with() -> None:
    fleet = Fleet()
    fleet.frozen = set(NAMES)
    fleet.minutes(UNTIL_HUNG)
    fleet.world.aws.fails["GetMetricData"] = "ThrottlingException"
    fleet.minutes(2 * int(WINDOW_SECONDS / 60))
    del fleet.world.aws.fails["GetMetricData"]
    fleet.minutes(UNTIL_HUNG)
    assert fleet.acted_on() == set()
    assert len(fleet.pages()) == 1


def test_one_tick_without_readings_makes_no_doubt_of_one_hang() -> None:
    fleet = Fleet()
    fleet.frozen = set(NAMES[:1])
    fleet.minutes(7)
    assert fleet.world.run("research", NAMES[0]).suspicion is not None
    fleet.world.aws.fails["GetMetricData"] = "ThrottlingException"
    fleet.minutes()
    del fleet.world.aws.fails["GetMetricData"]
    fleet.minutes(3)
    assert fleet.pages() == []
    assert fleet.acted_on() == set(NAMES[:1])


@pytest.mark.parametrize("frozen", [NAMES, NAMES[:1]], ids=["in a mass", "one alone"])
def test_an_event_about_one_run_never_ends_it_for_a_hang(frozen: list[str]) -> None:
    fleet = Fleet()
    fleet.frozen = set(frozen)
    for _ in range(UNTIL_HUNG):
        # The sweep is late by half a poll, so that the event sees the second agreeing poll first.
        if fleet.acted_on():
            break
        before = fleet.acted_on()
        fleet.world.people.now += 40
        for name in frozen:
            attempt = fleet.attempt(name)
            (report,) = fleet.world.reconciler.for_job(attempt.job, run=f"{fleet.team[name]}/{name}")
            assert not report.error
        assert fleet.acted_on() == before
        fleet.minutes()
    assert fleet.stops() == 0
    assert fleet.acted_on() == (set() if len(frozen) > 1 else set(frozen))  # the sweep, having counted, asks the one


def test_a_request_to_end_is_taken_back_when_the_others_freeze_too() -> None:
    fleet = Fleet(ask_seconds=3_600)
    fleet.frozen = set(NAMES[:2])
    fleet.minutes(UNTIL_HUNG)
    assert fleet.attempt(NAMES[0]).asked_at is not None
    fleet.world.aws.tick_calls()
    fleet.frozen = set(NAMES)
    fleet.minutes(UNTIL_HUNG)
    assert fleet.acted_on() == set()
    assert fleet.attempt(NAMES[0]).asked_at is None
    assert fleet.world.aws.calls["DeleteObject"] >= 2
    assert fleet.world.run(fleet.team[NAMES[0]], NAMES[0]).phase is Phase.TRAINING


def test_a_stop_whose_call_was_lost_is_not_called_again_while_in_doubt() -> None:
    fleet = Fleet()
    fleet.frozen = set(NAMES[:1])
    fleet.world.aws.fails["StopTrainingJob"] = "InternalFailure"
    fleet.minutes(UNTIL_HUNG)
    assert fleet.attempt(NAMES[0]).stopped_at is not None
    fleet.frozen = set(NAMES)
    fleet.minutes(UNTIL_HUNG)
    del fleet.world.aws.fails["StopTrainingJob"]
    fleet.minutes(3)
    assert fleet.world.aws.jobs[fleet.attempt(NAMES[0]).job].status == "InProgress"
    fleet.frozen = set(NAMES[:1])
    fleet.minutes(int((QUIET_SECONDS + WINDOW_SECONDS) / 60))
    assert fleet.world.aws.jobs[fleet.attempt(NAMES[0]).job].status == "Stopping"


@pytest.mark.parametrize("max_restarts", [0, 5], ids=["given up at once", "restarted"])
def test_runs_that_freeze_one_after_the_other_are_not_ended_one_after_the_other(max_restarts: int) -> None:
    fleet = Fleet(max_restarts=max_restarts)
    for name in NAMES[:10]:
        fleet.frozen.add(name)
        fleet.minutes(2)
        for job in fleet.world.aws.living():
            if fleet.world.aws.jobs[job].status == "Stopping":
                fleet.world.aws.end(job, "Stopped")
    fleet.minutes(5)
    # The first was ended while it was alone. It counts on, also where it is given up and in no index any more.
    assert fleet.acted_on() == {NAMES[0]}
    assert len(fleet.pages()) == 1


def test_a_person_can_stop_a_run_while_the_watcher_is_in_doubt() -> None:
    fleet = Fleet()
    fleet.frozen = set(NAMES)
    fleet.minutes(UNTIL_HUNG)
    run = fleet.world.run("research", NAMES[0])
    fleet.world.store.save(replace(run, manifest=run.manifest.model_copy(update={"state": "stopped"})))
    fleet.minutes()
    assert fleet.stops() == 1
    assert fleet.world.aws.jobs[fleet.attempt(NAMES[0]).job].status == "Stopping"


def test_a_run_whose_job_ends_by_itself_is_restarted_while_the_watcher_is_in_doubt() -> None:
    fleet = Fleet()
    fleet.frozen = set(NAMES)
    fleet.minutes(UNTIL_HUNG)
    fleet.world.aws.end(fleet.attempt(NAMES[0]).job, "Failed", "InternalServerError: We encountered an internal error.")
    fleet.minutes(2)
    assert fleet.attempt(NAMES[0]).number == 2


def test_a_sweep_that_is_killed_around_its_page_tells_people_at_most_twice_under_one_id() -> None:
    fleet = Fleet()
    fleet.frozen = set(NAMES)
    notify = fleet.world.people.notify

    def killed_after(notice: Notice) -> None:
        notify(notice)
        fleet.world.people.notify = notify  # type: ignore[method-assign]
        raise KilledError

    fleet.world.people.notify = killed_after  # type: ignore[method-assign]
    with pytest.raises(KilledError):
        fleet.minutes(UNTIL_HUNG)
    fleet.minutes(UNTIL_HUNG)
    assert len(fleet.pages()) == 2
    assert len({one.id for one in fleet.pages()}) == 1  # by which the real publisher sends it once
    assert fleet.acted_on() == set()


def failing(notice: Notice) -> None:
    raise ValueError("SNS is away")


def test_a_page_that_cannot_be_sent_takes_no_runs_turn_and_is_sent_later() -> None:
    fleet = Fleet()
    fleet.frozen = set(NAMES)
    notify: Callable[[Notice], None] = fleet.world.people.notify
    fleet.world.people.notify = failing  # type: ignore[method-assign]
    fleet.minutes(UNTIL_HUNG)
    swept = fleet.world.tick()
    assert "SNS is away" in swept.words
    assert len(swept.reports) == len(NAMES)
    fleet.world.people.notify = notify  # type: ignore[method-assign]
    fleet.minutes(2)
    assert len(fleet.pages()) == 1


def test_a_sweep_that_lost_its_lease_tells_nobody() -> None:
    fleet = Fleet()
    fleet.frozen = set(NAMES)
    survey = fleet.world.sweep._surveyor.survey
    fleet.minutes(5)

    def overtaken(*args: object) -> object:
        found = survey(*args)  # type: ignore[arg-type]
        fleet.world.item._holder = "another"
        return found

    fleet.world.sweep._surveyor.survey = overtaken  # type: ignore[method-assign,assignment]
    for _ in range(UNTIL_HUNG):
        fleet.world.people.now += 60
        try:
            fleet.world.tick()
        except Exception as error:  # noqa: BLE001 - whichever; what counts is who was told
            assert "taken by another" in str(error)
    assert fleet.pages() == []
    assert fleet.acted_on() == set()
