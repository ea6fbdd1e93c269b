"""What becomes of each wanted quota: left alone, asked for, or not, with the reason.

`(wanted, what is, what was asked before) -> decisions`. Asking is safe to repeat: a request that is open is not made
again, a value that is enough is left alone, nothing is lowered, and what AWS has answered is not asked a second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from holdfast.core.observation import Unknown
from holdfast.core.quotas.wishes import Wanted


class Verdict(StrEnum):
    ENOUGH = "enough"
    ASK = "ask"
    OPEN = "open"
    """A request is under way; AWS takes one a quota."""
    ANSWERED = "answered"
    """AWS has answered a request for this very value, and the quota is still below it."""
    NOT_ADJUSTABLE = "not_adjustable"
    NO_SUCH_QUOTA = "no_such_quota"
    NOT_ASKED = "not_asked"
    """Asking failed; the next run tries again."""
    UNKNOWN = "unknown"

    @property
    def is_problem(self) -> bool:
        """Somebody has to look: it goes into the metric and the alarm."""
        return self in (Verdict.NOT_ADJUSTABLE, Verdict.NO_SUCH_QUOTA, Verdict.NOT_ASKED, Verdict.UNKNOWN)


class RequestState(StrEnum):
    OPEN = "open"
    APPROVED = "approved"
    REFUSED = "refused"
    CLOSED = "closed"
    """The support case was closed: granted, granted in part or not at all; the quota's value tells."""


STATE_OF_STATUS: Mapping[str, RequestState] = {
    "PENDING": RequestState.OPEN,
    "CASE_OPENED": RequestState.OPEN,
    "APPROVED": RequestState.APPROVED,
    "DENIED": RequestState.REFUSED,
    "NOT_APPROVED": RequestState.REFUSED,
    "INVALID_REQUEST": RequestState.REFUSED,
    "CASE_CLOSED": RequestState.CLOSED,
}
"""botocore's model: RequestStatus."""


@dataclass(frozen=True)
class Quota:
    """One quota as Service Quotas gives it. `is_default`: the account has no applied value of its own."""

    name: str
    code: str
    value: float
    adjustable: bool = True
    is_default: bool = False


@dataclass(frozen=True)
class NoSuchQuota:
    """Neither its code nor its name is known to Service Quotas in this Region."""


@dataclass(frozen=True)
class Request:
    """A request for an increase, whoever made it."""

    id: str
    code: str
    desired: float
    state: RequestState
    at: float = 0.0
    """When it was made, epoch seconds."""


Reading = Quota | NoSuchQuota | Unknown


@dataclass(frozen=True)
class QuotaDecision:
    """One wanted quota. `ask` is the value to request, where the verdict is ASK."""

    wanted: Wanted
    verdict: Verdict
    basis: str
    code: str | None = None
    request: Request | None = None
    ask: float | None = None


def plan(
    wanted: Sequence[Wanted], readings: Mapping[str, Reading], requests: Sequence[Request] | Unknown
) -> tuple[QuotaDecision, ...]:
    """`requests`: all that Service Quotas remembers (90 days), of any state."""
    return tuple(_decide(one, readings.get(one.name, Unknown("it was not read")), requests) for one in wanted)


def _decide(wanted: Wanted, reading: Reading, requests: Sequence[Request] | Unknown) -> QuotaDecision:
    if isinstance(reading, Unknown):
        return QuotaDecision(wanted, Verdict.UNKNOWN, f"its value is unknown: {reading.why}")
    if isinstance(reading, NoSuchQuota):
        return QuotaDecision(wanted, Verdict.NO_SUCH_QUOTA, "Service Quotas has no quota of this name in this Region")
    decided = QuotaDecision(wanted, Verdict.ENOUGH, f"it is {reading.value:.0f}", reading.code)
    if reading.value >= wanted.value:
        return decided
    if not reading.adjustable:
        said = f"it is {reading.value:.0f} and AWS does not raise it"
        return replace(decided, verdict=Verdict.NOT_ADJUSTABLE, basis=said)
    if isinstance(requests, Unknown):
        # Without the history a refusal of last week would be answered with the same request again.
        return replace(decided, verdict=Verdict.UNKNOWN, basis=f"what was asked before is unknown: {requests.why}")
    own = sorted((one for one in requests if one.code == reading.code), key=lambda one: one.at)
    under_way = next((one for one in reversed(own) if one.state is RequestState.OPEN), None)
    if under_way is not None:
        less = f"; {wanted.value:.0f} can be asked for after that" if under_way.desired < wanted.value else ""
        said = f"it is {reading.value:.0f} and a request for {under_way.desired:.0f} is open{less}"
        return replace(decided, verdict=Verdict.OPEN, basis=said, request=under_way)
    answered = next((one for one in reversed(own) if one.desired == wanted.value), None)
    if answered is not None:
        said = (
            f"it is {reading.value:.0f} and AWS has {_ANSWERED[answered.state]} a request for {answered.desired:.0f}; "
            "to ask again, want another value, or ask in Service Quotas"
        )
        return replace(decided, verdict=Verdict.ANSWERED, basis=said, request=answered)
    return replace(decided, verdict=Verdict.ASK, basis=f"it is {reading.value:.0f}", ask=wanted.value)


_ANSWERED = {
    RequestState.APPROVED: "approved",
    RequestState.REFUSED: "refused",
    RequestState.CLOSED: "closed",
    RequestState.OPEN: "not yet answered",
}


class Answer(StrEnum):
    """What Service Quotas said to a request, in our words."""

    TAKEN = "taken"
    ALREADY_OPEN = "already_open"
    TOO_MANY_OPEN = "too_many_open"
    """Service Quotas' own limit of open requests, not the quota's hard limit."""
    NO_DEPENDENCY_ACCESS = "no_dependency_access"
    REFUSED_VALUE = "refused_value"
    NO_SUCH_QUOTA = "no_such_quota"
    THROTTLED = "throttled"
    DENIED = "denied"
    WRONG_STATE = "wrong_state"
    FAILED = "failed"
    OUT_OF_TIME = "out_of_time"
    """It was not asked: the function's time was nearly up."""


ANSWER_OF_ERROR: Mapping[str, Answer] = {
    "ResourceAlreadyExistsException": Answer.ALREADY_OPEN,
    "QuotaExceededException": Answer.TOO_MANY_OPEN,
    "DependencyAccessDeniedException": Answer.NO_DEPENDENCY_ACCESS,
    "IllegalArgumentException": Answer.REFUSED_VALUE,
    "NoSuchResourceException": Answer.NO_SUCH_QUOTA,
    "TooManyRequestsException": Answer.THROTTLED,
    "AccessDeniedException": Answer.DENIED,
    "InvalidResourceStateException": Answer.WRONG_STATE,
    "ServiceException": Answer.FAILED,
}
"""Every error that botocore's model documents for RequestServiceQuotaIncrease. Any other one is FAILED."""

_MEANING: Mapping[Answer, tuple[Verdict, str]] = {
    Answer.TAKEN: (Verdict.OPEN, "asked for"),
    Answer.ALREADY_OPEN: (Verdict.OPEN, "a request is open already"),
    Answer.TOO_MANY_OPEN: (Verdict.NOT_ASKED, "too many requests are open in the account; tried again in a day"),
    Answer.NO_DEPENDENCY_ACCESS: (
        Verdict.NOT_ASKED,
        "Service Quotas may not open a support case: its service-linked role is missing or the plan has no access",
    ),
    Answer.REFUSED_VALUE: (Verdict.NOT_ASKED, "Service Quotas does not take the value"),
    Answer.NO_SUCH_QUOTA: (Verdict.NO_SUCH_QUOTA, "Service Quotas does not know the quota that it has just read"),
    Answer.THROTTLED: (Verdict.NOT_ASKED, "throttled; tried again in a day"),
    Answer.DENIED: (Verdict.NOT_ASKED, "the function lacks servicequotas:RequestServiceQuotaIncrease"),
    Answer.WRONG_STATE: (Verdict.NOT_ASKED, "the quota cannot be changed at this moment; tried again in a day"),
    Answer.FAILED: (Verdict.NOT_ASKED, "Service Quotas failed; tried again in a day"),
    Answer.OUT_OF_TIME: (Verdict.NOT_ASKED, "the function's time ran out before; asked for in a day"),
}


def after_asking(decision: QuotaDecision, answer: Answer, words: str, request: Request | None = None) -> QuotaDecision:
    """The decision as it stands once Service Quotas has answered. `words` is AWS's own text, empty for TAKEN."""
    verdict, meaning = _MEANING[answer]
    said = f"{decision.basis}; {decision.ask:.0f}: {meaning}" + (f" ({words})" if words else "")
    return replace(decision, verdict=verdict, basis=said, request=request, ask=None)
