"""What an account was recorded to do, by `holdfast acceptance`, takes the place of what was assumed of it.

A recording that is committed as `recorded.json` beside this module changes the AWS profile, and with it LAGGED,
wherever it has an answer. What it lacks stays as assumed. What it contradicts and the sandbox has no setting for is
said in words: at the sandbox's start, and by `python -m sandbox.sagemaker.recorded FILE`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.acceptance.finding import Finding, Value, Verdict
from holdfast.core.acceptance.judge_calls import DESCRIBES_PER_SECOND
from holdfast.core.acceptance.recording import Recording, RecordingError, parse_recording
from sandbox.sagemaker.delays import Delay

if TYPE_CHECKING:
    from sandbox.sagemaker.profile import Profile

RECORDED = Path(__file__).with_name("recorded.json")
_LEAST_FLUSH_SECONDS = 0.1


@dataclass(frozen=True)
class Applied:
    """`sourced`: fields of the profile that the recording set. `contradicted`: sentences, one for each answer that the
    sandbox goes against and cannot follow."""

    profile: Profile
    sourced: tuple[str, ...]
    contradicted: tuple[str, ...]


def profile_of(recording: Recording, assumed: Profile) -> Applied:
    """`assumed` with what was recorded. Raises RecordingError for an answer without the figures that it should have."""
    changes: dict[str, Any] = {}
    contradicted: list[str] = []
    for probe, finding in sorted(recording.findings.items()):
        if finding.verdict is Verdict.UNKNOWN:
            continue
        settings = _SETTINGS.get(probe, _none)
        try:
            found = settings(finding.values)
        except (KeyError, TypeError, ValueError) as error:
            raise RecordingError(f"the values of {probe!r} cannot be used: {type(error).__name__}: {error}") from None
        changes.update(found)
        if not found and _is_against(probe, finding):
            contradicted.append(f"{probe}: {finding.basis}. The sandbox does otherwise, and has no setting for it.")
    return Applied(replace(assumed, **changes), tuple(sorted(changes)), tuple(contradicted))


def committed(assumed: Profile, path: Path = RECORDED) -> Applied:
    """The AWS profile of this tree. Raises RecordingError for a file that is there and cannot serve as a source."""
    if not path.exists():
        return Applied(assumed, (), ())
    try:
        recording = parse_recording(path.read_text(encoding="utf-8"))
        if recording.kind != "aws":
            raise RecordingError(f"was recorded on kind {recording.kind!r}: only an account is a source")
        return profile_of(recording, assumed)
    except RecordingError as error:
        raise RecordingError(f"{path}: {error}") from None


# ---------------------------------------------------------------------------------------------------------------------
# Probe -> settings of the profile

Values = Mapping[str, Value]


def _none(_values: Values) -> dict[str, Any]:
    return {}


def _delays(what: str) -> Callable[[Values], dict[str, Any]]:
    def settings(values: Values) -> dict[str, Any]:
        least, most = _number(values, f"{what}_delay_least_seconds"), _number(values, f"{what}_delay_most_seconds")
        # One job was watched, so all of its spread is the batches', but for what the watching added.
        flush = max(_LEAST_FLUSH_SECONDS, most - least - _number(values, "resolution_seconds"))
        return {f"{what}_delay": Delay(max(0.0, least), max(0.0, least)), f"{what}_flush_seconds": round(flush, 2)}

    return settings


def _late(values: Values) -> dict[str, Any]:
    return {"late_after_end": bool(values["late_after_end"])}


def _burst(values: Values) -> dict[str, Any]:
    # Of a lower bound this is the least that is certain; it may be more.
    return {"rate_burst_seconds": _number(values, "describes_at_once") / DESCRIBES_PER_SECOND}


def _peers(values: Values) -> dict[str, Any]:
    return {"peer_grace_seconds": _number(values, "peer_grace_seconds")} if values["peer_gets_sigterm"] else {}


def _durations(values: Values) -> dict[str, Any]:
    names = ("starting_seconds", "image_seconds")
    found = {name: _number(values, name) for name in names}
    sync = values.get("checkpoint_sync_most_seconds")
    # A file waits for at most one period.
    return found if sync is None else {**found, "checkpoint_sync_seconds": max(_LEAST_FLUSH_SECONDS, _as_number(sync))}


def _host_metrics(values: Values) -> dict[str, Any]:
    counts = values["values_while_frozen"]
    if not isinstance(counts, list) or 0 in counts:
        return {}  # they stop: nothing here does that
    return {"host_metric_seconds": _number(values, "host_metric_seconds")}


_SETTINGS: dict[str, Callable[[Values], dict[str, Any]]] = {
    "log-delay": _delays("log"),
    "metric-delay": _delays("metric"),
    "late-after-end": _late,
    "describe-burst": _burst,
    "stop-grace": lambda values: {"stop_grace_seconds": _number(values, "stop_grace_seconds")},
    "peer-ending": _peers,
    "durations": _durations,
    "frozen-host-metrics": _host_metrics,
}


def _is_against(probe: str, finding: Finding) -> bool:
    if probe == "condition-keys":  # the sandbox fills none of SageMaker's own, whatever was assumed of AWS
        filled = finding.values["filled"]
        return isinstance(filled, list) and any(str(one).startswith("sagemaker:") for one in filled)
    return finding.verdict is Verdict.DIFFERENT


def _number(values: Values, name: str) -> float:
    return _as_number(values[name])


def _as_number(value: Value) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def main(arguments: list[str]) -> int:
    from sandbox.sagemaker.profile import ASSUMED  # noqa: PLC0415 - profile.py itself uses this module

    if len(arguments) != 1:
        print("usage: python -m sandbox.sagemaker.recorded FILE", file=sys.stderr)
        return 2
    try:
        applied = profile_of(parse_recording(Path(arguments[0]).read_text(encoding="utf-8")), ASSUMED)
    except (OSError, RecordingError) as error:
        print(f"sandbox: {arguments[0]}: {error}", file=sys.stderr)
        return 1
    for field in applied.sourced:
        print(f"{field}: {getattr(ASSUMED, field)} -> {getattr(applied.profile, field)}")
    for words in applied.contradicted:
        print(words)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
