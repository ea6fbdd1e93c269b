"""Checks a request or a response against botocore's service model, in the words of AWS's own validation.

botocore's ParamValidator checks types, required members and lengths on the client's side; it checks neither patterns
nor enums nor the maximum of a length. The service does, and answers with one ValidationException that lists every
violation: "2 validation errors detected: Value 'x' at 'trainingJobName' failed to satisfy constraint: Member must ...".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape


class WrongTypeError(Exception):
    """A value cannot be read as the type that the model has there; AWS answers SerializationException."""


@dataclass(frozen=True)
class Violation:
    value: Any
    path: str
    constraint: str

    def __str__(self) -> str:
        value = "null" if self.value is None else f"'{_java(self.value)}'"
        return f"Value {value} at '{self.path}' failed to satisfy constraint: {self.constraint}"


def violations(shape: Shape, value: Any) -> list[Violation]:
    """Every constraint that `value` (parsed JSON) breaks. Raises WrongTypeError at the first value of a wrong type."""
    return list(_walk(shape, value, ""))


def unknown_members(shape: Shape, value: Any) -> list[str]:
    """Paths of the members that the model does not have. AWS ignores some of these; the sandbox refuses all."""
    return list(_unknown(shape, value, ""))


def message(found: list[Violation]) -> str:
    """AWS's text for one or more violations."""
    errors = "error" if len(found) == 1 else "errors"
    return f"{len(found)} validation {errors} detected: " + "; ".join(map(str, found))


def _walk(shape: Shape, value: Any, path: str) -> Iterator[Violation]:
    _check_type(shape, value, path)
    yield from _own_constraints(shape, value, path)
    if isinstance(shape, StructureShape):
        for name in shape.required_members:
            if value.get(name) is None:
                yield Violation(None, _member(path, name), "Member must not be null")
        for name, inner in shape.members.items():
            if value.get(name) is not None:
                yield from _walk(inner, value[name], _member(path, name))
    elif isinstance(shape, ListShape):
        for number, item in enumerate(value, start=1):
            yield from _walk(shape.member, item, f"{path}.{number}.member")
    elif isinstance(shape, MapShape):
        yield from _map_constraints(shape, value, path)


def _map_constraints(shape: MapShape, value: dict[str, Any], path: str) -> Iterator[Violation]:
    for kind, part, items in (("keys", shape.key, value.keys()), ("value", shape.value, value.values())):
        for item in items:
            broken = [found.constraint for found in _walk(part, item, path)]
            if broken:
                word = "Map keys" if kind == "keys" else "Map value"
                yield Violation(value, path, f"{word} must satisfy constraint: [{', '.join(broken)}]")
                break


_TYPES: dict[str, tuple[type, ...]] = {
    "structure": (dict,),
    "map": (dict,),
    "list": (list,),
    "string": (str,),
    "integer": (int,),
    "long": (int,),
    "boolean": (bool,),
    "float": (int, float),
    "double": (int, float),
    "timestamp": (int, float),
}


def _check_type(shape: Shape, value: Any, path: str) -> None:
    allowed = _TYPES.get(shape.type_name, (object,))
    is_boolean = isinstance(value, bool)
    if not isinstance(value, allowed) or (is_boolean and shape.type_name != "boolean"):
        raise WrongTypeError(f"{type(value).__name__} value at '{path}' can not be converted to a {shape.type_name}")


def _own_constraints(shape: Shape, value: Any, path: str) -> Iterator[Violation]:
    limits = shape.metadata
    if shape.type_name in ("integer", "long", "float", "double"):
        low, high = "have value greater than or equal to", "have value less than or equal to"
        size = value
    else:
        low, high = "have length greater than or equal to", "have length less than or equal to"
        size = len(value) if isinstance(value, (str, list, dict)) else None
    if size is not None and "max" in limits and size > limits["max"]:
        yield Violation(value, path, f"Member must {high} {limits['max']}")
    if size is not None and "min" in limits and size < limits["min"]:
        yield Violation(value, path, f"Member must {low} {limits['min']}")
    if isinstance(value, str):
        if "pattern" in limits and not compiled(limits["pattern"]).fullmatch(value):
            yield Violation(value, path, f"Member must satisfy regular expression pattern: {limits['pattern']}")
        if limits.get("enum") and value not in limits["enum"]:
            yield Violation(value, path, f"Member must satisfy enum value set: [{', '.join(limits['enum'])}]")


def _unknown(shape: Shape, value: Any, path: str) -> Iterator[str]:
    if isinstance(shape, StructureShape) and isinstance(value, dict):
        for name, inner in value.items():
            if name not in shape.members:
                yield f"{path}.{name}".lstrip(".")
            else:
                yield from _unknown(shape.members[name], inner, f"{path}.{name}".lstrip("."))
    elif isinstance(shape, ListShape) and isinstance(value, list):
        for number, item in enumerate(value):
            yield from _unknown(shape.member, item, f"{path}[{number}]")
    elif isinstance(shape, MapShape) and isinstance(value, dict):
        for name, item in value.items():
            yield from _unknown(shape.value, item, f"{path}[{name}]")


# Java's character properties have no name in Python's re; these are their nearest equivalents inside a class.
# `\w` is letters, digits and `_`, which every class of the model that has \p{L} lists anyway.
_JAVA_CLASSES = {r"\p{L}": r"\w", r"\p{N}": r"\d", r"\p{Z}": r"\s", r"\p{Alnum}": "A-Za-z0-9"}


@functools.cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern of the model as a Python one. Raises re.error for one that it cannot express."""
    for java, python in _JAVA_CLASSES.items():
        pattern = pattern.replace(java, python)
    return re.compile(pattern)


def _member(path: str, name: str) -> str:
    lowered = name[:1].lower() + name[1:]
    return f"{path}.{lowered}" if path else lowered


def _java(value: Any) -> str:
    """A value as Java prints it, which is how AWS quotes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(_java, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={_java(item)}" for name, item in value.items()) + "}"
    return str(value)
