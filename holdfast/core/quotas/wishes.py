"""The config's section `quotas`, and what it comes to: which quota has to have which value, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from holdfast.core.field_errors import did_you_mean, listed
from holdfast.core.quotas import catalogue

MOST_INSTANCES = 100_000
LONGEST_RUN_SECONDS = 28 * 86_400  # API reference, StoppingCondition: MaxRuntimeInSeconds

# SageMaker runs a profiled job's rules in one Processing job on one instance of this type (assumed: docs/fidelity.md).
PROFILER_TYPE = "ml.m5.2xlarge"
PROFILER_INSTANCES = 1


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


Count = Annotated[int, Field(ge=1, le=MOST_INSTANCES)]


class InstanceQuota(_Strict):
    """One instance type. On-demand, spot and warm pools have a quota each; what is left out is not asked for."""

    instance_type: Annotated[str, StringConstraints(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9]+$")]
    """One of the config's `instance_types`."""
    on_demand: Count | None = None
    """Instances in on-demand training jobs at once."""
    spot: Count | None = None
    """Instances in managed spot training jobs at once."""
    warm_pool: Count | None = None
    """Instances kept in warm pools between jobs."""


class Quotas(_Strict):
    """What the account shall have of Service Quotas. Each deployment, and once a day a schedule, asks AWS for what is
    missing; nothing is ever lowered."""

    instances: tuple[InstanceQuota, ...] = Field(default=(), max_length=60)
    """A list, an entry an instance type."""
    instances_per_job: Count | None = None
    """Instances of one on-demand job, of all types together. Without it: as many as the largest run may have."""
    spot_instances_per_job: Count | None = None
    """The same for a spot job."""
    instances_across_all_jobs: Count | None = None
    """Instances of all on-demand jobs together. Without it: the sum of `on_demand`."""
    spot_instances_across_all_jobs: Count | None = None
    """Instances of all spot jobs together. Without it: the sum of `spot`."""
    longest_run_seconds: Annotated[int, Field(ge=3_600, le=LONGEST_RUN_SECONDS)] | None = None
    """Longest run of one training job; AWS's default is 432,000 (5 days), its most 2,419,200 (28 days)."""
    profiled_jobs: Count | None = None
    """Jobs whose profiler rules run at once. Each needs one ml.m5.2xlarge for Processing."""

    @model_validator(mode="after")
    def _fits_together(self) -> Quotas:
        types = [one.instance_type for one in self.instances]
        twice = sorted({one for one in types if types.count(one) > 1})
        if twice:
            raise ValueError(f"instances: {twice[0]} stands there twice; write one entry with all its counts")
        for field, total, counts in (
            ("instances_across_all_jobs", self.instances_across_all_jobs, [one.on_demand for one in self.instances]),
            (
                "spot_instances_across_all_jobs",
                self.spot_instances_across_all_jobs,
                [one.spot for one in self.instances],
            ),
        ):
            largest = max((count for count in counts if count), default=0)
            if total is not None and total < largest:
                raise ValueError(
                    f"{field} is {total}, and one type alone shall have {largest}: AWS counts both, so at most {total} "
                    f"could run; make it {largest} or more, or leave it out"
                )
        return self


class QuotaNeeds(_Strict):
    """What the functions are told of the config: which quotas are read, and which shall have which value."""

    quotas: Quotas = Quotas()
    instance_types: tuple[str, ...]
    max_instances_per_run: int


@dataclass(frozen=True)
class Wanted:
    """`name` shall be `value` at least (instances or seconds); `why` says what of the config asks for it."""

    name: str
    value: float
    why: str


def wanted_quotas(needs: QuotaNeeds) -> tuple[Wanted, ...]:
    """One entry a quota, by name. A count of one type is of no use below the account-wide quotas, so these follow."""
    largest: dict[str, Wanted] = {}
    for one in _wishes(needs):
        if one.name not in largest or one.value > largest[one.name].value:
            largest[one.name] = one
    return tuple(largest[name] for name in sorted(largest))


def quotas_to_read(needs: QuotaNeeds) -> tuple[str, ...]:
    """Names of all quotas that a run of this deployment is measured by, and of those that are wanted."""
    names = {*catalogue.ACCOUNT_WIDE, *(one.name for one in wanted_quotas(needs))}
    for instance_type in needs.instance_types:
        names |= {catalogue.on_demand(instance_type), catalogue.spot(instance_type)}
    return tuple(sorted(names))


def type_words(instance_type: str, offered: Sequence[str]) -> str:
    """What is wrong with a type that the config does not offer, and what would be right."""
    known = catalogue.known_types()
    if instance_type in known:
        return (
            f"{instance_type} is not in `instance_types`, so no run could use the quota; add it there, or leave it out"
        )
    near = did_you_mean(instance_type, offered) or did_you_mean(instance_type, known)
    right = f"did you mean `{near}`?" if near else f"types in `instance_types`: {listed(offered)}"
    return f"{instance_type} is in neither `instance_types` nor AWS's lists of quotas; {right}"


def profiler_instances(jobs: int) -> int:
    """Processing instances that the profiler rules of so many jobs take while they run side by side."""
    return jobs * PROFILER_INSTANCES


def _wishes(needs: QuotaNeeds) -> Iterator[Wanted]:
    quotas = needs.quotas
    for one in quotas.instances:
        for count, name, field in (
            (one.on_demand, catalogue.on_demand, "on_demand"),
            (one.spot, catalogue.spot, "spot"),
            (one.warm_pool, catalogue.warm_pool, "warm_pool"),
        ):
            if count is not None:
                yield Wanted(name(one.instance_type), count, f"quotas.instances, {field} of {one.instance_type}")
    yield from _account_wide(
        needs,
        counts=[one.on_demand for one in quotas.instances],
        field="on_demand",
        per_job=(quotas.instances_per_job, catalogue.INSTANCES_PER_JOB, "instances_per_job"),
        across=(quotas.instances_across_all_jobs, catalogue.INSTANCES_ACROSS_ALL_JOBS, "instances_across_all_jobs"),
    )
    yield from _account_wide(
        needs,
        counts=[one.spot for one in quotas.instances],
        field="spot",
        per_job=(quotas.spot_instances_per_job, catalogue.SPOT_INSTANCES_PER_JOB, "spot_instances_per_job"),
        across=(
            quotas.spot_instances_across_all_jobs,
            catalogue.SPOT_INSTANCES_ACROSS_ALL_JOBS,
            "spot_instances_across_all_jobs",
        ),
    )
    if quotas.longest_run_seconds is not None:
        yield Wanted(catalogue.LONGEST_RUN, quotas.longest_run_seconds, "quotas.longest_run_seconds")
    if quotas.profiled_jobs is not None:
        count = profiler_instances(quotas.profiled_jobs)
        why = f"quotas.profiled_jobs: {quotas.profiled_jobs} jobs, {PROFILER_INSTANCES} {PROFILER_TYPE} each"
        yield Wanted(catalogue.processing(PROFILER_TYPE), count, why)
        yield Wanted(catalogue.PROCESSING_ACROSS_ALL_JOBS, count, why)


def _account_wide(
    needs: QuotaNeeds,
    *,
    counts: Sequence[int | None],
    field: str,
    per_job: tuple[int | None, str, str],
    across: tuple[int | None, str, str],
) -> Iterator[Wanted]:
    given = [count for count in counts if count is not None]
    stated, name, key = per_job
    if stated is not None:
        yield Wanted(name, stated, f"quotas.{key}")
    elif given:
        # A run has one instance type; more of it than the quota of that type it can never have.
        largest = min(needs.max_instances_per_run, max(given))
        yield Wanted(name, largest, f"the largest run: max_instances_per_run and {field}")
    stated, name, key = across
    if stated is not None:
        yield Wanted(name, stated, f"quotas.{key}")
    elif given:
        yield Wanted(name, sum(given), f"the sum of {field} in quotas.instances")
