"""What an acceptance will start, for how long at the most, and what that costs at the list price at the most."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from holdfast.core.acceptance.pace import Pace

LIST_PRICES_USD_PER_HOUR = {
    "ml.m5.large": 0.115,
    "ml.c5.xlarge": 0.204,
    "ml.m5.xlarge": 0.23,
    "ml.c5.2xlarge": 0.408,
    "ml.m5.2xlarge": 0.461,
}
"""On-demand training in us-east-1. Small CPU types alone, cheapest first."""
PRICED_REGION = "us-east-1"
PRICE_SOURCE = (
    "list prices of us-east-1 as public price tables had them on 2026-12-01; storage and CloudWatch are cents"
)
ENDING_SECONDS = 180
"""Billed beyond MaxRuntimeInSeconds at the most: 120 s from SIGTERM to SIGKILL (API reference, StopTrainingJob), and an
upload of kilobytes (assumed to take less than a minute)."""


class PlanError(ValueError):
    """The acceptance cannot be planned, or would cost too much; says what would be right."""


@dataclass(frozen=True)
class PlannedJobs:
    """`count` jobs of one kind, each of `hosts` instances for at most `longest_seconds`."""

    trial: str
    what: str
    hosts: int
    longest_seconds: int
    count: int = 1

    @property
    def instance_seconds(self) -> int:
        return self.hosts * self.count * (self.longest_seconds + ENDING_SECONDS)


@dataclass(frozen=True)
class Plan:
    instance_type: str
    usd_per_hour: float
    price_source: str
    jobs: tuple[PlannedJobs, ...]

    @property
    def worst_case_usd(self) -> float:
        """Every job runs to its last second, on every instance."""
        return sum(self.usd_of(jobs) for jobs in self.jobs)

    def usd_of(self, jobs: PlannedJobs) -> float:
        return jobs.instance_seconds / 3_600 * self.usd_per_hour


ATTEMPTS_AT_MOST = 4
"""Of the run: the one that is frozen, the one that is stopped, the one that finishes, and one for a mishap."""


def planned_jobs(pace: Pace) -> tuple[PlannedJobs, ...]:
    short = pace.longest_direct_seconds
    return (
        PlannedJobs("run", "a run by a manifest: frozen, ended, restarted, stopped, resumed, finished", 2,
                    pace.longest_attempt_seconds, ATTEMPTS_AT_MOST),
        PlannedJobs("talk", "a job that writes a line a second", 1, short),
        PlannedJobs("linger", "a job that is stopped and does not leave", 1, short),
        PlannedJobs("peers", "a job of which one host fails", 2, short),
        PlannedJobs("muted", "two jobs whose roles may write no logs, and no metrics", 1, short, 2),
        PlannedJobs("pool", "a job that leaves a warm pool, and the pool", 1, short + pace.keep_alive_seconds),
        PlannedJobs("pool", "a job beside that pool, stopped at once", 1, 60),
        PlannedJobs("calls", "requests to be refused; were one accepted, it is stopped at once", 1, 60, 4),
    )  # fmt: skip


def make_plan(
    *,
    allowed_types: Collection[str],
    region: str,
    pace: Pace,
    trials: Collection[str],
    usd_per_hour: float | None,
    cost_cap_usd: float,
) -> Plan:
    """`trials` are those that will be made; `usd_per_hour` replaces the list price. Raises PlanError."""
    instance_type = next((one for one in LIST_PRICES_USD_PER_HOUR if one in allowed_types), None)
    if instance_type is None:
        known = ", ".join(LIST_PRICES_USD_PER_HOUR)
        raise PlanError(f"instance_types: the config allows none of the small CPU types {known}; add one to it")
    source = PRICE_SOURCE
    if usd_per_hour is not None:
        source = "the price that was given"
    elif region != PRICED_REGION:
        raise PlanError(
            f"the price of {instance_type} in {region} is not known here: look it up on SageMaker's price page and "
            "give it, --price-usd-per-hour 0.13"
        )
    price = LIST_PRICES_USD_PER_HOUR[instance_type] if usd_per_hour is None else usd_per_hour
    plan = Plan(instance_type, price, source, tuple(one for one in planned_jobs(pace) if one.trial in trials))
    if plan.worst_case_usd > cost_cap_usd:
        raise PlanError(
            f"at worst this costs ${plan.worst_case_usd:.2f}, above the cap of ${cost_cap_usd:.2f}: allow more "
            f"(--cost-cap-usd {_rounded_up(plan.worst_case_usd):.2f}), or ask less (--only {_cheapest(plan)})"
        )
    return plan


def _rounded_up(usd: float) -> float:
    return int(usd * 10 + 1) / 10


def _cheapest(plan: Plan) -> str:
    def cost(trial: str) -> float:
        return sum(plan.usd_of(one) for one in plan.jobs if one.trial == trial)

    return min(sorted({one.trial for one in plan.jobs}), key=cost)
