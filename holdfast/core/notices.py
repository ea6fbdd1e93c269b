"""What people are told: one notice a happening, with what, why and what comes next."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.detect.mass import Doubt
from holdfast.core.model import Notice, Run

# Of many, these are enough to begin with; the status of each says that it is unknown.
RUNS_NAMED = 40

_SUBJECTS = {
    "refused": "manifest refused",
    "restarted": "restarting",
    "waiting": "waiting",
    "gave_up": "gave up",
    "succeeded": "succeeded",
    "stopped": "stopped",
    "hung": "hung",
    "denied": "a call to AWS was denied",
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


def doubt_notice(doubt: Doubt, since: float, teams: Sequence[str]) -> Notice:
    """The one page of a doubt, however many runs and ticks it has."""
    named = doubt.counted[:RUNS_NAMED]
    more = len(doubt.counted) - len(named)
    lines = [
        f"{doubt.basis}.",
        "So many at once are seldom hangs: more likely CloudWatch delivers late, or something that the runs share",
        "stands still, such as a file system. That is no reason to end them.",
        "",
        "Everything else goes on: runs that end are restarted, manifests are taken, agents end what they see hang.",
        "It is over by itself once the runs are seen to move; whatever still looks hung then is ended as ever.",
        "",
        "What to do: look at one of these runs in CloudWatch, its log and its step metric, and at what the runs share.",
        "If a run really hangs, set `state: stopped` in its manifest: that is done at the next tick, and",
        "`state: running` goes on from its newest checkpoint. A bound in the manifest does not override this.",
        "",
        *(f"- {run}" for run in named),
        *([f"- and {more} more"] if more else []),
    ]
    subject = "Holdfast: too many runs look hung at once, so none is ended"
    return Notice(f"watcher/{since:.0f}", "", "watcher", subject, "\n".join(lines)[:8_000], tuple(teams))


def doubt_over_notice(since: float, teams: Sequence[str]) -> Notice:
    body = "No more runs look hung than may. From now on a run that hangs is ended and restarted as before."
    return Notice(f"watcher/{since:.0f}/over", "", "watcher", "Holdfast: hangs are acted on again", body, tuple(teams))


def _or_none(step: int | None) -> str:
    return "none" if step is None else str(step)
