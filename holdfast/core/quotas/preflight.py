"""Before a run is submitted: does it fit into the account's quotas, beside what is in use?

Pure. The answer is a forecast from numbers that may be a day old; SageMaker's own answer to CreateTrainingJob has the
last word, so what is not known, or is old, holds nobody back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType

from holdfast.core.manifest import Manifest
from holdfast.core.model import Phase, QuotaRefusal, QuotaShortage, Run
from holdfast.core.quotas import catalogue
from holdfast.core.quotas.record import Entry, QuotaRecord

# The schedule reads all quotas once a day; two hours later a number is of no day's reading any more.
TRUSTED_SECONDS = 26 * 3_600.0
# SageMaker's own "current utilization" counts other people's jobs too. They come and go, so it holds for a moment only.
UTILIZATION_SECONDS = 300.0
_USERS_NAMED = 4


@dataclass(frozen=True)
class Need:
    """What a run wants of one quota. `shared`: what other jobs hold of it counts."""

    name: str
    amount: float
    shared: bool = True


@dataclass(frozen=True)
class Usage:
    """What our own runs hold of one quota, and which runs these are."""

    amount: float = 0.0
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class QuotaFacts:
    """Everything that a preflight looks at, but for the run itself."""

    entries: Mapping[str, Entry] = field(default_factory=lambda: MappingProxyType({}))
    in_use: Mapping[str, Usage] = field(default_factory=lambda: MappingProxyType({}))
    refusals: Mapping[str, QuotaRefusal] = field(default_factory=lambda: MappingProxyType({}))
    """By quota: the newest of SageMaker's own answers, which are fresher than a reading of the day."""


def needs_of(manifest: Manifest) -> tuple[Need, ...]:
    """In the order in which a person would look: the type first, the account's totals after it."""
    resources = manifest.resources
    of_type = catalogue.spot if resources.spot else catalogue.on_demand
    per_job = catalogue.SPOT_INSTANCES_PER_JOB if resources.spot else catalogue.INSTANCES_PER_JOB
    across = catalogue.SPOT_INSTANCES_ACROSS_ALL_JOBS if resources.spot else catalogue.INSTANCES_ACROSS_ALL_JOBS
    return (
        Need(of_type(resources.instance_type), resources.instance_count),
        Need(per_job, resources.instance_count, shared=False),
        Need(across, resources.instance_count),
        Need(catalogue.LONGEST_RUN, manifest.limits.max_run_seconds, shared=False),
    )


def facts_of(record: QuotaRecord, runs: Iterable[Run], *, besides: str) -> QuotaFacts:
    """`runs`: all active ones. `besides`: id of the run to be submitted, which does not stand in its own way."""
    in_use: dict[str, Usage] = {}
    refusals: dict[str, QuotaRefusal] = {}
    for run in runs:
        said = run.quota_refusal
        if said is not None and (said.name not in refusals or said.at > refusals[said.name].at):
            refusals[said.name] = said
        if run.id == besides or not _holds_instances(run):
            continue
        for need in needs_of(run.manifest):
            if need.shared:
                used = in_use.get(need.name, Usage())
                in_use[need.name] = Usage(used.amount + need.amount, (*used.runs, run.id))
    return QuotaFacts({one.name: one for one in record.entries}, in_use, refusals)


def preflight(manifest: Manifest, facts: QuotaFacts, now: float) -> tuple[QuotaShortage, ...]:
    """The quotas that are known to be short for this run, by how much. Empty where it fits, or where nothing is known.

    A manifest that was changed since the job of a run was created counts with what it says now; a preflight that is
    wrong by that costs a wait, and SageMaker's answer puts it right.
    """
    found = (_shortage(need, facts, now) for need in needs_of(manifest))
    return tuple(one for one in found if one is not None)


def _shortage(need: Need, facts: QuotaFacts, now: float) -> QuotaShortage | None:
    entry, said = facts.entries.get(need.name), facts.refusals.get(need.name)
    limit, as_of = (entry.value, entry.read_at) if entry is not None else (None, None)
    if said is not None and (as_of is None or said.at > as_of):
        limit, as_of = said.limit, said.at
    if limit is None or as_of is None or now - as_of > TRUSTED_SECONDS:
        return None
    used = facts.in_use.get(need.name, Usage()) if need.shared else Usage()
    in_use = used.amount
    if need.shared and said is not None and now - said.at <= UTILIZATION_SECONDS:
        in_use = max(in_use, said.in_use)
    if in_use + need.amount <= limit:
        return None
    return QuotaShortage(
        name=need.name,
        code=entry.code if entry is not None else catalogue.code_of(need.name),
        limit=limit,
        as_of=as_of,
        in_use=in_use,
        users=used.runs[:_USERS_NAMED],
        needed=need.amount,
        asked=entry.awaited.desired if entry is not None and entry.awaited is not None else None,
    )


def shortage_words(one: QuotaShortage) -> str:
    """Which quota, by how much, as of when, and whether waiting can help."""
    quota = f"'{one.name}' ({one.code or 'code unknown'})"
    unit = "seconds" if one.name == catalogue.LONGEST_RUN else "instances"
    at = datetime.fromtimestamp(one.as_of, UTC).isoformat(timespec="minutes")
    said = f"The quota {quota} is {one.limit:.0f} {unit} as of {at}"
    if one.in_use:
        users = f" by {', '.join(one.users)}" if one.users else ""
        said += f", of which {one.in_use:.0f} are in use{users}"
    said += f"; the run needs {one.needed:.0f}, so {one.short_by:.0f} are missing."
    if one.waiting_helps:
        return f"{said} Waiting helps: it fits once others end."
    if one.asked is not None:
        enough = "which is enough" if one.asked >= one.needed else "which is not enough either"
        return f"{said} An increase to {one.asked:.0f} is asked for, {enough}; without it waiting never helps."
    if one.code is None:
        return f"{said} Waiting never helps. Ask for {one.needed:.0f}: in the config's quotas, or in Service Quotas."
    return (
        f"{said} Waiting never helps. Ask for {one.needed:.0f}: in the config's quotas, or by aws service-quotas "
        f"request-service-quota-increase --service-code {catalogue.SERVICE} --quota-code {one.code} "
        f"--desired-value {one.needed:.0f}"
    )


def waits_for(run: Run, names: Iterable[str]) -> bool:
    """Whether the run stands still for want of a quota, and one of these is among what it is measured by."""
    if run.phase is not Phase.WAITING or run.cause is None or run.cause.value != "quota":
        return False
    return not {need.name for need in needs_of(run.manifest)}.isdisjoint(names)


# gabehollombe-aws/jupyter-notebooks#1; the unit of the longest run is not known, so any word will do.
_REFUSAL = re.compile(
    r"service limit '(?P<name>[^']+)' is (?P<limit>[0-9.]+) \w+, with current utilization of (?P<used>[0-9.]+) \w+"
)


def read_refusal(words: str, now: float) -> QuotaRefusal | None:
    """The numbers in SageMaker's ResourceLimitExceeded; None where the text is of another form."""
    found = _REFUSAL.search(words)
    if found is None:
        return None
    return QuotaRefusal(found["name"], float(found["limit"]), float(found["used"]), now)


def _holds_instances(run: Run) -> bool:
    """From the moment when a create may have been sent until the job's end was seen."""
    attempt = run.attempt
    return (
        attempt is not None
        and attempt.ended_at is None
        and (attempt.sent_at is not None or attempt.seen_at is not None)
    )
