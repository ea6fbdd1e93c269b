"""How a plan and its findings look to a person."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.core.acceptance.finding import Verdict
from holdfast.core.acceptance.plan import ENDING_SECONDS, Plan
from holdfast.core.acceptance.probes import Probe, trials_of
from holdfast.core.acceptance.recording import Recording

_STYLE = {Verdict.AS_ASSUMED: "green", Verdict.DIFFERENT: "yellow", Verdict.UNKNOWN: "dim"}


def print_plan(console: Console, plan: Plan, probes: Sequence[Probe], cost_cap_usd: float) -> None:
    console.print(f"{len(probes)} questions to this account, by {len(trials_of(probes))} trials:")
    for trial in trials_of(probes):
        console.print(f"  {trial.id:<8} {trial.what}", markup=False)
    table = Table(title=f"Jobs, on {plan.instance_type} at ${plan.usd_per_hour:.3f} an hour")
    table.add_column("trial")
    table.add_column("what")
    for title in ("jobs", "instances each", "longest, s", "at worst, $"):
        table.add_column(title, justify="right")
    for one in plan.jobs:
        table.add_row(
            one.trial, one.what, str(one.count), str(one.hosts), str(one.longest_seconds), f"{plan.usd_of(one):.3f}"
        )
    console.print(table)
    console.print(
        f"At worst ${plan.worst_case_usd:.2f}, below the cap of ${cost_cap_usd:.2f}: every job running to its "
        f"MaxRuntimeInSeconds and {ENDING_SECONDS} s beyond. Price: {plan.price_source}.",
        markup=False,
    )
    console.print("Other calls of DescribeTrainingJob in this account may be throttled for a second or two.")


def print_findings(console: Console, recording: Recording, probes: Sequence[Probe]) -> None:
    for probe in probes:
        found = recording.findings.get(probe.id)
        if found is None:
            console.print(Text(f"  not asked   {probe.id}", style="dim"))
            continue
        word = found.verdict.value.replace("_", " ")
        console.print(Text(f"  {word:<11} {probe.id}: {found.basis}", style=_STYLE[found.verdict]))
