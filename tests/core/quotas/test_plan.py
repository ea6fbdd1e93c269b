"""What becomes of a wanted quota, each "is not asked for" beside the case that is."""

from __future__ import annotations

import botocore.session
import pytest

from holdfast.core.observation import Unknown
from holdfast.core.quotas.plan import (
    ANSWER_OF_ERROR,
    STATE_OF_STATUS,
    Answer,
    NoSuchQuota,
    Quota,
    QuotaDecision,
    Reading,
    Request,
    RequestState,
    Verdict,
    after_asking,
    plan,
)
from holdfast.core.quotas.wishes import Wanted

NAME, CODE = "ml.p4d.24xlarge for training job usage", "L-09B4A649"
WANTED = Wanted(NAME, 16, "the test")


def quota(value: float, *, adjustable: bool = True) -> Quota:
    return Quota(NAME, CODE, value, adjustable)


def asked(state: RequestState, desired: float = 16, *, at: float = 1.0, code: str = CODE) -> Request:
    return Request(f"{state}-{desired:.0f}-{at:.0f}", code, desired, state, at)


@pytest.mark.parametrize(
    ("reading", "requests", "verdict", "words"),
    [
        (quota(0), (), Verdict.ASK, "it is 0"),
        (quota(15), (), Verdict.ASK, "it is 15"),
        (quota(16), (), Verdict.ENOUGH, "it is 16"),
        (quota(64), (), Verdict.ENOUGH, "it is 64"),
        (quota(0, adjustable=False), (), Verdict.NOT_ADJUSTABLE, "AWS does not raise it"),
        (quota(16, adjustable=False), (), Verdict.ENOUGH, "it is 16"),
        (NoSuchQuota(), (), Verdict.NO_SUCH_QUOTA, "no quota of this name"),
        (Unknown("throttled"), (), Verdict.UNKNOWN, "its value is unknown: throttled"),
        (quota(0), (asked(RequestState.OPEN),), Verdict.OPEN, "a request for 16 is open"),
        (quota(0), (asked(RequestState.OPEN, 8),), Verdict.OPEN, "16 can be asked for after that"),
        (quota(16), (asked(RequestState.OPEN),), Verdict.ENOUGH, "it is 16"),
        (quota(0), (asked(RequestState.OPEN, code="L-OTHER"),), Verdict.ASK, "it is 0"),
        (quota(0), (asked(RequestState.REFUSED),), Verdict.ANSWERED, "AWS has refused a request for 16"),
        (quota(8), (asked(RequestState.CLOSED),), Verdict.ANSWERED, "AWS has closed a request for 16"),
        (quota(0), (asked(RequestState.APPROVED),), Verdict.ANSWERED, "AWS has approved a request for 16"),
        (quota(0), (asked(RequestState.REFUSED, 8),), Verdict.ASK, "it is 0"),
        (quota(0), (asked(RequestState.REFUSED), asked(RequestState.OPEN, at=2)), Verdict.OPEN, "is open"),
        (quota(0), Unknown("denied"), Verdict.UNKNOWN, "what was asked before is unknown: denied"),
        (quota(16), Unknown("denied"), Verdict.ENOUGH, "it is 16"),
    ],
)
def test_each_case_has_one_verdict_with_its_basis(
    reading: Reading, requests: tuple[Request, ...] | Unknown, verdict: Verdict, words: str
) -> None:
    (decision,) = plan((WANTED,), {NAME: reading}, requests)
    assert (decision.verdict, decision.ask) == (verdict, 16 if verdict is Verdict.ASK else None)
    assert words in decision.basis


def test_a_quota_that_was_not_read_is_not_asked_for() -> None:
    (decision,) = plan((WANTED,), {}, ())
    assert decision.verdict is Verdict.UNKNOWN


def test_nothing_is_ever_asked_for_below_what_is() -> None:
    for value in range(40):
        (decision,) = plan((WANTED,), {NAME: quota(value)}, ())
        assert decision.ask is None or decision.ask > value


def test_a_plan_that_was_carried_out_asks_for_nothing_more() -> None:
    (first,) = plan((WANTED,), {NAME: quota(0)}, ())
    assert first.ask == 16
    (second,) = plan((WANTED,), {NAME: quota(0)}, (asked(RequestState.OPEN),))
    assert second.ask is None


def _documented(operation: str) -> set[str]:
    model = botocore.session.get_session().get_service_model("service-quotas")
    return {shape.name for shape in model.operation_model(operation).error_shapes}


def test_every_documented_error_has_its_own_answer_and_there_is_none_that_is_not_documented() -> None:
    assert set(ANSWER_OF_ERROR) == _documented("RequestServiceQuotaIncrease")
    assert len(set(ANSWER_OF_ERROR.values())) == len(ANSWER_OF_ERROR)


def test_every_status_of_a_request_has_its_state() -> None:
    model = botocore.session.get_session().get_service_model("service-quotas")
    assert set(STATE_OF_STATUS) == set(model.shape_for("RequestStatus").enum)  # type: ignore[attr-defined]


ASKING = QuotaDecision(WANTED, Verdict.ASK, "it is 0", CODE, ask=16)


@pytest.mark.parametrize(
    ("answer", "verdict", "problem"),
    [
        (Answer.TAKEN, Verdict.OPEN, False),
        (Answer.ALREADY_OPEN, Verdict.OPEN, False),
        (Answer.TOO_MANY_OPEN, Verdict.NOT_ASKED, True),
        (Answer.NO_DEPENDENCY_ACCESS, Verdict.NOT_ASKED, True),
        (Answer.REFUSED_VALUE, Verdict.NOT_ASKED, True),
        (Answer.NO_SUCH_QUOTA, Verdict.NO_SUCH_QUOTA, True),
        (Answer.THROTTLED, Verdict.NOT_ASKED, True),
        (Answer.DENIED, Verdict.NOT_ASKED, True),
        (Answer.WRONG_STATE, Verdict.NOT_ASKED, True),
        (Answer.FAILED, Verdict.NOT_ASKED, True),
        (Answer.OUT_OF_TIME, Verdict.NOT_ASKED, True),
    ],
)
def test_each_answer_ends_in_a_verdict_and_aws_own_words_are_kept(
    answer: Answer, verdict: Verdict, problem: bool
) -> None:
    after = after_asking(ASKING, answer, "AWS's own text")
    assert (after.verdict, after.verdict.is_problem, after.ask) == (verdict, problem, None)
    assert "AWS's own text" in after.basis
