"""YAML or JSON text from a stranger, read into plain values: dicts, lists, strings, numbers, true, false, null.

The YAML is read by JSON's rules, whatever YAML 1.1 says: `no` and `on` are strings, and so are `12:30:00`, `012` and
`2026-01-31`; only `true`, `false`, `null` and JSON's numbers are more than text. Anchors, aliases and tags are
refused outright, so nothing expands. Time and memory are bounded by the size of the text (`MAX_BYTES`) and the number
of values in it (`MAX_VALUES`); nesting is bounded by `MAX_DEPTH` before anything recursive sees the document.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

MAX_BYTES = 256 * 1024
MAX_VALUES = 20_000
MAX_DEPTH = 20
# A problem that repeats ten thousand times helps nobody and would not fit the status object.
MAX_PROBLEMS = 100

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """One thing wrong with the text. `path` is where in the document, () for the whole."""

    path: Path
    wrong: str
    right: str
    line: int | None = None


class DocumentError(ValueError):
    """The text could not be read at all."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.wrong}: {problem.right}")
        self.problem = problem


class _NotYamlError(DocumentError):
    """The text breaks YAML's grammar."""


@dataclass(frozen=True)
class PlainDocument:
    """`problems` are faults beside which the rest could still be read, so that the rest is reported at once with them.

    `lines` gives the line, from 1, where a path's value begins; empty for JSON.
    """

    value: Any
    problems: tuple[Problem, ...] = ()
    lines: dict[Path, int] = field(default_factory=dict)


def parse_document(text: bytes) -> PlainDocument:
    """Raises DocumentError, in words, for a text that is too long, not UTF-8, neither YAML nor JSON, or too deep."""
    if len(text) > MAX_BYTES:
        raise _unreadable(
            f"the file is longer than {MAX_BYTES:,} bytes (256 KiB)",
            "put data and code below data/<team>/ and name their address",
        )
    decoded = _decode(text)
    if not decoded.strip():
        raise _unreadable("the file is empty", "a mapping of fields, such as `apiVersion: holdfast/v1`")
    if decoded.lstrip()[0] != "{":
        return _parse_yaml(decoded)
    try:
        return _parse_json(decoded)
    except json.JSONDecodeError as error:
        # `{a: 1}` is YAML and not JSON. Where it is neither, the first brace says that JSON was meant.
        try:
            return _parse_yaml(decoded)
        except _NotYamlError:
            raise _unreadable(
                f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
                "correct the text there; everything up to that place could be read",
                error.lineno,
            ) from None


def _decode(text: bytes) -> str:
    try:
        # utf-8-sig: some editors begin the file with a byte order mark, which is not part of the document.
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise _unreadable(
            f"not UTF-8: byte 0x{text[error.start]:02x} at line {line}", "save the file as UTF-8", line
        ) from None


def _unreadable(wrong: str, right: str, line: int | None = None) -> DocumentError:
    return DocumentError(Problem((), wrong, right, line))


# ---------------------------------------------------------------------------------------------------------------------
# JSON


def _parse_json(text: str) -> PlainDocument:
    repeated: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated.extend(name for name, times in Counter(name for name, _ in items).items() if times > 1)
        return dict(items)

    def constant(word: str) -> Any:
        raise _unreadable(f"{word} is not a number", "a finite number; JSON knows no NaN and no Infinity")

    try:
        value = json.loads(
            text, object_pairs_hook=pairs, parse_constant=constant, parse_int=_number, parse_float=_number
        )
    except RecursionError:
        raise _too_deep() from None
    # The parser does not say in which object a name is repeated.
    problems = [Problem((), f"has the name {name[:80]!a} twice in one object", "give it once") for name in repeated]
    problems.extend(_check_values(value))
    return PlainDocument(value, tuple(problems[:MAX_PROBLEMS]))


def _check_values(value: Any) -> Iterator[Problem]:
    """Depth, number and characters of the values, without recursion."""
    waiting: list[tuple[Path, Any]] = [((), value)]
    seen = 0
    while waiting:
        path, here = waiting.pop()
        seen += 1
        if seen > MAX_VALUES:
            raise _too_many()
        if len(path) > MAX_DEPTH:
            raise _too_deep()
        if isinstance(here, dict):
            for name, child in here.items():
                yield from _check_text((*path, name), name, None)
                waiting.append(((*path, name), child))
        elif isinstance(here, list):
            waiting.extend(((*path, index), child) for index, child in enumerate(here))
        elif isinstance(here, str):
            yield from _check_text(path, here, None)
        elif isinstance(here, _BadNumber):
            yield here.problem(path, None)


def _check_text(path: Path, text: str, line: int | None) -> Iterator[Problem]:
    # Half a surrogate pair cannot be encoded, so it could be neither stored nor sent; NUL ends a C string, and both
    # environment and arguments are C strings.
    if re.search("[\ud800-\udfff\x00]", text):
        yield Problem(path, "has a character that is not text (NUL or half a surrogate pair)", "remove it", line)


# ---------------------------------------------------------------------------------------------------------------------
# Numbers, by JSON's grammar plus the forms `.5` and `1.`, which read one way only.

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True)
class _BadNumber:
    """Stands in the document for a number that is none, until the walk reports it."""

    text: str

    def problem(self, path: Path, line: int | None) -> Problem:
        wrong = f"{self.text[:40]} is not a finite number of at most 40 characters"
        return Problem(path, wrong, "a finite number, or quotes for text", line)


def _number(text: str) -> Any:
    # 40 characters hold any float64 and any count; Python itself refuses to convert more than 4,300 digits.
    if len(text) > 40:
        return _BadNumber(text)
    if _INTEGER.fullmatch(text):
        return int(text)
    value = float(text)
    return value if math.isfinite(value) else _BadNumber(text)


def _plain_scalar(text: str) -> Any:
    """The value of an unquoted YAML scalar."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE"):
        return True
    if text in ("false", "False", "FALSE"):
        return False
    if _NOT_FINITE.fullmatch(text):
        return _BadNumber(text)
    return _number(text) if _FLOAT.fullmatch(text) else text


# ---------------------------------------------------------------------------------------------------------------------
# YAML


def _parse_yaml(text: str) -> PlainDocument:
    try:
        # The event stream of the pure Python parser is produced without recursion, unlike yaml.load's nodes; and the
        # same parser everywhere means the same answer on a laptop and in Lambda.
        return _YamlReader().read(yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        context = f" ({error.context})" if error.context else ""
        wrong = f"not YAML: {error.problem or 'unreadable'}{where}{context}"
        line = mark.line + 1 if mark else None
        raise _NotYamlError(Problem((), wrong, "check indentation, colons and quotes there", line)) from None
    except yaml.YAMLError as error:
        # ReaderError: a control character.
        said = str(error).splitlines()[0] if str(error) else "unreadable"
        raise _unreadable(f"not YAML: {said}", "remove the character, or write it as an escape inside quotes") from None
    except (ValueError, OverflowError) as error:
        # PyYAML's scanner lets some of these out, such as for "\UFFFFFFFF" or %YAML with a very long number.
        if isinstance(error, DocumentError):
            raise
        raise _unreadable(f"not YAML: {str(error)[:200]}", "correct the text") from None


_Node = AliasEvent | ScalarEvent | MappingStartEvent | SequenceStartEvent


@dataclass
class _Open:
    """A mapping or sequence whose end has not come yet."""

    value: dict[str, Any] | list[Any]
    path: Path
    key: str | None = None


class _YamlReader:
    """Builds plain values from YAML events, collecting what can be reported beside the rest."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._lines: dict[Path, int] = {}
        self._open: list[_Open] = []
        self._root: Any = None
        self._values = 0
        self._documents = 0

    def read(self, events: Iterator[Event]) -> PlainDocument:
        for event in events:
            self._take(event)
        return PlainDocument(self._root, tuple(self._problems), self._lines)

    def _take(self, event: Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise _unreadable(f"a second document begins at line {line}", "one document; remove `---`", line)
        elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
            self._open.pop()
        elif isinstance(event, (AliasEvent, ScalarEvent, MappingStartEvent, SequenceStartEvent)):
            self._node(event, line)

    def _node(self, event: _Node, line: int) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _too_many()
        holder = self._open[-1] if self._open else None
        if holder and isinstance(holder.value, dict) and holder.key is None:
            self._key(holder, event, line)
            return
        path = self._next_path(holder)
        self._lines[path] = line
        self._refuse_extras(event, path, line)
        value, opened = self._value(event, path, line)
        if holder is None:
            self._root = value
        elif isinstance(holder.value, list):
            holder.value.append(value)
        else:
            holder.value[str(holder.key)] = value
            holder.key = None
        if opened:
            if len(self._open) >= MAX_DEPTH:
                raise _too_deep(line)
            self._open.append(_Open(value, path))

    def _key(self, holder: _Open, event: _Node, line: int) -> None:
        if not isinstance(event, ScalarEvent):
            raise _unreadable(f"a key that is no plain name at line {line}", "a name, as in `name: value`", line)
        key = str(event.value)
        path = (*holder.path, key)
        self._refuse_extras(event, path, line)
        for problem in _check_text(path, key, line):
            self._report(problem)
        if key in holder.value:
            first = self._lines.get(path)
            self._report(Problem(path, f"is given twice, at line {first} and line {line}", "give it once", line))
        holder.key = key

    def _next_path(self, holder: _Open | None) -> Path:
        if holder is None:
            return ()
        if isinstance(holder.value, list):
            return (*holder.path, len(holder.value))
        return (*holder.path, str(holder.key))

    def _value(self, event: _Node, path: Path, line: int) -> tuple[Any, bool]:
        if isinstance(event, MappingStartEvent):
            return {}, True
        if isinstance(event, SequenceStartEvent):
            return [], True
        if isinstance(event, AliasEvent):
            return None, False
        value = event.value if event.style else _plain_scalar(event.value)
        if isinstance(value, _BadNumber):
            self._report(value.problem(path, line))
            return None, False
        if isinstance(value, str):
            for problem in _check_text(path, value, line):
                self._report(problem)
        return value, False

    def _refuse_extras(self, event: _Node, path: Path, line: int) -> None:
        if isinstance(event, AliasEvent):
            self._report(Problem(path, f"refers to another value with *{event.anchor}", "write the value out", line))
        elif event.anchor is not None:
            self._report(Problem(path, f"has an anchor, &{event.anchor}", "remove it; values are written out", line))
        if not isinstance(event, AliasEvent) and event.tag is not None:
            self._report(Problem(path, f"has a tag, {event.tag[:60]!a}", "remove it; only plain values are read", line))

    def _report(self, problem: Problem) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(problem)


def _too_deep(line: int | None = None) -> DocumentError:
    at = f" at line {line}" if line else ""
    return _unreadable(f"nested more than {MAX_DEPTH} levels deep{at}", "a manifest needs four levels", line)


def _too_many() -> DocumentError:
    return _unreadable(f"more than {MAX_VALUES:,} values", f"at most {MAX_VALUES:,} values")
