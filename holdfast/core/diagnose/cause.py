"""From what an ended job left behind to a cause, with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.diagnose.signatures import OF_FAILURE_REASON, OF_LOG, Signature
from holdfast.core.model import Attempt, Cause, JobState
from holdfast.core.observation import Job, LogLine, Unknown

WISH = "wish"  # signature of a job that we stopped because the manifest asked
# What the peers of the first failure show; a cause of their own only where nothing else was said.
SYMPTOMS = ("peer-died", "killed")
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
    if job.state is JobState.MAX_RUNTIME:
        return Diagnosis(Cause.MAX_RUNTIME, "max-runtime", "It reached limits.max_run_seconds.")
    if job.state is JobState.MAX_WAIT:
        return Diagnosis(Cause.CAPACITY, "max-wait", "It waited for spot capacity until its limit.")
    if job.state is JobState.STOPPED:
        if attempt.stopped_at is not None:
            return Diagnosis(Cause.STOPPED_BY_PERSON, WISH, "It was stopped as its manifest asks.")
        return Diagnosis(Cause.STOPPED_BY_PERSON, "outside-stop", "Somebody stopped the job in SageMaker.")
    return None


def _by_what_was_said(job: Job, tail: Sequence[LogLine] | Unknown | None) -> Diagnosis:
    """SageMaker's own words, then the error that the agent wrote down as the first, then the hosts' last lines."""
    reason = job.failure_reason
    of_sagemaker = _first_match(OF_FAILURE_REASON, reason)
    if of_sagemaker is not None:
        return _said(of_sagemaker, reason)
    of_agent = next((found for text in _texts(reason) if (found := _first_match(OF_LOG, text)) is not None), None)
    if of_agent is not None and of_agent.id not in SYMPTOMS:
        return _said(of_agent, reason)
    lines = sorted(tail, key=lambda one: one.at) if isinstance(tail, (tuple, list)) else []
    for line in lines:
        of_host = _first_match(OF_LOG, line.text.strip())
        if of_host is not None and of_host.id not in SYMPTOMS:
            return _said(of_host, f"{line.host}: {line.text.strip()}")
    if of_agent is not None:
        return _said(of_agent, reason)
    if isinstance(tail, Unknown):
        return Diagnosis(Cause.UNKNOWN, "unread", f"The cause is unknown: the log could not be read ({tail.why}).")
    said = f" SageMaker says: {_cut(reason)}" if reason else ""
    return Diagnosis(Cause.UNKNOWN, "unknown", f"The cause is unknown.{said}")


def _texts(reason: str) -> list[str]:
    """The failure file's text as a whole and its parts: the agent puts the host and the exit before the error itself.

    "AlgorithmError: host algo-1: the script ended with exit code 1: ValueError: x (train.py:3), exit code: 1"
    """
    inner = reason.removeprefix("AlgorithmError:").strip()
    parts = inner.split(": ")
    return [inner, *(": ".join(parts[start:]) for start in range(1, min(len(parts), 6)))]


def _first_match(signatures: Sequence[Signature], text: str) -> Signature | None:
    return next((one for one in signatures if one.pattern.search(text[:LINE_LIMIT])), None)


def _said(signature: Signature, text: str) -> Diagnosis:
    return Diagnosis(signature.cause, signature.id, f"{signature.meaning} ({_cut(text)})")


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 300 else flat[:297] + "..."
