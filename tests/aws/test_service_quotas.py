"""Reading quotas and asking for more, against a service that checks each request by botocore's model."""

from __future__ import annotations

import pytest

from holdfast.aws.service_quotas import OutOfTimeError, ServiceQuotas
from holdfast.core.observation import Unknown
from holdfast.core.quotas.plan import ANSWER_OF_ERROR, Answer, NoSuchQuota, Quota, RequestState
from sandbox.cloud.quota_values import CODES
from tests.memory_quotas import MemoryQuotas

P4D, P4D_CODE = "ml.p4d.24xlarge for training job usage", "L-09B4A649"
ACROSS = "Number of instances across all training jobs"
NEWER = "ml.trn2.48xlarge for training job usage"


def always() -> None:
    """There is time."""


def reader(memory: MemoryQuotas) -> ServiceQuotas:
    return ServiceQuotas(memory.client(), in_time=always)


def test_a_quota_is_read_by_its_public_code_in_one_call() -> None:
    memory = MemoryQuotas()
    assert reader(memory).read([P4D]) == {P4D: Quota(P4D, P4D_CODE, 0, True)}
    assert memory.calls == {"GetServiceQuota": 1}


def test_a_quota_without_an_applied_value_has_its_default() -> None:
    memory = MemoryQuotas({ACROSS: 64})
    memory.fails["GetServiceQuota"] = "NoSuchResourceException"
    assert reader(memory).read([ACROSS])[ACROSS] == Quota(ACROSS, "L-00C91CB5", 4, True, is_default=True)


@pytest.mark.parametrize(
    "codes",
    [
        {**{code: name for code, name in CODES.items() if code != P4D_CODE}, "L-NEWER": P4D},
        {**CODES, P4D_CODE: "another quota by now", "L-NEWER": P4D},
    ],
)
def test_a_code_that_changed_is_found_by_the_quotas_name(codes: dict[str, str]) -> None:
    memory = MemoryQuotas({P4D: 8}, codes)
    assert reader(memory).read([P4D]) == {P4D: Quota(P4D, "L-NEWER", 8, True)}


def test_a_quota_of_no_public_list_is_found_by_its_name_on_any_page_and_the_list_is_read_once() -> None:
    memory = MemoryQuotas(
        {NEWER: 2}, {**CODES, "L-TRN2": NEWER, "L-TRN2SPOT": "ml.trn2.48xlarge for spot training job usage"}
    )
    names = [NEWER, "ml.trn2.48xlarge for spot training job usage"]
    found = reader(memory).read(names)
    assert [one.code for one in found.values() if isinstance(one, Quota)] == ["L-TRN2", "L-TRN2SPOT"]
    assert memory.calls["ListServiceQuotas"] == -(-len(CODES) // 100)


def test_a_quota_that_service_quotas_does_not_have_is_told_apart_from_one_that_could_not_be_read() -> None:
    memory = MemoryQuotas()
    assert reader(memory).read([NEWER]) == {NEWER: NoSuchQuota()}
    memory.fails["ListServiceQuotas"] = "AccessDeniedException"
    assert reader(memory).read([NEWER]) == {
        NEWER: Unknown("listing the quotas: AccessDeniedException: as the test says")
    }
    memory.fails["GetServiceQuota"] = "ServiceException"
    assert reader(memory).read([P4D]) == {
        P4D: Unknown(f"GetServiceQuota {P4D_CODE}: ServiceException: as the test says")
    }


def test_one_quota_that_cannot_be_read_costs_no_other_its_reading() -> None:
    memory = MemoryQuotas()
    memory.fails[f"GetServiceQuota {P4D_CODE}"] = "ServiceException"
    found = reader(memory).read([P4D, ACROSS])
    assert isinstance(found[P4D], Unknown)
    assert isinstance(found[ACROSS], Quota)


def test_a_request_is_taken_and_is_in_the_history() -> None:
    memory = MemoryQuotas()
    asked = reader(memory).ask(P4D_CODE, 16)
    assert asked.answer is Answer.TAKEN
    history = reader(memory).requests()
    assert not isinstance(history, Unknown)
    assert [(one.code, one.desired, one.state) for one in history] == [(P4D_CODE, 16, RequestState.OPEN)]
    assert asked.request == history[0]


def test_a_second_request_and_a_value_that_is_no_increase_are_answered_by_name() -> None:
    memory = MemoryQuotas({ACROSS: 64})
    reader(memory).ask(P4D_CODE, 16)
    assert reader(memory).ask(P4D_CODE, 32).answer is Answer.ALREADY_OPEN
    assert reader(memory).ask("L-00C91CB5", 64).answer is Answer.REFUSED_VALUE
    assert reader(memory).ask("L-NOTHING0", 64).answer is Answer.NO_SUCH_QUOTA


@pytest.mark.parametrize(("code", "answer"), ANSWER_OF_ERROR.items())
def test_every_documented_error_becomes_its_word_and_none_is_raised(code: str, answer: Answer) -> None:
    memory = MemoryQuotas()
    memory.fails["RequestServiceQuotaIncrease"] = code
    asked = reader(memory).ask(P4D_CODE, 16)
    assert (asked.answer, asked.words) == (answer, f"{code}: as the test says")


def test_an_error_that_nobody_documents_is_a_failure_and_not_a_success() -> None:
    memory = MemoryQuotas()
    memory.fails["RequestServiceQuotaIncrease"] = "SomethingNew"
    assert reader(memory).ask(P4D_CODE, 16).answer is Answer.FAILED


def test_no_call_is_made_once_the_time_is_up() -> None:
    memory = MemoryQuotas()

    def up() -> None:
        raise OutOfTimeError

    with pytest.raises(OutOfTimeError):
        ServiceQuotas(memory.client(), in_time=up).read([P4D])
    assert not memory.calls
