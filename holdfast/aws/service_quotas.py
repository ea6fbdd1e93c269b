"""Service Quotas: reads the account's quotas of SageMaker and asks for more. Every error becomes a word of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.aws.errors import FAILED_READ, code_of, words_of
from holdfast.core.observation import Unknown
from holdfast.core.quotas.catalogue import SERVICE
from holdfast.core.quotas.catalogue import code_of as public_code
from holdfast.core.quotas.plan import (
    ANSWER_OF_ERROR,
    STATE_OF_STATUS,
    Answer,
    NoSuchQuota,
    Quota,
    Reading,
    Request,
    RequestState,
)

if TYPE_CHECKING:
    from mypy_boto3_service_quotas.client import ServiceQuotasClient

NO_SUCH = "NoSuchResourceException"


class OutOfTimeError(Exception):
    """The function's time is nearly up; what was not done yet is done at the next run."""


@dataclass(frozen=True)
class Asked:
    """What became of a request; `words` is AWS's text where it was not taken."""

    answer: Answer
    words: str = ""
    request: Request | None = None


class ServiceQuotas:
    """`in_time` raises OutOfTimeError; it is asked before each call, so that a slow service cannot eat the answer."""

    def __init__(self, client: ServiceQuotasClient, *, in_time: Callable[[], None]) -> None:
        self._client = client
        self._in_time = in_time

    def read(self, names: Iterable[str]) -> dict[str, Reading]:
        """By code where a public one is known and still means this name; else all quotas are listed, once, by name."""
        found: dict[str, Reading] = {}
        nameless = []
        for name in names:
            code = public_code(name)
            reading = NoSuchQuota() if code is None else self._by_code(code, name)
            if isinstance(reading, NoSuchQuota):
                nameless.append(name)
            else:
                found[name] = reading
        return {**found, **self._by_name(nameless)}

    def one(self, quota: Quota) -> Reading:
        """The same quota again."""
        return self._by_code(quota.code, quota.name)

    def requests(self) -> tuple[Request, ...] | Unknown:
        """Every request for a quota of SageMaker that Service Quotas remembers, of any state and by whomever."""
        try:
            return tuple(
                _request(one)
                for page in self._pages("list_requested_service_quota_change_history")
                for one in page["RequestedQuotas"]
            )
        except FAILED_READ as error:
            return Unknown(f"ListRequestedServiceQuotaChangeHistory: {words_of(error)}")

    def ask(self, code: str, value: float) -> Asked:
        """A support case may come of it: AWS decides by hand on most GPU quotas."""
        try:
            self._in_time()
            answer = self._client.request_service_quota_increase(
                ServiceCode=SERVICE, QuotaCode=code, DesiredValue=value, SupportCaseAllowed=True
            )
        except OutOfTimeError:
            # Not raised: what was read and asked for before is worth its record.
            return Asked(Answer.OUT_OF_TIME)
        except FAILED_READ as error:
            return Asked(ANSWER_OF_ERROR.get(code_of(error), Answer.FAILED), words_of(error))
        return Asked(Answer.TAKEN, request=_request(answer["RequestedQuota"]))

    def _by_code(self, code: str, name: str) -> Reading:
        self._in_time()
        try:
            answer: Mapping[str, Any] = self._client.get_service_quota(ServiceCode=SERVICE, QuotaCode=code)["Quota"]
        except FAILED_READ as error:
            if code_of(error) != NO_SUCH:
                return Unknown(f"GetServiceQuota {code}: {words_of(error)}")
            # Also said of a quota that has no applied value in this account: then its default holds (aws-cli#8584).
            return self._default(code, name)
        return _quota(answer, name)

    def _default(self, code: str, name: str) -> Reading:
        self._in_time()
        try:
            answer = self._client.get_aws_default_service_quota(ServiceCode=SERVICE, QuotaCode=code)["Quota"]
        except FAILED_READ as error:
            missing = code_of(error) == NO_SUCH
            return NoSuchQuota() if missing else Unknown(f"GetAWSDefaultServiceQuota {code}: {words_of(error)}")
        return _quota(answer, name, is_default=True)

    def _by_name(self, names: Iterable[str]) -> dict[str, Reading]:
        left = dict.fromkeys(names)
        found: dict[str, Reading] = {}
        try:
            for operation in ("list_service_quotas", "list_aws_default_service_quotas"):
                if not left:
                    break
                for page in self._pages(operation):
                    for one in page["Quotas"]:
                        if one["QuotaName"] in left:
                            del left[one["QuotaName"]]
                            is_default = operation != "list_service_quotas"
                            found[one["QuotaName"]] = _quota(one, one["QuotaName"], is_default=is_default)
        except FAILED_READ as error:
            return {**found, **dict.fromkeys(left, Unknown(f"listing the quotas: {words_of(error)}"))}
        return {**found, **dict.fromkeys(left, NoSuchQuota())}

    def _pages(self, operation: Any) -> Iterable[Any]:
        for page in self._client.get_paginator(operation).paginate(ServiceCode=SERVICE):
            self._in_time()
            yield page


def _quota(answer: Mapping[str, Any], name: str, *, is_default: bool = False) -> Reading:
    if answer["QuotaName"] != name:
        # The code is another quota's by now. What its value is must not be taken for this one's.
        return NoSuchQuota()
    if "Value" not in answer:
        reason = answer.get("ErrorReason", {})
        return Unknown(f"Service Quotas gives no value: {reason.get('ErrorCode', 'no reason')}")
    return Quota(name, answer["QuotaCode"], answer["Value"], answer.get("Adjustable", False), is_default)


def _request(answer: Mapping[str, Any]) -> Request:
    return Request(
        id=answer["Id"],
        code=answer["QuotaCode"],
        desired=answer["DesiredValue"],
        # A status that is newer than botocore's model is not known to be an end.
        state=STATE_OF_STATUS.get(answer["Status"], RequestState.OPEN),
        at=answer["Created"].timestamp() if "Created" in answer else 0.0,
    )
