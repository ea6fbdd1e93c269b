"""Does every host's load stand still?

The second, independent source: measured by SageMaker on the host, not scraped from standard output. While NCCL hangs,
GPUs read about 100 % with almost no variance, or some ranks 0 %; a live job may sit at 0 % too. So no level means
anything by itself: what tells is that nothing changes, on every host, while the step stands still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from holdfast.core.observation import HostSeries

MIN_POINTS = 3
# Percent of one GPU. A training step moves utilisation by tens of points from one sample to the next.
GPU_SPREAD_AT_MOST = 2.0
# Percent of one core. A stopped process uses none; an idle interpreter that polls uses a fraction of a percent.
CPU_LEVEL_AT_MOST = 5.0


class Movement(StrEnum):
    FLAT = "flat"
    MOVING = "moving"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class HostMovement:
    movement: Movement
    basis: str


def horizon_of(series: Sequence[HostSeries], hosts: int) -> float | None:
    """The newest moment that every one of `hosts` has reported up to, or None while one of them is missing."""
    newest: dict[str, float] = {}
    for one in series:
        if one.points:
            newest[one.host] = max(newest.get(one.host, 0.0), one.points[-1][0])
    return min(newest.values()) if len(newest) >= hosts else None


def flat_hosts(series: Sequence[HostSeries], *, hosts: int, since: float) -> HostMovement:
    """Judge the points after `since`. `hosts` is how many the job has: one that does not report gives UNKNOWN."""
    gpu = _of(series, "GPUUtilization")
    cpu = _of(series, "CPUUtilization")
    names = sorted(set(gpu) | set(cpu))
    if len(names) < hosts:
        return HostMovement(Movement.UNKNOWN, f"{len(names)} of {hosts} hosts report metrics")
    words: list[str] = []
    for host in names:
        kind, points = ("GPU", gpu[host]) if host in gpu else ("CPU", cpu[host])
        values = [value for at, value in points if at > since]
        if len(values) < MIN_POINTS:
            return HostMovement(
                Movement.UNKNOWN, f"{host}: {len(values)} of {MIN_POINTS} points since the step stood still"
            )
        low, high = min(values), max(values)
        words.append(f"{host} {kind} {low:.0f} to {high:.0f} %")
        moving = high - low > GPU_SPREAD_AT_MOST if kind == "GPU" else high > CPU_LEVEL_AT_MOST
        if moving:
            return HostMovement(Movement.MOVING, words[-1])
    return HostMovement(Movement.FLAT, "; ".join(words[:8]) + (f"; {len(words) - 8} more" if len(words) > 8 else ""))


def _of(series: Sequence[HostSeries], metric: str) -> dict[str, tuple[tuple[float, float], ...]]:
    return {one.host: one.points for one in series if one.metric == metric and one.points}
