"""Errors for people: the field, what is wrong with it, and what would be right.

pydantic finds the errors; this turns them into plain words, with a did-you-mean for names and a conversion for values
that carry a unit.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from holdfast.core.plain_document import MAX_PROBLEMS, Path, PlainDocument, Problem

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class FieldError:
    """`field` is a path such as `resources.instance_count` or `data[0].s3`; empty for the document as a whole."""

    field: str
    wrong: str
    right: str
    line: int | None = None

    def __str__(self) -> str:
        where = (self.field or "the file") + (f" (line {self.line})" if self.line else "")
        return f"{where}: {self.wrong}; {self.right}"


def read_model(
    model: type[M], document: PlainDocument, elsewhere: Mapping[str, str] | None = None
) -> tuple[M | None, tuple[FieldError, ...]]:
    """The model, or None with every error at once. `elsewhere` explains names that people write for other things."""
    problems = tuple(from_problem(problem) for problem in document.problems)
    if not isinstance(document.value, dict):
        kind = _kind(document.value)
        return None, (*problems, FieldError("", f"is {kind}, not a mapping of fields", "`name: value`, a field a line"))
    blamed = {problem.path for problem in document.problems}
    try:
        # Strict and through JSON: `true` must not pass as 1, nor "2" as 2, while a JSON array may become a tuple.
        found = model.model_validate_json(plain_json(document.value), strict=True)
    except ValidationError as error:
        words = _translate(model, error.errors(include_url=False), document, elsewhere or {}, blamed)
        return None, (*problems, *words)
    return (found if not problems else None), problems


def plain_json(value: Any) -> str:
    """The value as JSON. A bad number is null and half a surrogate pair `?`: the parser has reported them."""
    return json.dumps(_without_surrogates(value), default=lambda _: None)


def from_problem(problem: Problem) -> FieldError:
    return FieldError(field_path(problem.path), problem.wrong, problem.right, problem.line)


def field_path(path: Iterable[str | int]) -> str:
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + _short(part, 80)
    return text


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The known name nearest to the word, ignoring case, hyphens and underscores; None when none is near."""
    plain = {_squeeze(name): name for name in known}
    if _squeeze(word) in plain:
        return plain[_squeeze(word)]
    # Long words are junk, and difflib takes time that grows with the square of their length.
    if len(word) >= 4 and (begun := [name for squeezed, name in plain.items() if squeezed.startswith(_squeeze(word))]):
        return begun[0]
    near = difflib.get_close_matches(_squeeze(word[:80]), list(plain), n=1, cutoff=0.7)
    return plain[near[0]] if near else None


def listed(names: Iterable[str], most: int = 12) -> str:
    all_names = sorted(names)
    more = f" and {len(all_names) - most} more" if len(all_names) > most else ""
    return ", ".join(all_names[:most]) + more if all_names else "none"


def _squeeze(word: str) -> str:
    return re.sub(r"[-_ ]", "", word).lower()


def _short(text: str, most: int = 60) -> str:
    text = text.encode("unicode_escape").decode("ascii") if not text.isprintable() else text
    return text if len(text) <= most else text[: most - 3] + "..."


def shown(value: Any) -> str:
    """A value as it stands in an error, cut to a readable length."""
    if isinstance(value, str):
        return f"'{_short(value)}'"
    if isinstance(value, dict | list):
        return _kind(value)
    return json.dumps(value)


def _without_surrogates(value: Any) -> Any:
    """pydantic's JSON reader refuses the whole text for one lone surrogate, which the parser has reported by itself."""
    if isinstance(value, str):
        return re.sub("[\ud800-\udfff]", "?", value)
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(child) for child in value]
    return value


# ---------------------------------------------------------------------------------------------------------------------
# pydantic's errors, in words


def _translate(
    model: type[BaseModel],
    errors: list[ErrorDetails],
    document: PlainDocument,
    elsewhere: Mapping[str, str],
    blamed: set[Path],
) -> list[FieldError]:
    places = _places(model)
    words: dict[str, FieldError] = {}
    for error in errors:
        path = _real_path(error["loc"], document.value)
        if path in blamed:
            continue
        name = field_path(path)
        if name in words:
            continue  # The branches of a union say the same thing once each.
        if len(words) == MAX_PROBLEMS:
            words[""] = FieldError("", f"has more than {MAX_PROBLEMS} errors", "correct these first")
            break
        wrong, right = _words(model, error, path, places, elsewhere)
        words[name] = FieldError(name, wrong, right, _line(document, path))
    return list(words.values())


def _line(document: PlainDocument, path: Path) -> int | None:
    # A field that is missing has no line: its parent's stands for it, unless that is the whole file.
    return document.lines.get(path) or (document.lines.get(path[:-1]) if len(path) > 1 else None)


def _real_path(loc: tuple[int | str, ...], value: Any) -> Path:
    """pydantic's location without what it adds itself: the branch of a union, `[key]` for a mapping's key."""
    path: list[str | int] = []
    for part in loc:
        if isinstance(value, dict) and isinstance(part, str):
            if part == "[key]":
                break
            path.append(part)
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            path.append(part)
            value = value[part]
        else:
            break
    return tuple(path)


def _words(
    model: type[BaseModel],
    error: ErrorDetails,
    path: Path,
    places: Mapping[str, list[str]],
    elsewhere: Mapping[str, str],
) -> tuple[str, str]:
    kind, value, context = error["type"], error.get("input"), error.get("ctx", {})
    name = str(path[-1]) if path else ""
    if kind == "extra_forbidden":
        return _unknown_field(model, path, places, elsewhere)
    if kind == "missing":
        return "is missing", f"add it{_described(model, path)}"
    if error["loc"] and error["loc"][-1] == "[key]":
        return "is not a name that may stand here", _PATTERNS.get(f"{path[-2]}.*", _right(kind, value, context, error))
    if isinstance(value, str) and (unit := _with_unit(name, value)):
        return f"is {shown(value)}, with a unit", unit
    return _wrong(kind, value), _right(kind, value, context, error)


def _unknown_field(
    model: type[BaseModel], path: Path, places: Mapping[str, list[str]], elsewhere: Mapping[str, str]
) -> tuple[str, str]:
    name = str(path[-1])
    wrong = "is not a field that exists here"
    if _squeeze(name) in elsewhere:
        return wrong, elsewhere[_squeeze(name)]
    siblings = _fields_at(model, path[:-1])
    if near := did_you_mean(name, siblings):
        return wrong, f"did you mean `{near}`?"
    if there := places.get(_squeeze(name)):
        return wrong, f"it belongs at `{there[0]}`"
    return wrong, f"fields here: {listed(siblings, 20)}"


def _wrong(kind: str, value: Any) -> str:
    if kind in ("value_error", "assertion_error"):
        return "does not fit"
    if kind in ("too_long", "too_short"):
        return f"has {len(value) if isinstance(value, list | dict | tuple) else 'a wrong number of'} entries"
    return f"is {shown(value)}"


_TYPES = {
    "int_type": "a whole number, without quotes",
    "int_from_float": "a whole number, without quotes",
    "int_parsing": "a whole number, without quotes",
    "float_type": "a number, without quotes",
    "bool_type": "true or false, without quotes",
    "string_type": "it as a string, in quotes",
    "dict_type": "a mapping, `name: value`",
    "model_type": "a mapping of fields",
    "tuple_type": "a list, each entry on its own line after `- `",
    "list_type": "a list, each entry on its own line after `- `",
}


# What a field's pattern means, for people. `<field>.*` is a pattern of the names below a field.
_PATTERNS = {
    "name": "1 to 48 lower-case letters, digits and hyphens, starting and ending with a letter or digit",
    "template": "the name of a job template, such as tiny_gpt",
    "archive": "an address such as s3://<bucket>/data/<team>/code.tar.gz (.tar.gz or .tgz)",
    "entry_point": "a script inside the tarball, relative, such as train.py: letters, digits and . _ - /",
    "instance_type": "a SageMaker instance type, such as ml.g5.12xlarge",
    "channel": "1 to 64 letters, digits and . _ -, starting with a letter or digit",
    "s3": "an address such as s3://<bucket>/data/<team>/corpus/",
    "local_path": "a folder below /opt/ml/, such as /opt/ml/checkpoints",
    "environment": "1 to 12 lower-case letters and digits, starting with a letter (no hyphen)",
    "account": "the AWS account's 12 digits, in quotes",
    "region": "an AWS Region, such as us-east-1",
    "python": "a Lambda runtime's Python from 3.11 to 3.14, in quotes, or host",
    "teams.*": "a team is 1 to 20 lower-case letters, digits and hyphens, starting with a letter",
}


def pattern_words(field: str) -> str | None:
    """What the pattern of the field of that name means; None for a field whose pattern has no words."""
    return _PATTERNS.get(field)


def _right(kind: str, value: Any, context: Mapping[str, Any], error: ErrorDetails) -> str:
    if kind == "string_type" and isinstance(value, dict | list | type(None)):
        return "write a single value"
    if kind == "int_type" and isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value.strip()):
        return f"write {int(value)} without quotes"
    if kind in _TYPES:
        return f"write {_TYPES[kind]}"
    if kind == "literal_error":
        if len(_literals(context)) == 1:
            return f"write {_literals(context)[0]}"
        near = did_you_mean(value, _literals(context)) if isinstance(value, str) else None
        return f"one of {context['expected']}" + (f"; did you mean {near!r}?" if near else "")
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(str(error["loc"][-1]), f"it must match {context['pattern']}")
    for bound, word in (("ge", "at least"), ("le", "at most"), ("gt", "more than"), ("lt", "less than")):
        if bound in context:
            return f"{word} {context[bound]:,}"
    if kind == "too_long":
        return f"at most {context['max_length']} entries"
    if kind == "too_short":
        return f"at least {context['min_length']} entries"
    if kind in ("value_error", "assertion_error"):
        return str(context.get("error", error["msg"]))
    return error["msg"]


def _literals(context: Mapping[str, Any]) -> list[str]:
    return re.findall(r"'([^']*)'", str(context.get("expected", "")))


def _kind(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "a number" if isinstance(value, int | float) else "text"


# ---------------------------------------------------------------------------------------------------------------------
# Units

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_TIME = r"\s*([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*(s|m|h|d|w)(?:ec(?:ond)?s?|in(?:ute)?s?|(?:ou)?rs?|ays?|eeks?)?\s*"
_GIGABYTES = {"m": 1 / 1024, "g": 1.0, "t": 1024.0}


def _with_unit(name: str, value: str) -> str | None:
    """`write 14400` for "4h" in a field that counts seconds, `write 50` for "50GB" in one that counts gigabytes."""
    text = value.strip().lower()[:60]
    if name.endswith("_seconds"):
        if re.fullmatch(f"({_TIME})+", text):
            total = sum(float(number) * _SECONDS[unit] for number, unit in re.findall(_TIME, text))
            return f"the field counts seconds: write {_ceil(total)}"
        if clock := re.fullmatch(r"([0-9]{1,3}):([0-5]?[0-9])(?::([0-5]?[0-9]))?", text):
            hours, minutes, seconds = int(clock[1]), int(clock[2]), int(clock[3] or 0)
            return f"the field counts seconds: write {hours * 3600 + minutes * 60 + seconds}"
    if name.endswith("_gb") and (found := re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([mgt])i?b?", text)):
        return f"the field counts gigabytes: write {_ceil(float(found[1]) * _GIGABYTES[found[2]])}"
    return None


def _ceil(value: float) -> int:
    return int(-(-value // 1))


# ---------------------------------------------------------------------------------------------------------------------
# The model's own fields


def _child_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if found := _child_model(argument):
            return found
    return None


def _fields_at(model: type[BaseModel], path: Path) -> list[str]:
    here = model
    for part in path:
        if isinstance(part, str) and part in here.model_fields:
            here = _child_model(here.model_fields[part].annotation) or here
    return list(here.model_fields)


def _described(model: type[BaseModel], path: Path) -> str:
    here = model
    for part in path[:-1]:
        if isinstance(part, str) and part in here.model_fields:
            here = _child_model(here.model_fields[part].annotation) or here
    info = here.model_fields.get(str(path[-1])) if path else None
    choices = _literals({"expected": repr(info.annotation)}) if info and "Literal" in repr(info.annotation) else []
    if len(choices) == 1:
        return f", `{path[-1]}: {choices[0]}`"
    return f": {' '.join(info.description.split()).rstrip('.')}" if info and info.description else ""


def _places(model: type[BaseModel], above: str = "") -> dict[str, list[str]]:
    """Squeezed field name to the paths where a field of that name lies: where a misplaced one belongs."""
    places: dict[str, list[str]] = {}
    for name, info in model.model_fields.items():
        path = f"{above}.{name}" if above else name
        places.setdefault(_squeeze(name), []).append(path)
        if child := _child_model(info.annotation):
            for key, below in _places(child, path).items():
                places.setdefault(key, []).extend(below)
    return places
