"""A run that may be submitted: is it worth asking SageMaker, or is a quota known to be too small?

A hold costs nothing and charges nothing: no attempt is written and no restart is counted. It is a delay and never a
refusal: the numbers may be out of date, so SageMaker itself is asked after a quarter of an hour at the latest.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.decide.decision import WaitUntil
from holdfast.core.decide.restart import backoff_seconds
from holdfast.core.model import Cause, Hold, Run
from holdfast.core.observation import Observation
from holdfast.core.quotas.preflight import QuotaFacts, preflight, shortage_words

LONGEST_HOLD_SECONDS = 900.0


@dataclass(frozen=True)
class Held:
    decision: WaitUntil
    hold: Hold


def holding(run: Run, observation: Observation) -> Held | None:
    """None where the run fits, where nothing is known of its quotas, and where it was held back for long enough."""
    if not isinstance(observation.quotas, QuotaFacts):
        return None
    now = observation.now
    shortages = preflight(run.manifest, observation.quotas, now)
    if not shortages:
        return None
    since, looks = (now, 0) if run.hold is None else (run.hold.since, run.hold.looks)
    left = since + LONGEST_HOLD_SECONDS - now
    if left <= 0:
        return None
    wait = min(left, backoff_seconds(run.manifest.limits.backoff_seconds, looks + 1, run.uid))
    # What waiting cannot cure is the news; what others will give back comes after it.
    words = [shortage_words(one) for one in sorted(shortages, key=lambda one: one.waiting_helps)]
    said = f"Not submitted yet. {' '.join(words)} Looked at again in {wait:.0f} s."
    return Held(WaitUntil(now + wait, said, Cause.QUOTA), Hold(since, looks + 1, shortages))
