"""Which quota a run is short of, by how much, and whether waiting can help; and when nothing may be said."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.manifest import Limits
from holdfast.core.model import Attempt, Cause, Phase, QuotaRefusal, QuotaShortage, Run
from holdfast.core.quotas import catalogue
from holdfast.core.quotas.preflight import (
    TRUSTED_SECONDS,
    QuotaFacts,
    facts_of,
    preflight,
    read_refusal,
    shortage_words,
    waits_for,
)
from holdfast.core.quotas.record import Awaited, Entry, QuotaRecord
from tests.builders import a_manifest, a_run

NOW = 2_000_000_000.0
OF_TYPE = "ml.m5.xlarge for training job usage"
ACROSS = catalogue.INSTANCES_ACROSS_ALL_JOBS


def record(*, read_at: float = NOW - 60, awaited: Awaited | None = None, **values: float) -> QuotaRecord:
    given: dict[str, float] = {
        OF_TYPE: values.get("of_type", 8),
        ACROSS: values.get("across", 8),
        catalogue.INSTANCES_PER_JOB: values.get("per_job", 20),
        catalogue.LONGEST_RUN: values.get("longest", 432_000),
        "ml.m5.xlarge for spot training job usage": values.get("spot", 0),
    }
    return QuotaRecord(
        tuple(
            Entry(name, catalogue.code_of(name), value, read_at, awaited=awaited if name == OF_TYPE else None)
            for name, value in given.items()
        ),
        at=read_at,
    )


def running(name: str, count: int, **fields: Any) -> Run:
    attempt = Attempt(1, f"job-{name}", "spec", "digest", NOW - 100, sent_at=NOW - 100, seen_at=NOW - 90)
    return a_run(
        name=name, manifest=a_manifest(instance_count=count), attempts=(attempt,), phase=Phase.TRAINING, **fields
    )


def shortages(known: QuotaRecord, *runs: Run, count: int = 2, **manifest: Any) -> tuple[QuotaShortage, ...]:
    return preflight(a_manifest(instance_count=count, **manifest), facts_of(known, runs, besides="research/tiny"), NOW)


def test_a_run_that_fits_exactly_is_short_of_nothing() -> None:
    assert shortages(record(), running("a", 6), count=2) == ()


def test_one_instance_more_is_short_by_one_and_waiting_helps() -> None:
    of_type, across = shortages(record(), running("a", 6), count=3)
    assert (of_type.name, across.name) == (OF_TYPE, ACROSS)
    assert (of_type.short_by, of_type.in_use, of_type.users) == (1, 6, ("research/a",))
    assert of_type.waiting_helps
    assert "8 instances as of 2033-05-18T" in shortage_words(of_type)
    assert "6 are in use by research/a; the run needs 3, so 1 are missing. Waiting helps" in shortage_words(of_type)


def test_more_than_the_whole_quota_never_comes_by_waiting_and_the_words_say_how_to_ask() -> None:
    (of_type,) = shortages(record(of_type=2, across=64), count=4)
    assert not of_type.waiting_helps
    words = shortage_words(of_type)
    assert "Waiting never helps. Ask for 4" in words
    assert f"--quota-code {catalogue.code_of(OF_TYPE)} --desired-value 4" in words


@pytest.mark.parametrize(("desired", "words"), [(8, "which is enough"), (3, "which is not enough either")])
def test_an_increase_that_is_asked_for_is_named(desired: float, words: str) -> None:
    (of_type,) = shortages(record(of_type=2, across=64, awaited=Awaited("r-1", desired, 2)), count=4)
    assert f"An increase to {desired:.0f} is asked for, {words}" in shortage_words(of_type)


def test_spot_instances_are_measured_by_the_quotas_of_spot() -> None:
    manifest = a_manifest()
    spot = manifest.model_copy(update={"resources": manifest.resources.model_copy(update={"spot": True})})
    found = preflight(spot, facts_of(record(of_type=0, across=0), (), besides=""), NOW)
    assert [one.name for one in found] == ["ml.m5.xlarge for spot training job usage"]


def test_a_run_longer_than_the_longest_and_larger_than_one_job_may_be_are_short_whatever_is_in_use() -> None:
    found = shortages(record(per_job=1), count=2, limits=Limits(max_run_seconds=432_001))
    assert [one.name for one in found] == [catalogue.INSTANCES_PER_JOB, catalogue.LONGEST_RUN]
    assert "is 432000 seconds as of" in shortage_words(found[1])


def test_only_runs_that_may_have_a_job_hold_instances() -> None:
    attempt = Attempt(1, "job", "spec", "digest", NOW - 100, sent_at=NOW - 100, ended_at=NOW - 10)
    ended = a_run(name="ended", manifest=a_manifest(instance_count=8), attempts=(attempt,))
    fresh = a_run(name="fresh", manifest=a_manifest(instance_count=8))
    assert shortages(record(), ended, fresh) == ()
    assert shortages(record(), running("live", 8)) != ()


def test_a_run_does_not_stand_in_its_own_way() -> None:
    own = running("tiny", 8)
    assert preflight(own.manifest, facts_of(record(), (own,), besides=own.id), NOW) == ()
    assert preflight(own.manifest, facts_of(record(), (own,), besides="research/other"), NOW) != ()


@pytest.mark.parametrize(
    "known",
    [QuotaRecord(), record(of_type=0, read_at=NOW - TRUSTED_SECONDS - 1), QuotaRecord((Entry(OF_TYPE),))],
)
def test_what_was_never_read_or_is_old_holds_nobody_back(known: QuotaRecord) -> None:
    assert shortages(known, count=4) == ()


def test_what_is_a_day_old_still_holds_back() -> None:
    assert shortages(record(of_type=0, read_at=NOW - TRUSTED_SECONDS + 1)) != ()


def test_what_sagemaker_said_since_holds_over_the_reading_and_an_older_word_does_not() -> None:
    known = record(of_type=0, across=64, read_at=NOW - 3_600)
    newer = running("a", 1, quota_refusal=QuotaRefusal(OF_TYPE, 16, 0, NOW - 600))
    older = running("a", 1, quota_refusal=QuotaRefusal(OF_TYPE, 16, 0, NOW - 7_200))
    assert shortages(known, newer) == ()
    assert shortages(known, older) != ()


def test_other_peoples_jobs_count_as_far_as_sagemaker_has_just_told_of_them() -> None:
    just_now = running("a", 1, quota_refusal=QuotaRefusal(OF_TYPE, 8, 8, NOW - 60))
    (short,) = shortages(record(), just_now)
    assert (short.in_use, short.short_by) == (8, 2)
    long_ago = running("a", 1, quota_refusal=QuotaRefusal(OF_TYPE, 8, 8, NOW - 3_600))
    assert shortages(record(), long_ago) == ()


def test_the_numbers_are_read_from_sagemakers_own_words() -> None:
    said = (
        "ResourceLimitExceeded: The account-level service limit 'ml.p3.2xlarge for training job usage' is 4 Instances, "
        "with current utilization of 3 Instances and a request delta of 2 Instances. Please contact AWS support to "
        "request an increase for this limit."
    )
    assert read_refusal(said, NOW) == QuotaRefusal("ml.p3.2xlarge for training job usage", 4, 3, NOW)
    assert read_refusal("ResourceLimitExceeded: not in these words", NOW) is None


def test_a_run_waits_for_the_quotas_it_is_measured_by_alone() -> None:
    waiting = a_run(phase=Phase.WAITING, cause=Cause.QUOTA)
    assert waits_for(waiting, (OF_TYPE,))
    assert waits_for(waiting, (ACROSS, "another"))
    assert not waits_for(waiting, ("ml.p5.48xlarge for training job usage",))
    assert not waits_for(a_run(phase=Phase.WAITING, cause=Cause.CAPACITY), (OF_TYPE,))
    assert not waits_for(a_run(phase=Phase.TRAINING, cause=None), (OF_TYPE,))


def test_nothing_known_is_an_empty_answer_and_no_error() -> None:
    assert preflight(a_manifest(), QuotaFacts(), NOW) == ()
