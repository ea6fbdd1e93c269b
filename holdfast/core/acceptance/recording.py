"""The file that an acceptance leaves: findings by probe, and of what they were found. No account, no secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.core.acceptance.finding import Finding, Verdict, without_secrets

FORMAT = "holdfast-acceptance/1"


class RecordingError(ValueError):
    """A file that is no recording, in words."""


@dataclass(frozen=True)
class Recording:
    """`kind` is the config's: `aws`, or `emulated` for the sandbox, which is no source for anything.

    `recorded` is the newest finding's time, ISO 8601 in UTC; `versions` names what was used (holdfast, botocore).
    The account is left out, hashed or not: its twelve digits are few enough to be tried out.
    """

    kind: str
    region: str
    instance_type: str
    recorded: str
    versions: Mapping[str, str]
    findings: Mapping[str, Finding] = field(default_factory=dict)

    def answered(self, probe: str) -> bool:
        return probe in self.findings and self.findings[probe].verdict is not Verdict.UNKNOWN

    def with_findings(self, found: Mapping[str, Finding], recorded: str) -> Recording:
        """Newer findings take the place of older ones; an unknown never takes that of an answer."""
        kept = {
            probe: without_secrets(finding)
            for probe, finding in found.items()
            if finding.verdict is not Verdict.UNKNOWN or not self.answered(probe)
        }
        return replace(self, findings={**self.findings, **kept}, recorded=recorded)


def render_recording(recording: Recording) -> str:
    document = {
        "format": FORMAT,
        "kind": recording.kind,
        "region": recording.region,
        "instance_type": recording.instance_type,
        "recorded": recording.recorded,
        "versions": dict(recording.versions),
        "findings": {
            probe: {"verdict": one.verdict.value, "basis": one.basis, "values": dict(one.values)}
            for probe, one in sorted(recording.findings.items())
        },
    }
    return json.dumps(document, indent=1) + "\n"


def parse_recording(text: str) -> Recording:
    """Raises RecordingError that says what is wrong."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise RecordingError(f"is not JSON ({error})") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        said = document.get("format") if isinstance(document, dict) else None
        raise RecordingError(f"is not in the format {FORMAT!r} but in {said!r}")
    try:
        return Recording(
            kind=_text(document, "kind"),
            region=_text(document, "region"),
            instance_type=_text(document, "instance_type"),
            recorded=_text(document, "recorded"),
            versions={name: str(version) for name, version in dict(document["versions"]).items()},
            findings={probe: _finding(probe, one) for probe, one in dict(document["findings"]).items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise RecordingError(f"lacks a field, or has one of a wrong type: {error}") from None


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document[name]
    if not isinstance(value, str):
        raise RecordingError(f"{name!r} is not a text")
    return value


def _finding(probe: str, document: Mapping[str, Any]) -> Finding:
    verdict = document["verdict"]
    if verdict not in [one.value for one in Verdict]:
        raise RecordingError(f"the verdict of {probe!r} is {verdict!r}; it can be {', '.join(Verdict)}")
    return Finding(Verdict(verdict), _text(document, "basis"), dict(document["values"]))
