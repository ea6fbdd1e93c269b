from __future__ import annotations

import json

from holdfast.core.manifest_checks import MAX_MANIFEST_BYTES
from holdfast.core.model import Attempt, Cause, Notice, Outcome, Run, dump_run, load_run
from holdfast.core.record_size import KEPT_ATTEMPTS, RECORD_LIMIT_BYTES, bounded, history_line, surplus, without_surplus
from tests.builders import a_manifest, a_run


def an_attempt(number: int, *, reason: str = "why", request: dict[str, object] | None = None) -> Attempt:
    return Attempt(
        number,
        f"prod-research-{'r' * 30}-0123abcd-a{number:03d}",
        "s" * 64,
        "d" * 64,
        1.5,
        request=request,
        ended_at=2.5,
        outcome=Outcome.FAILED,
        cause=Cause.PLATFORM,
        reason=reason,
    )


def the_largest_run(letter: str) -> Run:
    """Everything at the most that its source allows: the manifest, its request, and what AWS and people say of it."""
    size = len(json.dumps(letter)) - 2
    values = {f"key-{nth:02d}": letter * (2_400 // size) for nth in range(MAX_MANIFEST_BYTES // 2_500)}
    manifest = a_manifest(hyperparameters=values)
    assert len(manifest.model_dump_json()) <= MAX_MANIFEST_BYTES
    request: dict[str, object] = {"HyperParameters": values, "Environment": {f"E{nth}": "e" * 512 for nth in range(50)}}
    words = letter * 5_000
    attempts = (*(an_attempt(nth, reason=words) for nth in range(1, 40)), an_attempt(40, request=request))
    notices = tuple(Notice(f"n{nth}", "research", "hung", "subject", letter * 8_000) for nth in range(50))
    return a_run(
        manifest=manifest,
        attempts=attempts,
        notices=notices,
        why=words,
        note=words,
        health=words,
        refused=(words,) * 100,
    )


def test_a_record_never_comes_near_what_dynamodb_takes() -> None:
    for letter in ("x", "é", "漢", "😀"):
        run = bounded(without_surplus(the_largest_run(letter)))
        assert len(dump_run(run)) <= RECORD_LIMIT_BYTES
        assert load_run(dump_run(run), 0) == run


def test_its_twin_without_bounds_would_be_refused() -> None:
    assert len(dump_run(the_largest_run("x"))) > 400 * 1024


def test_a_record_of_usual_size_is_left_as_it_is() -> None:
    run = a_run(attempts=tuple(an_attempt(nth) for nth in range(1, 11)), why="because", refused=("no",))
    assert bounded(run) == run
    assert without_surplus(run) == run
    assert surplus(run) == ()


def test_the_oldest_attempts_leave_first_and_are_lines_of_json() -> None:
    run = a_run(attempts=tuple(an_attempt(nth) for nth in range(1, 14)))
    assert [one.number for one in surplus(run)] == [1, 2, 3]
    assert len(without_surplus(run).attempts) == KEPT_ATTEMPTS
    line = history_line(run, run.attempts[0])
    assert line.endswith("\n")
    assert line.count("\n") == 1
    read = json.loads(line)
    assert (read["run"], read["attempt"]["number"], read["attempt"]["outcome"]) == ("research/tiny", 1, "failed")
