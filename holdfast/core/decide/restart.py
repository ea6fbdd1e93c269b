"""An attempt ended without finishing: does the run go on?

Progress pays for restarts: one is charged to its cause's budget only where no newer sealed checkpoint came of the
attempt. What cannot get better by itself is not tried again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from holdfast.core.decide.decision import GiveUp, WaitUntil
from holdfast.core.manifest import Limits
from holdfast.core.model import Cause, Ledger

NEVER_AGAIN = (Cause.USER_ERROR, Cause.REFUSED)
# Nothing runs and nothing is paid while these last; giving up would abandon a month of training to a busy night.
# A permission is gone because somebody took it, or is not there yet right after a deployment; it comes back by hand.
WAITS_AS_LONG_AS_IT_TAKES = (Cause.CAPACITY, Cause.QUOTA, Cause.PERMISSION)
LONGEST_BACKOFF_SECONDS = 3_600.0


@dataclass(frozen=True)
class Restart:
    """The decision, and the ledger as it stands after it."""

    decision: WaitUntil | GiveUp
    ledger: Ledger


def restart(
    *, cause: Cause, basis: str, ledger: Ledger, sealed_step: int | None, limits: Limits, uid: str, now: float
) -> Restart:
    """`sealed_step`: newest sealed checkpoint of the lineage, None where there is none."""
    if cause in NEVER_AGAIN:
        return Restart(GiveUp(cause, f"{basis} It is not tried again: the same would happen."), ledger)
    progressed = sealed_step is not None and (ledger.best_sealed_step is None or sealed_step > ledger.best_sealed_step)
    if progressed:
        fresh = replace(ledger, restarts=ledger.restarts + 1, charged={}, best_sealed_step=sealed_step)
        return Restart(WaitUntil(now, f"{basis} It goes on from the checkpoint of step {sealed_step}.", cause), fresh)
    spent = ledger.charged.get(cause.value, 0) + 1
    patient = cause in WAITS_AS_LONG_AS_IT_TAKES
    if spent > limits.max_restarts and not patient:
        said = f"{basis} {limits.max_restarts} restarts for this cause brought no newer checkpoint."
        return Restart(GiveUp(cause, said), ledger)
    charged = replace(ledger, restarts=ledger.restarts + 1, charged={**ledger.charged, cause.value: spent})
    wait = backoff_seconds(limits.backoff_seconds, spent, uid)
    start = "the beginning" if sealed_step is None else f"the checkpoint of step {sealed_step}"
    count = (
        f"Try {spent + 1} is" if patient else f"Restart {spent} of {limits.max_restarts} without a newer checkpoint,"
    )
    said = f"{basis} {count} in {wait:.0f} s, from {start}."
    return Restart(WaitUntil(now + wait, said, cause), charged)


def backoff_seconds(first: float, nth: int, uid: str) -> float:
    """Exponential with full jitter. Drawn from the run's uid, so that the same record gives the same wait.

    Full jitter (uniform between zero and the exponential bound) spreads a thousand runs that died in one moment; its
    first wait is kept above a tenth of the bound so that a crash loop cannot spin.
    """
    bound = min(LONGEST_BACKOFF_SECONDS, first * 2.0 ** min(nth - 1, 20))
    draw = int.from_bytes(hashlib.sha256(f"{uid}/{nth}".encode()).digest()[:8], "big") / 2**64
    return bound * (0.1 + 0.9 * draw)
