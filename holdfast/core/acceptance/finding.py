"""What one probe found: as assumed, different, or unknown, with the figures and the sentence that they rest on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

Value = bool | float | str | list[float] | list[str] | None
"""The name of a value carries its unit: `log_delay_least_seconds`."""


class Verdict(StrEnum):
    AS_ASSUMED = "as_assumed"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """`basis` says what the verdict rests on, or why there is none."""

    verdict: Verdict
    basis: str
    values: Mapping[str, Value] = field(default_factory=dict)


def unknown(why: str, **values: Value) -> Finding:
    return Finding(Verdict.UNKNOWN, why, values)


def judged(holds: bool, basis: str, **values: Value) -> Finding:
    return Finding(Verdict.AS_ASSUMED if holds else Verdict.DIFFERENT, basis, values)


_ARN = re.compile(r"arn:[a-z-]+:[^\s,;'\")]+")
_KEY = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b")
_ACCOUNT = re.compile(r"(?<![0-9.])[0-9]{12}(?![0-9])")


def redacted(text: str) -> str:
    """Without ARNs, access keys and account ids: AWS's sentences are worth keeping, whose account it was is not.

    Any 12 digits in a row count as an account's: a number too many is lost rather than one too few.
    """
    return _ACCOUNT.sub("<account>", _KEY.sub("<key>", _ARN.sub("<arn>", text)))


def without_secrets(finding: Finding) -> Finding:
    """The same finding with every text in it redacted."""
    return replace(
        finding,
        basis=redacted(finding.basis),
        values={name: _redacted_value(value) for name, value in finding.values.items()},
    )


def _redacted_value(value: Value) -> Value:
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, list):
        return [redacted(one) if isinstance(one, str) else one for one in value]  # type: ignore[return-value]
    return value
