"""What people are told: one notice a happening, with what, why and what comes next."""

from __future__ import annotations

from holdfast.core.model import Notice, Run

_SUBJECTS = {
    "refused": "manifest refused",
    "restarted": "restarting",
    "waiting": "waiting",
    "gave_up": "gave up",
    "succeeded": "succeeded",
    "stopped": "stopped",
    "hung": "hung",
}


def notice(run: Run, kind: str, words: str, *, key: str) -> Notice | None:
    """None where the manifest does not want this kind. `key` makes the id: the same happening has the same one."""
    if kind not in run.manifest.notify.on:
        return None
    attempt = run.attempt
    lines = [
        words,
        "",
        f"run: {run.id} (generation {run.manifest.generation})",
        f"phase: {run.phase.value}",
        f"job: {attempt.job if attempt else 'none yet'}",
    ]
    if attempt is not None:
        lines.append(
            f"last step: {_or_none(attempt.last_step)}, last sealed checkpoint: {_or_none(attempt.sealed_step)}"
        )
    # SNS: a subject has at most 100 characters of ASCII, and no control characters.
    subject = f"Holdfast: {run.id} {_SUBJECTS[kind]}"[:100]
    return Notice(
        id=f"{run.uid}/{kind}/{key}", team=run.team, kind=kind, subject=subject, body="\n".join(lines)[:8_000]
    )


def _or_none(step: int | None) -> str:
    return "none" if step is None else str(step)
