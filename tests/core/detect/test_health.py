"""Each test that must not trip stands beside its twin that must."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.detect.health import Health, Verdict, judge
from holdfast.core.manifest import Watch
from holdfast.core.model import JobState, Suspicion
from holdfast.core.observation import Absent, Unknown
from tests.builders import a_manifest
from tests.observations import NOW, TRAINING_AT, an_observation, hosts_at

POLL = 60.0


def suspected(*, step: int | None = 120, ago: float = POLL, polls: int = 1) -> Suspicion:
    return Suspicion(step=step, since=NOW - 200, polls=polls, polled_at=NOW - ago)


def verdict(*, before: Suspicion | None = None, watch: Watch | None = None, **seen: Any) -> Verdict:
    manifest = a_manifest(watch=watch or Watch(stall_after_seconds=60), instance_count=2)
    training_at = TRAINING_AT
    return judge(an_observation(**seen), manifest=manifest, training_at=training_at, before=before, poll_seconds=POLL)


def test_a_frozen_step_with_flat_hosts_in_two_polls_is_hung() -> None:
    assert verdict(stalled_for=200, before=suspected()).health is Health.HUNG


def test_the_first_poll_that_says_so_only_suspects() -> None:
    found = verdict(stalled_for=200, before=None)
    assert found.health is Health.SUSPECT
    assert found.suspicion is not None
    assert found.suspicion.polls == 1


def test_two_looks_within_one_tick_are_one_poll() -> None:
    assert verdict(stalled_for=200, before=suspected(ago=POLL / 2 - 1)).health is Health.SUSPECT
    assert verdict(stalled_for=200, before=suspected(ago=POLL / 2 + 1)).health is Health.HUNG


def test_a_suspicion_of_another_step_starts_the_count_anew() -> None:
    assert verdict(stalled_for=200, step=120, before=suspected(step=119)).health is Health.SUSPECT


def test_a_frozen_step_alone_is_not_a_hang_while_the_hosts_work() -> None:
    found = verdict(stalled_for=2_000, before=suspected(), hosts=hosts_at(90.0))
    assert found.health is Health.SUSPECT
    assert found.suspicion is None


def test_flat_hosts_alone_are_not_a_hang_while_the_step_moves() -> None:
    assert verdict(stalled_for=2, before=suspected(), hosts=hosts_at(0.0)).health is Health.HEALTHY


def test_a_log_that_goes_on_keeps_a_frozen_step_with_flat_hosts_from_being_hung() -> None:
    assert verdict(stalled_for=200, silent_for=5, before=suspected()).health is Health.SUSPECT
    assert verdict(stalled_for=200, silent_for=200, before=suspected()).health is Health.HUNG


def test_gpus_pinned_at_full_load_without_a_step_are_hung() -> None:
    gpus = hosts_at(100.0, metric="GPUUtilization")
    assert verdict(stalled_for=200, hosts=gpus, before=suspected()).health is Health.HUNG


def test_gpus_at_full_load_with_steps_are_healthy() -> None:
    assert verdict(stalled_for=5, hosts=hosts_at(100.0, metric="GPUUtilization")).health is Health.HEALTHY


@pytest.mark.parametrize("missing", ["progress", "hosts"])
def test_a_reading_that_failed_is_unknown_and_keeps_what_was_suspected(missing: str) -> None:
    before = suspected()
    found = verdict(stalled_for=200, before=before, **{missing: Unknown("ThrottlingException")})
    assert found.health is Health.UNKNOWN
    assert found.suspicion == before
    assert "Throttling" in found.basis


def test_a_job_that_cannot_be_read_is_unknown() -> None:
    assert verdict(job=Unknown("timed out"), stalled_for=200, before=suspected()).health is Health.UNKNOWN
    assert verdict(job=Absent(), stalled_for=200, before=suspected()).health is Health.UNKNOWN


def test_a_host_without_metrics_is_unknown_and_never_hung() -> None:
    assert verdict(stalled_for=200, hosts=hosts_at(0.0, count=1), before=suspected()).health is Health.UNKNOWN


def test_metrics_delivered_late_do_not_make_a_young_step_old() -> None:
    late = hosts_at(0.0, lag=170.0)
    assert verdict(stalled_for=200, hosts=late, before=suspected()).health is Health.UNKNOWN
    assert verdict(stalled_for=200, hosts=hosts_at(0.0, lag=60.0), before=suspected()).health is Health.HUNG


@pytest.mark.parametrize(
    "state", [JobState.STARTING, JobState.PENDING, JobState.DOWNLOADING, JobState.RETRYING, JobState.INTERRUPTED]
)
def test_a_job_that_is_not_training_is_never_hung_and_forgets_its_suspicion(state: JobState) -> None:
    found = verdict(state=state, stalled_for=5_000, before=suspected())
    assert found.health is Health.STARTING
    assert found.suspicion is None


def test_without_a_bound_in_the_manifest_a_hang_is_reported_and_not_called_hung() -> None:
    found = verdict(watch=Watch(), stalled_for=2_500, hosts=hosts_at(0.0), before=suspected())
    assert found.health is Health.SUSPECT
    assert found.alert
    bounded = verdict(watch=Watch(stall_after_seconds=1_800), stalled_for=2_500, before=suspected())
    assert bounded.health is Health.HUNG


def test_a_start_that_never_gets_to_a_step_is_hung_by_its_own_bound() -> None:
    watch = Watch(start_after_seconds=600)
    none_yet = {"step": None, "silent_for": 3_500.0, "before": suspected(step=None)}
    assert verdict(watch=watch, stalled_for=0, **none_yet).health is Health.HUNG
    assert verdict(watch=Watch(start_after_seconds=7_200), stalled_for=0, **none_yet).health is Health.STARTING


@pytest.mark.parametrize(
    "hosts", [Unknown("throttled"), hosts_at(0.0, count=1), hosts_at(90.0), hosts_at(0.0, lag=100.0)]
)
def test_people_are_told_of_a_stale_step_without_a_second_signal_only_when_it_lasts(hosts: Any) -> None:
    assert not verdict(stalled_for=119, hosts=hosts, before=suspected()).alert
    assert verdict(stalled_for=121, hosts=hosts, before=suspected()).alert
