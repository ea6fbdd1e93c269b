"""Each count that makes the watcher suspect stands beside its twin, one run fewer, that does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.detect.health import Health, Verdict
from holdfast.core.detect.mass import QUIET_SECONDS, WINDOW_SECONDS, Before, Crowd, Doubt, Seen, believed, doubt, see
from holdfast.core.manifest import Watch
from holdfast.core.model import Attempt, Phase, Run, Suspicion
from holdfast.core.observation import Progress, Unknown
from tests.builders import a_manifest, a_run
from tests.observations import NOW

SUSPICION = Suspicion(step=120, since=NOW - 700, polls=1, polled_at=NOW - 60)


def hung(number: int, **fields: Any) -> Seen:
    sound = Seen(f"t/hung-{number}", True, NOW - 700, stale_at=NOW - 100, looks_hung=True, may_be_ended=True)
    return replace(sound, **fields)


def moving(number: int, **fields: Any) -> Seen:
    return replace(Seen(f"t/moving-{number}", True, NOW - 30, may_be_ended=True), **fields)


def crowd(hung_ones: int, moving_ones: int, **fields: Any) -> Crowd:
    runs = (*(hung(number) for number in range(hung_ones)), *(moving(number) for number in range(moving_ones)))
    return Crowd(NOW, runs, **fields)


@pytest.mark.parametrize(
    ("hung_ones", "runs", "stands"),
    [
        (1, 1, False),
        (2, 2, False),
        (3, 3, True),
        (2, 10, False),
        (3, 10, True),
        (2, 40, False),
        (3, 40, True),
        (5, 100, False),
        (6, 100, True),
        (50, 1_000, False),
        (51, 1_000, True),
    ],
)
def test_more_than_two_and_more_than_five_percent_make_the_watcher_suspect(
    hung_ones: int, runs: int, stands: bool
) -> None:
    found = doubt(crowd(hung_ones, runs - hung_ones))
    assert found.stands is stands
    assert len(found.counted) == hung_ones
    assert f"{hung_ones} of {runs} runs look hung" in found.basis


def test_runs_without_a_step_do_not_raise_the_limit() -> None:
    starting = tuple(moving(number, stepped_at=None) for number in range(100, 200))
    few = crowd(3, 7)
    assert doubt(replace(few, runs=(*few.runs, *starting))).stands
    assert not doubt(crowd(3, 107)).stands


def test_a_run_that_was_ended_for_a_hang_counts_until_the_window_is_over() -> None:
    for age, stands in ((WINDOW_SECONDS - 1, True), (WINDOW_SECONDS, False)):
        assert doubt(crowd(2, 8, ended={"t/ended": NOW - age})).stands is stands


def test_a_run_that_is_asked_to_end_and_still_looks_hung_counts_once() -> None:
    assert not doubt(crowd(2, 8, ended={"t/hung-0": NOW - 60})).stands


def test_where_no_run_is_seen_to_move_the_silent_ones_count_too() -> None:
    silent = tuple(moving(number, stepped_at=NOW - WINDOW_SECONDS) for number in range(9))
    assert doubt(Crowd(NOW, (hung(1), *silent))).stands
    assert not doubt(Crowd(NOW, (hung(1), *silent, moving(10)))).stands
    assert not doubt(Crowd(NOW, silent)).stands  # nobody looks hung


def test_readings_that_fail_for_longer_than_the_window_are_no_sign_of_movement() -> None:
    for age, stands in ((WINDOW_SECONDS - 1, False), (WINDOW_SECONDS, True)):
        unread = tuple(moving(number, read=False, stepped_at=NOW - age) for number in range(9))
        found = doubt(Crowd(NOW, (hung(1), *unread)))
        assert found.stands is stands
        assert ("no other was seen to move" in found.basis) is stands


def test_runs_that_went_stale_in_the_window_count_before_their_hosts_were_read() -> None:
    stale = tuple(hung(number, looks_hung=False, stale_at=NOW - 10) for number in range(3))
    assert doubt(Crowd(NOW, (*stale, *(moving(number) for number in range(7))))).stands
    assert not doubt(Crowd(NOW, (*stale[:2], *(moving(number) for number in range(8))))).stands


@pytest.mark.parametrize("fields", [{"looks_hung": False}, {"may_be_ended": False}])
def test_runs_that_nobody_ends_are_no_evidence_for_ever(fields: dict[str, bool]) -> None:
    for age, stands in ((WINDOW_SECONDS - 1, True), (WINDOW_SECONDS, False)):
        old = tuple(hung(number, stale_at=NOW - age, **fields) for number in range(3))
        assert doubt(Crowd(NOW, (*old, *(moving(number) for number in range(7))))).stands is stands


def test_a_run_that_may_be_ended_counts_however_long_it_looks_hung() -> None:
    old = tuple(hung(number, stale_at=NOW - 9 * WINDOW_SECONDS) for number in range(3))
    assert doubt(Crowd(NOW, (*old, *(moving(number) for number in range(7))))).stands


def test_a_doubt_does_not_end_because_time_or_evidence_is_gone() -> None:
    since = NOW - 9 * WINDOW_SECONDS
    for gone in ({"stale_at": since, "looks_hung": False}, {"stale_at": None, "looks_hung": False, "read": False}):
        runs = (*(hung(number, **gone) for number in range(3)), *(moving(number) for number in range(7)))
        counted = frozenset(one.run for one in runs[:3])
        found = doubt(Crowd(NOW, runs, before=Before(since, None, counted)))
        assert (found.stands, found.since) == (True, since)
        assert not doubt(Crowd(NOW, runs)).stands


def test_a_doubt_ends_when_it_was_quiet_for_long_enough() -> None:
    before = Before(NOW - 3_600)
    first = doubt(crowd(2, 8, before=before))
    assert (first.stands, first.quiet_since) == (True, NOW)
    almost = doubt(crowd(2, 8, before=replace(before, quiet_since=NOW - QUIET_SECONDS + 1)))
    assert almost.stands
    over = doubt(crowd(2, 8, before=replace(before, quiet_since=NOW - QUIET_SECONDS)))
    assert (over.stands, over.since) == (False, None)
    again = doubt(crowd(3, 7, before=replace(before, quiet_since=NOW - QUIET_SECONDS)))
    assert (again.stands, again.since, again.quiet_since) == (True, before.since, None)


def test_people_need_not_hear_of_a_doubt_that_holds_nothing_back() -> None:
    pause = tuple(hung(number, looks_hung=False) for number in range(3))
    rest = tuple(moving(number) for number in range(7))
    assert not doubt(Crowd(NOW, (*pause, *rest))).grave
    assert doubt(Crowd(NOW, (replace(pause[0], long=True), *pause[1:], *rest))).grave
    assert doubt(crowd(3, 7)).grave


# One run as it is seen ------------------------------------------------------------------------------------------------


def a_training_run(
    *, suspicion: Suspicion | None = None, watch: Watch | None = None, last_step: int | None = 120
) -> Run:
    step_at = None if last_step is None else NOW - 700
    attempt = Attempt(1, "j", "s", "d", NOW - 9_000, training_at=NOW - 8_000, last_step=last_step, last_step_at=step_at)
    manifest = a_manifest(watch=watch or Watch(stall_after_seconds=600))
    return a_run(phase=Phase.TRAINING, attempts=(attempt,), suspicion=suspicion, manifest=manifest)


def seen(run: Run, progress: Progress | Unknown | None) -> Seen:
    found = see(run, progress, NOW)
    assert found is not None
    return found


def test_a_suspicion_stands_until_the_step_is_seen_to_have_moved() -> None:
    run = a_training_run(suspicion=SUSPICION)
    still = seen(run, Progress(120, NOW - 700))
    assert (still.looks_hung, still.may_be_ended, still.stale_at) == (True, True, NOW - 100)
    assert not seen(run, Progress(121, NOW - 20)).looks_hung
    assert not seen(run, Progress(121, NOW - 650)).looks_hung  # stale again, of another step: not yet polled


def test_a_step_that_cannot_be_read_leaves_a_suspicion_and_makes_none() -> None:
    assert seen(a_training_run(suspicion=SUSPICION), Unknown("ThrottlingException")).looks_hung
    unread = seen(a_training_run(), Unknown("ThrottlingException"))
    assert (unread.read, unread.stale_at, unread.stepped_at) == (False, None, NOW - 700)


@pytest.mark.parametrize("watch", [Watch(), Watch(stall_after_seconds=600, mode="shadow")])
def test_a_run_without_a_bound_or_in_shadow_mode_may_not_be_ended(watch: Watch) -> None:
    assert not seen(a_training_run(watch=watch), Progress(120, NOW - 9_000)).may_be_ended


def test_a_run_that_is_stale_for_twice_its_bound_is_long_stale() -> None:
    run = a_training_run()
    assert [seen(run, Progress(120, NOW - age)).long for age in (1_199, 1_200)] == [False, True]


def test_a_run_that_does_not_train_is_not_seen() -> None:
    assert see(a_run(), None, NOW) is None
    run = a_training_run()
    assert see(replace(run, attempts=(replace(run.attempts[0], ended_at=NOW),)), None, NOW) is None


# One run's verdict in the light of all --------------------------------------------------------------------------------

HUNG = Verdict(Health.HUNG, "frozen", SUSPICION)
SOUND = Doubt(stands=False, basis="1 of 40")
SUSPECT = Doubt(stands=True, basis="40 of 40")


def test_a_hang_is_believed_where_the_runs_were_counted_and_are_not_too_many() -> None:
    assert believed(HUNG, SOUND) == HUNG


@pytest.mark.parametrize("doubted", [None, SUSPECT])
def test_a_hang_is_unknown_where_too_many_are_or_nobody_counted_and_its_suspicion_stays(doubted: Doubt | None) -> None:
    found = believed(HUNG, doubted)
    assert (found.health, found.suspicion, found.doubted) == (Health.UNKNOWN, SUSPICION, doubted is not None)
    assert "frozen" in found.basis


@pytest.mark.parametrize("health", [one for one in Health if one is not Health.HUNG])
def test_any_other_verdict_stays_and_people_are_not_told_of_each_run_while_in_doubt(health: Health) -> None:
    verdict = Verdict(health, "basis", SUSPICION, alert=True)
    assert believed(verdict, None) == believed(verdict, SOUND) == verdict
    assert believed(verdict, SUSPECT) == replace(verdict, alert=False, doubted=True)
