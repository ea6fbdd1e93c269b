"""From what an ended job left behind to a cause, with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.diagnose.signatures import OF_FAILURE_REASON, OF_LOG, Signature
from holdfast.core.model import Attempt, Cause, JobState
from holdfast.core.observation import Job, LogLine, Unknown

WISH = "wish"  # signature of a job that we stopped because the manifest asked
LINE_LIMIT = 2_000  # characters of a line that are looked at


@dataclass(frozen=True)
class Diagnosis:
    """`basis` is one sentence for a person: what it means, and the text that says so."""

    cause: Cause
    signature: str
    basis: str


def diagnose(job: Job, attempt: Attempt, tail: Sequence[LogLine] | Unknown | None) -> Diagnosis:
    """Name the cause of a terminal job that did not complete. An unknown cause is said to be unknown."""
    return _by_what_was_done(job, attempt) or _by_what_was_said(job, tail)


def _by_what_was_done(job: Job, attempt: Attempt) -> Diagnosis | None:
    if attempt.hung_at is not None:
        return Diagnosis(Cause.HANG, "hang", "It hung and was ended for that.")
    if job.state in (JobState.MAX_RUNTIME, JobState.MAX_WAIT):
        return Diagnosis(Cause.MAX_RUNTIME, "max-runtime", "It reached its time limit.")
    if job.state is JobState.STOPPED:
        if attempt.stopped_at is not None:
            return Diagnosis(Cause.STOPPED_BY_PERSON, WISH, "It was stopped as its manifest asks.")
        return Diagnosis(Cause.STOPPED_BY_PERSON, "outside-stop", "Somebody stopped the job in SageMaker.")
    return None


def _by_what_was_said(job: Job, tail: Sequence[LogLine] | Unknown | None) -> Diagnosis:
    first = _first_match(OF_FAILURE_REASON, job.failure_reason)
    # "AlgorithmError" only repeats that the container exited non-zero; the hosts' own first error says why.
    if first is not None:
        return _said(first, job.failure_reason)
    if isinstance(tail, (tuple, list)):
        for line in sorted(tail, key=lambda one: one.at):
            found = _first_match(OF_LOG, line.text)
            if found is not None and found.id not in ("peer-died", "killed"):
                return _said(found, f"{line.host}: {line.text.strip()}")
    found = _first_match(OF_LOG, job.failure_reason)
    if found is not None:
        return _said(found, job.failure_reason)
    if isinstance(tail, Unknown):
        return Diagnosis(Cause.UNKNOWN, "unread", f"The cause is unknown: the log could not be read ({tail.why}).")
    said = f" SageMaker says: {_cut(job.failure_reason)}" if job.failure_reason else ""
    return Diagnosis(Cause.UNKNOWN, "unknown", f"The cause is unknown.{said}")


def _first_match(signatures: Sequence[Signature], text: str) -> Signature | None:
    return next((one for one in signatures if one.pattern.search(text[:LINE_LIMIT])), None)


def _said(signature: Signature, text: str) -> Diagnosis:
    return Diagnosis(signature.cause, signature.id, f"{signature.meaning} ({_cut(text)})")


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 300 else flat[:297] + "..."
