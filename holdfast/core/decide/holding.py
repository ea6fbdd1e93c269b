"""A run that may be submitted: is it worth asking SageMaker, or is a quota known to be too small?

A hold costs nothing and charges nothing: no attempt is written and no restart is counted. It is a delay and never a
refusal. The numbers may be out of date, so one is believed for a quarter of an hour; then a run that was held for as
long asks SageMaker itself. What that one is told holds for all that wait for the same quota: a thousand waiting runs
must not spend the account's one CreateTrainingJob a second on being refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.decide.decision import WaitUntil
from holdfast.core.decide.restart import backoff_seconds
from holdfast.core.model import Cause, Hold, Run
from holdfast.core.observation import Observation
from holdfast.core.quotas.preflight import QuotaFacts, preflight, shortage_words
from holdfast.core.sweep import may_create

BELIEVED_SECONDS = 900.0


@dataclass(frozen=True)
class Held:
    decision: WaitUntil
    hold: Hold


def holding(run: Run, observation: Observation) -> Held | None:
    """None where the run fits or is not to be submitted now, where nothing is known, and where SageMaker is asked."""
    now = observation.now
    if not isinstance(observation.quotas, QuotaFacts) or not may_create(run, now) or _maybe_sent(run):
        return None
    shortages = preflight(run.manifest, observation.quotas, now)
    if not shortages:
        return None
    since, looks = (now, 0) if run.hold is None else (run.hold.since, run.hold.looks)
    # One shortage that was learned just now is reason enough, however old the others are.
    left = max(since, *(one.as_of for one in shortages)) + BELIEVED_SECONDS - now
    if left <= 0:
        return None
    wait = min(left, backoff_seconds(run.manifest.limits.backoff_seconds, looks + 1, run.uid))
    # What waiting cannot cure is the news; what others will give back comes after it.
    words = [shortage_words(one) for one in sorted(shortages, key=lambda one: one.waiting_helps)]
    said = f"Not submitted yet. {' '.join(words)} Looked at again in {wait:.0f} s."
    return Held(WaitUntil(now + wait, said, Cause.QUOTA), Hold(since, looks + 1, shortages))


def _maybe_sent(run: Run) -> bool:
    """What may have been sent is seen through: holding it back now could leave a living job to itself."""
    attempt = run.attempt
    return attempt is not None and attempt.ended_at is None and attempt.sent_at is not None
