from holdfast.core.detect.stale_step import stale_step
from holdfast.core.manifest import Watch
from tests.observations import NOW, TRAINING_AT, a_progress


def _judge(
    watch: Watch, *, stalled_for: float, step: int | None = 120, horizon: float = NOW, training_at: float = TRAINING_AT
):
    progress = a_progress(stalled_for=stalled_for, step=step)
    return stale_step(watch=watch, progress=progress, training_at=training_at, horizon=horizon)


def test_a_step_older_than_the_manifests_bound_is_stale_and_enforceable() -> None:
    found = _judge(Watch(stall_after_seconds=60), stalled_for=61)
    assert found.stale
    assert found.enforceable


def test_a_step_younger_than_the_bound_is_not_stale() -> None:
    assert not _judge(Watch(stall_after_seconds=60), stalled_for=59).stale


def test_without_a_bound_a_step_is_stale_after_half_an_hour_and_may_not_be_enforced() -> None:
    found = _judge(Watch(), stalled_for=1_801)
    assert found.stale
    assert not found.enforceable


def test_without_a_bound_a_step_of_less_than_half_an_hour_is_not_stale() -> None:
    assert not _judge(Watch(), stalled_for=1_799).stale


def test_the_age_counts_up_to_the_horizon_of_the_evidence_and_not_to_now() -> None:
    watch = Watch(stall_after_seconds=60)
    assert _judge(watch, stalled_for=100, horizon=NOW).stale
    assert not _judge(watch, stalled_for=100, horizon=NOW - 50).stale


def test_a_run_without_a_first_step_is_judged_by_its_own_bound_from_the_start_of_training() -> None:
    watch = Watch(stall_after_seconds=10, start_after_seconds=300)
    assert not _judge(watch, stalled_for=0, step=None, training_at=NOW - 299).stale
    assert _judge(watch, stalled_for=0, step=None, training_at=NOW - 301).stale


def test_a_step_from_before_this_attempt_counts_from_the_attempts_start() -> None:
    found = _judge(Watch(stall_after_seconds=60), stalled_for=500, training_at=NOW - 30)
    assert not found.stale
    assert found.since == NOW - 30
