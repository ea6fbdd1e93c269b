"""What a run's record says while AWS denies Holdfast a call."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.denied import denial_words, with_denials
from holdfast.core.model import Run
from holdfast.core.observation import Observation, Progress, Unknown
from tests.builders import a_run

SAID = "GetMetricData: AccessDenied: User: x is not authorized to perform: cloudwatch:GetMetricData"


def denied() -> Run:
    return with_denials(replace(a_run(), status_due=False), [SAID], whole=True)


def test_a_denied_call_is_on_the_record_with_one_notice_and_a_status_to_write() -> None:
    run = denied()
    assert SAID in run.denied
    assert run.status_due
    (told,) = run.notices
    assert told.kind == "denied"
    assert SAID in told.body


def test_the_same_denial_at_the_next_look_changes_nothing() -> None:
    run = replace(denied(), notices=(), status_due=False)
    assert with_denials(run, [SAID], whole=True) == run


def test_it_stands_until_a_look_that_makes_every_call_was_denied_nothing() -> None:
    run = replace(denied(), status_due=False)
    assert with_denials(run, [], whole=False) == run
    cleared = with_denials(run, [], whole=True)
    assert cleared.denied == ""
    assert cleared.status_due


def test_a_run_to_which_nothing_is_denied_stays_as_it_is() -> None:
    run = replace(a_run(), status_due=False)
    assert with_denials(run, [], whole=True) == run


def test_the_same_words_are_one_notice_for_good() -> None:
    first, second = denied(), with_denials(a_run(), [SAID], whole=False)
    assert [one.id for one in first.notices] == [one.id for one in second.notices]


def test_many_denials_are_counted_rather_than_cut_by_the_record() -> None:
    words = denial_words([f"Call{number}: {'x' * 600}" for number in range(5)])
    assert "and 3 more" in words
    assert len(words) < 1_500


def test_of_the_failed_readings_only_denied_ones_are_told() -> None:
    slow = Unknown("GetMetricData: Throttling: Rate exceeded", throttled=True)
    seen = Observation(0.0, progress=Unknown(SAID, denied=True), seals=slow, hosts=())
    assert seen.denied == (SAID,)
    assert Observation(0.0, progress=Progress(step=1, step_at=0.0)).denied == ()
