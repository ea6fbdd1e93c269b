"""What changed since the last look: one notice each, and none where nothing is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.observation import Unknown
from holdfast.core.quotas.follow import Happened, after_changes, changes
from holdfast.core.quotas.plan import Quota, Reading, Request, RequestState, plan
from holdfast.core.quotas.record import QuotaRecord, dump_record, load_record, status_document, updated
from holdfast.core.quotas.wishes import Wanted

NAME, CODE = "ml.p4d.24xlarge for training job usage", "L-09B4A649"
TEAMS = ("research", "vision")


def request(state: RequestState, desired: float = 16) -> Request:
    return Request("r-1", CODE, desired, state, 1.0)


def look(
    before: QuotaRecord, reading: Reading, requests: tuple[Request, ...] | Unknown, now: float = 1_000.0
) -> tuple[QuotaRecord, tuple[str, ...]]:
    """One look of the keeper; the record after it, and what happened."""
    readings = {NAME: reading}
    decisions = plan((Wanted(NAME, 16, "the test"),), readings, requests)
    record = updated(before, readings=readings, decisions=decisions, now=now)
    found = changes(before, record, requests)
    return after_changes(record, found, teams=TEAMS), tuple(one.happened.value for one in found)


@pytest.fixture
def waiting() -> QuotaRecord:
    """4 of 16, and a request for 16 is open."""
    record, happened = look(QuotaRecord(), Quota(NAME, CODE, 4), (request(RequestState.OPEN),))
    assert happened == ()
    return record


@pytest.mark.parametrize(
    ("value", "state", "happened"),
    [
        (16, RequestState.APPROVED, Happened.GRANTED),
        (16, RequestState.CLOSED, Happened.GRANTED),
        (16, RequestState.OPEN, Happened.GRANTED),
        (20, RequestState.APPROVED, Happened.GRANTED),
        (8, RequestState.CLOSED, Happened.PARTLY),
        (8, RequestState.APPROVED, Happened.PARTLY),
        (8, RequestState.OPEN, Happened.RAISED),
        (4, RequestState.REFUSED, Happened.DENIED),
        (4, RequestState.CLOSED, Happened.DENIED),
        (4, RequestState.OPEN, None),
        (4, RequestState.APPROVED, None),
    ],
)
def test_an_open_request_ends_in_what_value_and_state_say_together(
    waiting: QuotaRecord, value: float, state: RequestState, happened: Happened | None
) -> None:
    record, found = look(waiting, Quota(NAME, CODE, value), (request(state),))
    assert found == (() if happened is None else (happened.value,))
    assert len(record.owed) == len(found)
    assert record.raised == (() if happened in (None, Happened.DENIED) else (NAME,))


def test_a_change_is_told_once(waiting: QuotaRecord) -> None:
    granted = (request(RequestState.APPROVED),)
    record, _ = look(waiting, Quota(NAME, CODE, 16), granted)
    again, found = look(replace(record, owed=(), raised=()), Quota(NAME, CODE, 16), granted)
    assert found == ()
    assert (again.owed, again.raised) == ((), ())


def test_an_approved_value_that_comes_a_day_later_is_told_when_it_comes(waiting: QuotaRecord) -> None:
    approved, found = look(waiting, Quota(NAME, CODE, 4), (request(RequestState.APPROVED),))
    assert found == ()
    _, found = look(approved, Quota(NAME, CODE, 16), (request(RequestState.APPROVED),))
    assert found == ("granted",)


def test_a_value_that_somebody_raised_without_us_wakes_runs_too() -> None:
    before, _ = look(QuotaRecord(), Quota(NAME, CODE, 4), ())
    record, found = look(before, Quota(NAME, CODE, 20), ())
    assert found == ("raised",)
    assert record.raised == (NAME,)


def test_a_first_look_and_a_lowered_value_tell_nobody() -> None:
    before, found = look(QuotaRecord(), Quota(NAME, CODE, 20), ())
    assert found == ()
    _, found = look(before, Quota(NAME, CODE, 4), ())
    assert found == ()


@pytest.mark.parametrize("reading", [Unknown("throttled"), Quota(NAME, CODE, 4)])
def test_what_could_not_be_read_is_compared_again_at_the_next_look(waiting: QuotaRecord, reading: Reading) -> None:
    record, found = look(waiting, reading, Unknown("throttled"))
    assert found == ()
    _, found = look(record, Quota(NAME, CODE, 4), (request(RequestState.REFUSED),))
    assert found == ("denied",)


def test_a_failed_read_keeps_the_value_before_with_its_time(waiting: QuotaRecord) -> None:
    record, _ = look(waiting, Unknown("throttled"), (), now=2_000.0)
    (entry,) = record.entries
    assert (entry.value, entry.read_at) == (4, 1_000.0)


def test_all_teams_get_the_notice_and_its_subject_fits_sns(waiting: QuotaRecord) -> None:
    record, _ = look(waiting, Quota(NAME, CODE, 8), (request(RequestState.CLOSED),))
    (notice,) = record.owed
    assert notice.teams == TEAMS
    assert len(notice.subject) <= 100
    assert "went from 4 to 8, of 16 asked for" in notice.body


def test_the_record_is_the_same_after_a_round_through_the_store(waiting: QuotaRecord) -> None:
    record, _ = look(waiting, Quota(NAME, CODE, 8), (request(RequestState.CLOSED),))
    assert load_record(dump_record(record)) == record


def test_the_status_object_names_value_wish_verdict_and_request(waiting: QuotaRecord) -> None:
    (quota,) = status_document(waiting)["quotas"]
    assert (quota["name"], quota["code"], quota["value"], quota["wanted"]) == (NAME, CODE, 4, 16)
    assert (quota["verdict"], quota["request"]) == ("open", {"id": "r-1", "desired": 16})
