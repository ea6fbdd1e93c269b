"""`holdfast`: what a person can ask without AWS.

Exit codes: 0 the manifest is accepted; 1 it is refused, with every error; 2 the command cannot begin (wrong usage, a
file that cannot be read, a config that is wrong).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from holdfast import __version__
from holdfast.cli import render
from holdfast.cli.acceptance import acceptance
from holdfast.cli.offline import CannotBeginError, Reading, archive_sha256, read, source_tree
from holdfast.core.layout import source_prefix
from holdfast.core.manifest import Manifest
from holdfast.core.manifest_checks import advise
from holdfast.core.model import spec_hash
from holdfast.core.request import build_request, pin
from holdfast.core.schema import generated_files

REFUSED = 1
CANNOT_BEGIN = 2
# The uid is minted when a run is registered; nothing offline can know it.
UNREGISTERED = "minted-at-registration"

app = typer.Typer(
    name="holdfast",
    help="Keeps training alive on SageMaker. Exit codes: 0 accepted, 1 refused, 2 the command cannot begin.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ManifestFile = Annotated[Path, typer.Argument(metavar="MANIFEST", help="A manifest file, YAML or JSON.")]
Config = Annotated[
    Path | None, typer.Option(help="The account's config, config/<account>.yaml. Default: config/sandbox.yaml.")
]
Team = Annotated[str | None, typer.Option(help="The team. Default: the name of the manifest's folder.")]
Run = Annotated[str | None, typer.Option(help="The run's name. Default: the name of the file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON of a stable form.")]


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def holdfast(
    _version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keeps training alive on SageMaker. Exit codes: 0 accepted, 1 refused, 2 the command cannot begin."""


@app.command()
def validate(
    manifest: ManifestFile, config: Config = None, team: Team = None, run: Run = None, as_json: Json = False
) -> None:
    """Check a manifest as the deployment would, and report every error at once.

    With --json: {"run", "accepted", "errors": [{"field", "wrong", "right", "line"}], "notes"}.
    """
    reading = _read(manifest, config, team, run)
    accepted = _accepted_or_exit(reading, as_json)
    notes = advise(accepted, reading.bundle.deployment)
    if as_json:
        render.print_json(Console(), render.verdict_document(reading.team, reading.run, (), notes))
    else:
        render.print_accepted(Console(), reading.team, reading.run, notes)


@app.command()
def request(
    manifest: ManifestFile,
    config: Config = None,
    team: Team = None,
    run: Run = None,
    attempt: Annotated[int, typer.Option(min=1, help="The attempt's number.")] = 1,
    uid: Annotated[
        str, typer.Option(help="The run's uid, from its status object; minted at registration.")
    ] = UNREGISTERED,
    source_archive: Annotated[
        Path | None, typer.Option(help="The tarball that source.archive names, on this machine, for its digest.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the CreateTrainingJob request that would be sent for a manifest: as YAML, or with --json as JSON.

    A refused manifest prints what `holdfast validate` prints.
    """
    reading = _read(manifest, config, team, run)
    accepted = _accepted_or_exit(reading, as_json)
    digest = _source_digest(accepted, source_archive, reading.team)
    deployment = reading.bundle.deployment
    document = build_request(
        deployment=deployment,
        team=reading.team,
        run=reading.run,
        uid=uid,
        manifest=accepted,
        pins=pin(accepted, deployment, bundle=reading.bundle.digest, team=reading.team, source_sha256=digest),
        attempt_number=attempt,
        spec_hash=spec_hash(accepted),
    )
    render.print_notes(Console(stderr=True), advise(accepted, reading.bundle.deployment))
    if as_json:
        render.print_json(Console(), document)
    else:
        render.print_request(Console(), document)


app.command()(acceptance)


@app.command()
def schema() -> None:
    """Write what is generated from the models into the source tree: the manifest's JSON Schema, two reference pages."""
    for path, text in generated_files().items():
        (source_tree() / path).write_text(text, encoding="utf-8")
        typer.echo(path)


def _read(manifest: Path, config: Path | None, team: str | None, run: str | None) -> Reading:
    try:
        return read(manifest, config=config, team=team, run=run, root=source_tree())
    except CannotBeginError as problem:
        raise _cannot_begin(str(problem)) from None


def _accepted_or_exit(reading: Reading, as_json: bool) -> Manifest:
    if reading.manifest is not None:
        return reading.manifest
    if as_json:
        render.print_json(Console(), render.verdict_document(reading.team, reading.run, reading.errors, ()))
    else:
        render.print_refused(Console(), reading.team, reading.run, reading.errors)
    raise typer.Exit(REFUSED)


def _source_digest(manifest: Manifest, archive: Path | None, team: str) -> str | None:
    if manifest.source is None:
        if archive is not None:
            raise _cannot_begin("--source-archive: the manifest has no source; it runs the template's own code")
        return None
    if archive is None:
        copied = source_prefix(team, "sha256-<digest>")
        raise _cannot_begin(
            f"the request names the copy of the team's code, {copied}, by its digest: give --source-archive, a local "
            f"copy of {manifest.source.archive}"
        )
    try:
        return archive_sha256(archive, manifest.source.entry_point)
    except CannotBeginError as problem:
        raise _cannot_begin(str(problem)) from None


def _cannot_begin(words: str) -> typer.Exit:
    typer.echo(f"holdfast: {words}", err=True)
    return typer.Exit(CANNOT_BEGIN)
