"""What a page of the documentation shows to be copied: its files, its other blocks, and its commands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OWN_CODE = ROOT / "docs" / "your-own-code.md"

_FENCE = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"`([^`]+)`:\s*\Z")


@dataclass(frozen=True)
class Block:
    """A fenced block. `file` is the name in the line above it, where that reads "`name`:"."""

    language: str
    text: str
    file: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        named = _NAMED.search(text[: fence.start()])
        found.append(Block(fence[1], fence[2], named[1] if named else None))
    return found


def files(page: Path) -> dict[str, str]:
    return {block.file: block.text for block in blocks(page) if block.file is not None}


def commands(page: Path) -> list[str]:
    """The lines of indented blocks, of fenced ones for a shell, and of a YAML file's indented comments."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".md":
        return re.findall(r"^# {3}(\S.*)$", text, re.MULTILINE)
    fenced = [line for block in blocks(page) if block.language in ("sh", "bash") for line in block.text.splitlines()]
    indented = re.findall(r"^ {4}(\S.*)$", _FENCE.sub("", text), re.MULTILINE)
    return [*indented, *(line for line in fenced if line)]


def write_files(folder: Path, page: Path) -> None:
    for name, text in files(page).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
