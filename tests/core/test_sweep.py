from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.model import Attempt, Described, JobState, Phase, Run
from holdfast.core.sweep import (
    LONGEST_WINDOW_SECONDS,
    MANIFESTS_FIRST_LOOK_SECONDS,
    OVERLAP_SECONDS,
    UNSEEN_SECONDS,
    Look,
    Summary,
    SweepState,
    after_sweep,
    in_turn,
    look_at,
    manifest_window,
    may_create,
    window_start,
)
from tests.builders import a_manifest, a_run
from tests.observations import NOW

SEEN = Described(JobState.TRAINING, modified_at=NOW - 900, described_at=NOW - 60)
ATTEMPT = Attempt(1, "job", "spec", "digest", NOW - 1_000, seen_at=NOW - 990, described=SEEN)


def look(listed: Summary | None = None, run: Run | None = None, **fields: Any) -> Look:
    attempt = replace(ATTEMPT, **fields)
    return look_at(run or a_run(phase=Phase.TRAINING, attempts=(attempt,)), attempt, listed, NOW)


def test_a_job_that_did_not_change_is_not_described() -> None:
    assert look() is Look.AS_BEFORE
    assert look(Summary("job", JobState.TRAINING, NOW - 900)) is Look.AS_BEFORE
    assert look(Summary("job", JobState.UNKNOWN, NOW - 900)) is Look.AS_BEFORE


@pytest.mark.parametrize(
    "listed", [Summary("job", JobState.TRAINING, NOW - 899), Summary("job", JobState.UPLOADING, NOW - 900)]
)
def test_a_job_that_a_list_shows_changed_is_described(listed: Summary) -> None:
    assert look(listed) is Look.DESCRIBE


@pytest.mark.parametrize(
    "fields",
    [
        {"seen_at": None},
        {"described": None},
        {"described": replace(SEEN, state=JobState.FAILED)},
        {"described": replace(SEEN, state=JobState.UNKNOWN)},
        {"asked_at": NOW - 5},
        {"stopped_at": NOW - 5},
    ],
)
def test_what_something_is_decided_about_is_described_in_this_tick(fields: dict[str, Any]) -> None:
    assert look(**fields) is Look.DESCRIBE


def test_a_wish_to_stop_is_decided_on_a_fresh_reading() -> None:
    wished = a_run(phase=Phase.TRAINING, attempts=(ATTEMPT,), manifest=a_manifest(state="stopped"))
    assert look(run=wished) is Look.DESCRIBE


def test_a_job_unseen_for_long_is_revisited() -> None:
    assert look(described=replace(SEEN, described_at=NOW - UNSEEN_SECONDS)) is Look.REVISIT
    assert look(described=replace(SEEN, described_at=NOW - UNSEEN_SECONDS + 1)) is Look.AS_BEFORE


def test_the_window_reaches_back_to_the_last_whole_sweep_and_not_for_ever() -> None:
    assert window_start(SweepState(listed_until=NOW - 300), NOW) == NOW - 300 - OVERLAP_SECONDS
    assert window_start(SweepState(listed_until=NOW - 1e6), NOW) == NOW - LONGEST_WINDOW_SECONDS - OVERLAP_SECONDS
    assert OVERLAP_SECONDS >= 2.0  # botocore cuts to whole seconds, on both sides


def test_a_sweep_that_was_not_whole_lists_the_same_window_again() -> None:
    state = SweepState(listed_until=NOW - 300)
    assert after_sweep(state, began_at=NOW, whole=False, left=[], order=[]).listed_until == NOW - 300
    assert after_sweep(state, began_at=NOW, whole=True, left=[], order=[]).listed_until == NOW


def test_runs_take_turns_from_where_the_last_sweep_ended() -> None:
    runs = [a_run(name=name) for name in "dbca"]
    assert "".join(run.name for run in in_turn(runs, first="research/c")) == "cdab"
    assert "".join(run.name for run in in_turn(runs, first="", last="research/b")) == "acdb"
    left = [runs[3], runs[0]]
    order = in_turn(runs, first="research/c")
    assert after_sweep(SweepState(), began_at=NOW, whole=True, left=left, order=order).first == "research/d"


def test_the_first_listing_of_manifests_starts_no_run_of_last_year() -> None:
    since, to = manifest_window(SweepState(), NOW)
    assert to < NOW
    assert since == to - MANIFESTS_FIRST_LOOK_SECONDS
    assert manifest_window(SweepState(manifests_until=NOW - 7_200), NOW)[0] == NOW - 7_200 - OVERLAP_SECONDS


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (a_run(), True),
        (a_run(attempts=(replace(ATTEMPT, ended_at=NOW),)), True),
        (a_run(attempts=(replace(ATTEMPT, seen_at=None),)), True),
        (a_run(attempts=(ATTEMPT,)), False),
        (a_run(due_at=NOW + 1), False),
        (a_run(manifest=a_manifest(state="stopped")), False),
        (a_run(phase=Phase.SUCCEEDED), False),
    ],
)
def test_only_a_run_that_may_create_waits_for_a_token(run: Run, expected: bool) -> None:
    assert may_create(run, NOW) is expected
