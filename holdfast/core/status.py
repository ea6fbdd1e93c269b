"""The status object, `status/<team>/<run>.json`: the whole story of a run for a person or a script."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from holdfast.core.model import Attempt, QuotaShortage, Run


def status_of(run: Run, now: float) -> dict[str, Any]:
    """JSON-ready. Times are ISO 8601 in UTC."""
    attempt = run.attempt
    return {
        "run": run.id,
        "generation": run.manifest.generation,
        "uid": run.uid,
        "phase": run.phase.value,
        "why": run.why,
        "cause": run.cause.value if run.cause else None,
        "due": _when(run.due_at),
        "denied": run.denied or None,
        "quotas_short": [_shortage(one) for one in run.hold.shortages] if run.hold and not run.phase.terminal else [],
        # Of a run that is over, the last look's health would only puzzle.
        "health": None if run.phase.terminal else run.health or None,
        "step": attempt.last_step if attempt else None,
        "sealed_step": attempt.sealed_step if attempt else None,
        "restarts": run.ledger.restarts,
        "charged": run.ledger.charged,
        "attempts": [_attempt(one) for one in run.attempts],
        "manifest": {"accepted": not run.refused, "errors": list(run.refused), "note": run.note or None},
        "updated": _when(now),
    }


def refused_status(team: str, run: str, errors: tuple[str, ...], now: float) -> dict[str, Any]:
    """Status of a manifest that was refused and has no run."""
    return {
        "run": f"{team}/{run}",
        "phase": "refused",
        "why": "The manifest was refused; nothing was started.",
        "manifest": {"accepted": False, "errors": list(errors), "note": None},
        "attempts": [],
        "updated": _when(now),
    }


def untaken_status(team: str, run: str, words: str, now: float) -> dict[str, Any]:
    """Status of a manifest that could not be judged yet and has no run."""
    return {
        "run": f"{team}/{run}",
        "phase": "untaken",
        "why": "The manifest could not be taken yet; nothing was started.",
        "denied": words,
        "manifest": {"accepted": None, "errors": [], "note": None},
        "attempts": [],
        "updated": _when(now),
    }


def _attempt(one: Attempt) -> dict[str, Any]:
    return {
        "number": one.number,
        "job": one.job,
        "outcome": one.outcome.value if one.outcome else None,
        "cause": one.cause.value if one.cause else None,
        "reason": one.reason or None,
        "intended": _when(one.intended_at),
        "started": _when(one.training_at),
        "ended": _when(one.ended_at),
        "resumed_from_step": one.resumed_from_step,
        "last_step": one.last_step,
        "sealed_step": one.sealed_step,
        "hung": _when(one.hung_at),
        "asked": _when(one.asked_at),
        "stopped": _when(one.stopped_at),
    }


def _shortage(one: QuotaShortage) -> dict[str, Any]:
    return {
        "name": one.name,
        "code": one.code,
        "limit": one.limit,
        "as_of": _when(one.as_of),
        "in_use": one.in_use,
        "in_use_by": list(one.users),
        "needed": one.needed,
        "short_by": one.short_by,
        "waiting_helps": one.waiting_helps,
        "increase_asked": one.asked,
    }


def _when(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
