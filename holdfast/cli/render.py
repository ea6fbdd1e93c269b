"""How the commands' results look: for people with rich, for programs as JSON of a stable form."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.core.field_errors import FieldError
from holdfast.core.layout import run_id

# Characters. Names of a manifest's own fields fit; an unknown field's name may be any text, and is cut into lines.
FIELD_WIDTH = 20
FIELD_WIDTH_AT_MOST = 30


def verdict_document(team: str, run: str, errors: Sequence[FieldError], notes: Sequence[str]) -> dict[str, Any]:
    """`{"run", "accepted", "errors": [{"field", "wrong", "right", "line"}], "notes": [...]}`, always with every key."""
    return {
        "run": run_id(team, run),
        "accepted": not errors,
        "errors": [asdict(error) for error in errors],
        "notes": list(notes),
    }


def print_json(console: Console, document: dict[str, Any]) -> None:
    # Not through rich: a terminal's width must not wrap what a program reads.
    console.file.write(json.dumps(document, indent=2) + "\n")


def print_refused(console: Console, team: str, run: str, errors: Sequence[FieldError]) -> None:
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    console.print(Text(f"{run_id(team, run)}: refused, {count}", style="bold red"))
    fields = [_folded(error.field or "(file)") for error in errors]
    widest = max((len(piece) for field in fields for piece in field.split("\n")), default=0)
    table = Table(show_lines=False, expand=False)
    table.add_column("Line", justify="right")
    # As wide as its longest piece, so that the table gives way in its sentences and not in a name.
    table.add_column("Field", overflow="fold", width=min(widest, FIELD_WIDTH_AT_MOST))
    for title in ("What is wrong", "What would be right"):
        table.add_column(title, overflow="fold")
    for error, field in zip(errors, fields, strict=True):
        # Text, not str: a stranger's value such as "[red]" is no markup.
        cells = (str(error.line or ""), field, error.wrong, error.right)
        table.add_row(*(Text(cell) for cell in cells))
    console.print(table)


def _folded(field: str) -> str:
    """A long path on several lines, each but the last ending in its dot: `resources.` over `instance_count`."""
    lines = [""]
    for piece in re.findall(r"[^.]*\.|[^.]+", field):
        if lines[-1] and len(lines[-1]) + len(piece) > FIELD_WIDTH:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def print_accepted(console: Console, team: str, run: str, notes: Sequence[str]) -> None:
    console.print(Text(f"{run_id(team, run)}: accepted", style="bold green"))
    print_notes(console, notes)


def print_notes(console: Console, notes: Sequence[str]) -> None:
    for note in notes:
        console.print(Text(f"note: {note}", style="yellow"))


def print_request(console: Console, request: dict[str, Any]) -> None:
    console.file.write(yaml.safe_dump(request, sort_keys=False, width=120))
