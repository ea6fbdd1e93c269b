"""What becomes of a run when its manifest is dropped: new, the same again, changed, resumed, begun anew, or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.field_errors import FieldError
from holdfast.core.manifest import Limits, Manifest, Notify, Source, Watch
from holdfast.core.model import Attempt, Cause, Ledger, Phase, Pins, Run, spec_hash
from holdfast.core.registration import (
    Registration,
    name_clash,
    refusal_notice,
    refuse,
    register,
)
from tests.builders import BUCKET, a_manifest, a_run, some_pins

NEW_PINS = Pins("sha256-new", "new-image", "templates/sha256-new/code/tiny_gpt/", "new-code", "new.py")
ERRORS = (FieldError("image", "is wrong", "write another", 3), FieldError("", "is odd", "mend it"))


def drop(existing: Run | None, manifest: Manifest, *, pins: Pins = NEW_PINS) -> Registration:
    return register(
        existing,
        manifest,
        team="research",
        name="tiny",
        pins=pins,
        spec_hash=spec_hash(manifest),
        uid="new-uid",
        now=1_000.0,
    )


def run_of(registration: Registration) -> Run:
    assert registration.run is not None
    return registration.run


def some_attempts(count: int) -> tuple[Attempt, ...]:
    return tuple(Attempt(n, f"job-a{n}", "spec", "request", intended_at=1.0, ended_at=2.0) for n in range(1, count + 1))


def a_finished_run(phase: Phase = Phase.SUCCEEDED, **fields: Any) -> Run:
    ledger = Ledger(restarts=4, charged={"hang": 2}, best_sealed_step=80)
    return a_run(phase=phase, attempts=some_attempts(12), next_number=13, ledger=ledger, version=7, **fields)


def test_a_new_manifest_makes_a_new_run() -> None:
    got = drop(None, a_manifest())
    run = run_of(got)
    assert got.accepted
    assert got.changed
    assert (run.id, run.uid, run.phase, run.pins, run.registered_at) == (
        "research/tiny",
        "new-uid",
        Phase.ACCEPTED,
        NEW_PINS,
        1_000.0,
    )
    assert (run.version, run.next_number, run.status_due) == (0, 1, True)


def test_the_same_again_changes_nothing_in_any_phase() -> None:
    for phase in Phase:
        existing = a_run(phase=phase)
        got = drop(existing, a_manifest())
        assert got.accepted
        assert not got.changed
        assert got.run is existing


def test_the_same_meaning_in_other_words_is_the_same() -> None:
    assert not drop(a_run(), a_manifest(name="tiny", generation=1)).changed


def test_the_same_again_after_a_refused_version_forgets_the_refusal() -> None:
    got = drop(a_run(refused=("image: is wrong",)), a_manifest())
    assert got.changed
    assert run_of(got).refused == ()


def test_the_same_again_on_a_finished_run_says_how_to_run_it_again() -> None:
    assert "raise generation to 2" in drop(a_finished_run(), a_manifest()).words


def test_a_changed_manifest_says_field_by_field_what_is_applied_now_and_what_at_the_next_attempt() -> None:
    changed = a_manifest(
        watch=Watch(stall_after_seconds=300),
        limits=Limits(max_restarts=9, max_run_seconds=7_200),
        instance_count=2,
        hyperparameters={"lr": 0.1},
        state="stopped",
    )
    got = drop(a_run(phase=Phase.TRAINING, due_at=5.0), changed)
    run = run_of(got)
    assert (run.manifest, run.spec_hash, run.phase, run.due_at) == (changed, spec_hash(changed), Phase.TRAINING, 5.0)
    assert run.note == got.words
    now, later = got.words.split("At the next attempt: ")
    assert now.startswith(
        "Applied now: limits.max_restarts (5 -> 9), state (running -> stopped), watch.stall_after_seconds (none -> 300)"
    )
    assert later.split(", ") == [
        "hyperparameters.lr (none -> 0.1)",
        "limits.max_run_seconds (432000 -> 7200)",
        "resources.instance_count (1 -> 2).",
    ]


def test_a_changed_manifest_keeps_uid_attempts_and_ledger() -> None:
    existing = a_run(
        phase=Phase.WAITING, attempts=some_attempts(2), next_number=3, ledger=Ledger(restarts=1), version=4
    )
    run = run_of(drop(existing, a_manifest(instance_count=2)))
    assert (run.uid, run.attempts, run.next_number, run.ledger, run.version) == (
        existing.uid,
        existing.attempts,
        3,
        existing.ledger,
        4,
    )


def test_an_upgrade_in_between_does_not_come_along_with_a_changed_watch() -> None:
    run = run_of(drop(a_run(phase=Phase.TRAINING), a_manifest(watch=Watch(stall_after_seconds=60))))
    assert run.pins == some_pins()


def test_a_changed_image_moves_the_image_alone() -> None:
    run = run_of(drop(a_run(phase=Phase.TRAINING), a_manifest(image="other")))
    assert run.pins == replace(some_pins(), image_uri="new-image")


def test_a_changed_source_moves_the_code_alone() -> None:
    source = Source(archive=f"s3://{BUCKET}/data/research/x.tgz", entry_point="new.py")
    run = run_of(drop(a_run(phase=Phase.TRAINING), a_manifest(source=source)))
    assert run.pins == replace(
        some_pins(),
        code_prefix=NEW_PINS.code_prefix,
        code_sha256=NEW_PINS.code_sha256,
        entry_point=NEW_PINS.entry_point,
    )


def test_a_changed_template_moves_all_since_only_the_newer_bundle_may_have_it() -> None:
    assert run_of(drop(a_run(phase=Phase.TRAINING), a_manifest(template="other"))).pins == NEW_PINS


def test_a_changed_manifest_of_a_run_that_succeeded_is_refused_unless_its_generation_rises() -> None:
    got = drop(a_finished_run(Phase.SUCCEEDED), a_manifest(instance_count=2))
    assert not got.accepted
    assert "raise it to 2" in got.words
    assert run_of(got).phase is Phase.SUCCEEDED
    assert run_of(got).manifest == a_manifest()
    assert drop(a_finished_run(Phase.SUCCEEDED), a_manifest(instance_count=2, generation=2)).accepted


def test_a_changed_manifest_of_a_run_that_failed_resumes_it_with_a_fresh_budget() -> None:
    existing = a_finished_run(Phase.FAILED, cause=Cause.QUOTA)
    got = drop(existing, a_manifest(limits=Limits(max_restarts=9)))
    run = run_of(got)
    assert "resumes from its last sealed checkpoint" in got.words
    assert (run.phase, run.uid, run.pins) == (Phase.ACCEPTED, existing.uid, existing.pins)
    assert (run.ledger.charged, run.ledger.best_sealed_step) == ({}, existing.ledger.best_sealed_step)


def test_a_failed_run_that_is_set_to_stopped_stays_as_it_is_until_it_is_wanted_again() -> None:
    failed = run_of(drop(a_finished_run(Phase.FAILED), a_manifest(state="stopped")))
    assert failed.phase is Phase.FAILED
    assert run_of(drop(failed, a_manifest())).phase is Phase.ACCEPTED


def test_a_new_generation_begins_from_nothing_and_its_attempt_numbers_go_on() -> None:
    existing = a_finished_run(Phase.FAILED, cause=Cause.HANG, why="gave up", refused=("x",))
    run = run_of(drop(existing, a_manifest(generation=2)))
    assert (run.uid, run.pins, run.phase, run.cause, run.ledger) == (
        "new-uid",
        NEW_PINS,
        Phase.ACCEPTED,
        None,
        Ledger(),
    )
    assert (run.next_number, run.version, run.refused, run.registered_at) == (13, 7, (), 1_000.0)
    assert run.attempts == existing.attempts  # the watcher archives the oldest before it lets them go


@pytest.mark.parametrize("phase", [phase for phase in Phase if not phase.terminal])
def test_a_new_generation_of_an_active_run_is_refused(phase: Phase) -> None:
    got = drop(a_run(phase=phase), a_manifest(generation=2))
    assert not got.accepted
    assert "state: stopped" in got.words
    assert run_of(got).manifest.generation == 1


def test_a_lower_generation_is_refused() -> None:
    got = drop(a_run(manifest=a_manifest(generation=3), phase=Phase.SUCCEEDED), a_manifest(generation=2))
    assert not got.accepted
    assert "at generation 3 already" in got.words


def test_a_stopped_run_resumes_in_its_own_lineage() -> None:
    existing = a_finished_run(Phase.STOPPED, manifest=a_manifest(state="stopped"), cause=Cause.STOPPED_BY_PERSON)
    got = drop(existing, a_manifest())
    run = run_of(got)
    assert got.accepted
    assert "resumes" in got.words
    assert (run.phase, run.uid, run.cause, run.ledger) == (
        Phase.ACCEPTED,
        existing.uid,
        None,
        replace(existing.ledger, charged={}),
    )
    assert (run.pins, run.next_number) == (existing.pins, 13)


def test_a_stopped_run_whose_manifest_still_says_stopped_stays_so() -> None:
    existing = a_finished_run(Phase.STOPPED, manifest=a_manifest(state="stopped"))
    run = run_of(drop(existing, a_manifest(state="stopped", instance_count=2)))
    assert (run.phase, run.manifest.resources.instance_count) == (Phase.STOPPED, 2)


def test_a_run_stopped_from_outside_is_not_resumed_by_the_same_bytes_and_is_told_how() -> None:
    got = drop(a_finished_run(Phase.STOPPED), a_manifest())
    assert not got.changed
    assert "state: stopped and then state: running" in got.words


def test_a_refused_manifest_without_a_run_leaves_none() -> None:
    got = refuse(None, "research", "tiny", ERRORS)
    assert (got.run, got.changed, got.errors) == (None, False, ERRORS)
    assert "Nothing was started." in got.words
    assert "image (line 3): is wrong; write another" in got.words


def test_a_refused_manifest_of_a_live_run_lets_it_go_on_and_tells_its_people_once() -> None:
    existing = a_run(phase=Phase.TRAINING, status_due=False)
    got = refuse(existing, "research", "tiny", ERRORS)
    run = run_of(got)
    assert got.changed
    assert "goes on under the manifest before" in got.words
    assert run == replace(existing, refused=tuple(map(str, ERRORS)), notices=run.notices, status_due=True)
    assert [one.kind for one in run.notices] == ["refused"]
    again = refuse(run, "research", "tiny", ERRORS)
    assert not again.changed
    assert again.run is run


def test_a_manifest_that_wants_no_word_of_refusals_gets_none() -> None:
    existing = a_run(phase=Phase.TRAINING, manifest=a_manifest(notify=Notify(on=("gave_up",))))
    assert run_of(refuse(existing, "research", "tiny", ERRORS)).notices == ()


def test_a_good_manifest_after_a_refused_one_clears_the_errors() -> None:
    refused = run_of(refuse(a_run(phase=Phase.TRAINING), "research", "tiny", ERRORS))
    assert run_of(drop(refused, a_manifest(instance_count=2))).refused == ()


def test_the_notice_of_a_refusal_without_a_run_has_an_id_of_its_content() -> None:
    first, again = refusal_notice("research", "tiny", ERRORS), refusal_notice("research", "tiny", ERRORS)
    assert first == again
    assert first.id != refusal_notice("research", "tiny", ERRORS[:1]).id
    assert len(first.subject) <= 100
    assert first.subject.isascii()


def test_two_files_of_one_stem_clash_and_others_do_not() -> None:
    key = "manifests/research/tiny.yaml"
    clash = name_clash(key, [key, "manifests/research/tiny.json", "manifests/research/tiny-2.yaml"])
    assert clash is not None
    assert "tiny.yaml and tiny.json" in clash.wrong
    assert name_clash(key, [key, "manifests/research/tiny-2.json", "manifests/research/tin.yaml"]) is None
