"""`holdfast acceptance`: asks a real account what this project assumes of AWS, for two dollars at the most.

Exit codes: 0 every question was put, and each has an answer or the reason why it has none; 1 refused, before anything
was started; 2 the command cannot begin; 3 the deployment failed, or AWS did not let anything begin; 130 Ctrl-C.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from holdfast import __version__
from holdfast.cli import acceptance_view as view
from holdfast.cli.offline import CannotBeginError, account_config, source_tree
from holdfast.core.acceptance.pace import pace_of
from holdfast.core.acceptance.plan import Plan, PlanError, make_plan
from holdfast.core.acceptance.probes import PROBES, Probe, trials_of
from holdfast.core.acceptance.recording import Recording, RecordingError, parse_recording
from holdfast.core.config import AccountConfig

REFUSED, CANNOT_BEGIN, FAILED, INTERRUPTED = 1, 2, 3, 130
FOLDER = Path(".acceptance")


class RefusedError(Exception):
    """In words; exit code 1. Nothing was started."""


@dataclass(frozen=True)
class Asked:
    """The command's options, and what they lead to."""

    account: str
    config: AccountConfig
    team: str
    image: str
    out: Path
    probes: tuple[Probe, ...]
    recording: Recording
    plan: Plan


def acceptance(
    account: Annotated[str, typer.Option(help="The name of config/<name>.yaml, as for make deploy ACCOUNT=.")],
    team: Annotated[str | None, typer.Option(help="Whose role and prefix are used. Default: the first team.")] = None,
    image: Annotated[
        str | None, typer.Option(help="A key of the config's images. Default: the first with `cpu` in its name.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Probes or trials, separated by commas. Default: all.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The recording. Default: .acceptance/<account>-<date>.json. One that is there is gone on with."
        ),
    ] = None,
    cost_cap_usd: Annotated[float, typer.Option(min=0.0, help="Refuse a plan that could cost more.")] = 2.0,
    price_usd_per_hour: Annotated[
        float | None, typer.Option(min=0.0, help="Price of the instance type, where the list price is not known.")
    ] = None,
    skip_deploy: Annotated[bool, typer.Option("--skip-deploy", help="The stacks are deployed already.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; for machines.")] = False,
) -> None:
    """Ask an account what is assumed of AWS: deploys, runs small jobs, freezes, stops, retries, and records.

    Shows what it will start and the most that it can cost, and asks. Exit codes: 0 done, 1 refused, 2 it cannot begin,
    3 nothing could be begun in the account, 130 interrupted.
    """
    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)
    try:
        asked = _asked(account, team, image, only, out, cost_cap_usd, price_usd_per_hour)
        if not asked.probes:
            console.print(f"{asked.out}: every question has its answer; give another --out to ask again")
            return
        from holdfast.cli import acceptance_run  # noqa: PLC0415 - boto3 would double the time of every other command

        clients = acceptance_run.account_of(asked)
        view.print_plan(console, asked.plan, asked.probes, cost_cap_usd)
        _can_be_written(asked.out)
        _consent(yes)
        code = acceptance_run.run(console, asked, clients, skip_deploy=skip_deploy, unattended=yes)
    except (CannotBeginError, RecordingError) as problem:
        code = say_and_return(CANNOT_BEGIN, str(problem))
    except (RefusedError, PlanError) as problem:
        code = say_and_return(REFUSED, f"refused: {problem}")
    if code:
        raise typer.Exit(code)


# ---------------------------------------------------------------------------------------------------------------------
# Before


def _asked(
    account: str,
    team: str | None,
    image: str | None,
    only: str | None,
    out: Path | None,
    cost_cap_usd: float,
    price: float | None,
) -> Asked:
    root = source_tree()
    config = account_config(account, root)
    out = out or FOLDER / f"{account}-{datetime.now(UTC):%Y-%m-%d}.json"
    wanted = _chosen(only)
    before = _recorded(out, config)
    probes = tuple(one for one in wanted if before is None or not before.answered(one.id))
    pace = pace_of(config.kind)
    plan = make_plan(
        allowed_types=config.instance_types,
        region=config.region,
        pace=pace,
        trials={trial.id for trial in trials_of(probes)},
        usd_per_hour=price,
        cost_cap_usd=cost_cap_usd,
    )
    if before is not None and before.instance_type != plan.instance_type:
        raise CannotBeginError(f"{out}: was recorded on {before.instance_type}, not on {plan.instance_type}")
    recording = before or Recording(
        kind=config.kind,
        region=config.region,
        instance_type=plan.instance_type,
        recorded="",
        versions={"holdfast": __version__, "botocore": version("botocore")},
    )
    return Asked(account, config, _team(team, config), _image(image, config), out, probes, recording, plan)


def _chosen(only: str | None) -> tuple[Probe, ...]:
    if only is None:
        return PROBES
    names = {name.strip() for name in only.split(",") if name.strip()}
    known = {probe.id for probe in PROBES} | {probe.trial for probe in PROBES}
    if not names or (strange := names - known):
        said = f"{', '.join(sorted(strange))} is none of them" if names else "it names nothing"
        raise CannotBeginError(f"--only: {said}; there are {', '.join(sorted(known))}")
    return tuple(probe for probe in PROBES if probe.id in names or probe.trial in names)


def _recorded(out: Path, config: AccountConfig) -> Recording | None:
    try:
        found = parse_recording(out.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CannotBeginError(f"{out}: cannot be read ({error.strerror})") from None
    except RecordingError as error:
        raise RecordingError(f"{out}: {error}") from None
    if (found.kind, found.region) != (config.kind, config.region):
        raise CannotBeginError(f"{out}: was recorded in {found.region} ({found.kind}); give another --out")
    return found


def _team(team: str | None, config: AccountConfig) -> str:
    if team is None:
        return next(iter(config.teams))
    if team not in config.teams:
        raise CannotBeginError(f"--team: {team!r} is not in the config, which has {', '.join(sorted(config.teams))}")
    return team


def _image(image: str | None, config: AccountConfig) -> str:
    if not config.images:
        raise CannotBeginError("images: the config lists none; add one that has python3 and boto3, such as pytorch-cpu")
    if image is None:
        return next((one for one in config.images if "cpu" in one), next(iter(config.images)))
    if image not in config.images:
        raise CannotBeginError(f"--image: {image!r} is not in the config, which has {', '.join(sorted(config.images))}")
    return image


def _can_be_written(out: Path) -> None:
    """Found out before money is spent. Leaves nothing."""
    probe = out.with_name(f"{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise CannotBeginError(f"{out}: cannot be written ({error.strerror})") from None


def _consent(yes: bool) -> None:
    if yes:
        return
    if not _is_terminal():
        raise RefusedError("this costs money, and there is no terminal to ask at; with --yes it goes on without asking")
    if not typer.confirm("Go on?", default=False):
        raise RefusedError("not agreed to; nothing was started")


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def say_and_return(code: int, words: str) -> int:
    typer.echo(f"holdfast: {words}", err=True)
    return code
