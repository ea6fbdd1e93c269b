"""What the run tells that was dropped by a manifest: whether Holdfast itself does there what it does here."""

from __future__ import annotations

from itertools import pairwise

from holdfast.core.acceptance.finding import Finding, judged, unknown
from holdfast.core.acceptance.seen import RunSeen

STEPS = ("registered", "training", "frozen", "hung", "ended", "restarted", "stopped", "resumed", "succeeded")
"""What has to happen to the run, in this order."""


def product(seen: RunSeen) -> Finding:
    """No assumption but the whole: hang, request to end, restart, stop, resume, success."""
    missing = [step for step in STEPS if step not in seen.marks]
    seconds = {
        f"{first}_to_{second}_seconds": round(seen.marks[second] - seen.marks[first], 1)
        for first, second in pairwise(STEPS)
        if first in seen.marks and second in seen.marks
    }
    if missing:
        return judged(
            False, f"the run never was {missing[0]}; it is {seen.phase}: {seen.why}", missing=missing, **seconds
        )
    first = seen.attempts[0]
    ended = f"{first.get('outcome')}, cause {first.get('cause')}"
    by_agent = first.get("stopped") is None
    resumed = [one.get("resumed_from_step") for one in seen.attempts[1:]]
    holds = first.get("cause") == "hang" and all(isinstance(one, int) for one in resumed)
    return judged(
        holds,
        f"{len(seen.attempts)} attempts; the frozen one: {ended}, "
        + ("ended by its agent" if by_agent else "ended by StopTrainingJob")
        + f"; resumed from steps {', '.join(map(str, resumed))}",
        ended_by_agent=by_agent,
        **seconds,
    )


def frozen_host_metrics(seen: RunSeen) -> Finding:
    """Assumed: host metrics of a host on which nothing moves go on."""
    if seen.frozen_at is None or seen.frozen_until is None:
        return unknown("the run did not freeze, or its end was not seen")
    if len(seen.host_values) < seen.hosts or not all(seen.host_values.values()):
        return unknown(f"metrics of {len(seen.host_values)} of {seen.hosts} hosts came at all")
    periods = [after - before for points in seen.host_values.values() for (before, _), (after, _) in pairwise(points)]
    period = min(periods, default=60.0)
    frozen = seen.frozen_until - seen.frozen_at
    if frozen < 2 * period:
        return unknown(f"the hosts were frozen for {frozen:.0f} s, too short for values every {period:.0f} s")
    counts = {
        host: sum(1 for at, _ in points if seen.frozen_at < at < seen.frozen_until)
        for host, points in seen.host_values.items()
    }
    expected = int(frozen / period) - 1
    return judged(
        min(counts.values()) >= max(1, expected // 2),
        f"frozen for {frozen:.0f} s: "
        + ", ".join(f"{count} values of {host}" for host, count in sorted(counts.items()))
        + f", one every {period:.0f} s before and after",
        host_metric_seconds=round(period, 1),
        values_while_frozen=[float(count) for count in counts.values()],
    )
