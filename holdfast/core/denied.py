"""Calls of Holdfast's own that AWS denied: told once, kept on the run while it lasts, and never a reason to act."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.core.model import Run, digest_of
from holdfast.core.notices import notice

NAMED_CALLS = 2
LONGEST_CALL = 400
GOES_ON = "Nothing is lost: what was to be done is done as soon as the permission is back."
WHAT_TO_DO = (
    "AWS names the role and the action; the statements that it had stand in stacks/control_plane.py. Somebody changed "
    "the role, or a policy above it; a deployment does not undo a change that was made by hand."
)


def denial_words(said: Sequence[str], goes_on: str = GOES_ON) -> str:
    """For a status, a notice or a log line. `said`: each denied call with AWS's words; `goes_on`: what comes of it."""
    calls = list(dict.fromkeys(said))
    more = f"; and {len(calls) - NAMED_CALLS} more" if len(calls) > NAMED_CALLS else ""
    # Cut here and not by the record's own bound, which would make the same words look like others at the next look.
    named = "; ".join(one[:LONGEST_CALL] for one in calls[:NAMED_CALLS])
    return f"AWS denied Holdfast a call: {named}{more}. {goes_on} {WHAT_TO_DO}"


def with_denials(run: Run, said: Sequence[str], *, whole: bool) -> Run:
    """The run as it stands after a look. `said`: what was denied at it.

    `whole`: the look made all the calls that there are to make, so what it does not say is allowed again. Other looks
    make some of them; what was denied before stands until a whole one.
    """
    if not said:
        return replace(run, denied="", status_due=True) if whole and run.denied else run
    words = denial_words(said)
    if words == run.denied or (run.denied and not whole):
        return run
    # The same words are the same happening: a call that is made every ten minutes is told once in a week.
    told = notice(run, "denied", words, key=digest_of(words)[:16])
    new = replace(run, denied=words, status_due=True)
    return new if told is None else replace(new, notices=(*run.notices, told))
