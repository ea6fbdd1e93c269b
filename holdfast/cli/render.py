"""How the commands' results look: for people with rich, for programs as JSON of a stable form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.core.field_errors import FieldError
from holdfast.core.layout import run_id


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
    table = Table(show_lines=False, expand=False)
    for title in ("Line", "Field", "What is wrong", "What would be right"):
        table.add_column(title, overflow="fold", justify="right" if title == "Line" else "left")
    for error in errors:
        # Text, not str: a stranger's value such as "[red]" is no markup.
        cells = (str(error.line or ""), error.field or "(file)", error.wrong, error.right)
        table.add_row(*(Text(cell) for cell in cells))
    console.print(table)


def print_accepted(console: Console, team: str, run: str, notes: Sequence[str]) -> None:
    console.print(Text(f"{run_id(team, run)}: accepted", style="bold green"))
    print_notes(console, notes)


def print_notes(console: Console, notes: Sequence[str]) -> None:
    for note in notes:
        console.print(Text(f"note: {note}", style="yellow"))


def print_request(console: Console, request: dict[str, Any]) -> None:
    console.file.write(yaml.safe_dump(request, sort_keys=False, width=120))
