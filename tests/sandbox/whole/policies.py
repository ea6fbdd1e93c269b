"""The deployed roles' statements, read and edited in place through IAM's API, as somebody with the console would."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pytest

from sandbox.cloud.denials import Denial
from tests.sandbox.whole.conftest import Whole

Statement = tuple[str, str]
"""Who (`intake`, `reconcile`, `publish`, `job`) and the statement's Sid; see `sid_of` for those that have none."""


def sid_of(statement: dict[str, Any]) -> str:
    """The Sid. Statements that CDK adds by itself have none and go by their actions."""
    return str(statement.get("Sid") or "+".join(sorted(_list(statement["Action"]))))


@dataclass
class _Policy:
    role: str
    name: str
    document: dict[str, Any]


class Policies:
    """`roles`: who -> the deployed role's name. Removals may overlap; each ends by itself. Thread-safe."""

    def __init__(self, whole: Whole, roles: dict[str, str]) -> None:
        self._whole = whole
        self._iam = whole.client("iam")
        self._lock = threading.Lock()
        self._removed: set[Statement] = set()
        self._policies: dict[str, list[_Policy]] = {}
        self._found: dict[Statement, dict[str, Any]] = {}
        self.roles = roles
        for who, role in roles.items():
            names = self._iam.list_role_policies(RoleName=role)["PolicyNames"]
            assert self._iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"] == []
            self._policies[who] = [
                _Policy(role, name, self._iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"])
                for name in names
            ]
            for policy in self._policies[who]:
                for statement in policy.document["Statement"]:
                    assert (who, sid_of(statement)) not in self._found, f"{role}: two statements {sid_of(statement)}"
                    self._found[who, sid_of(statement)] = statement

    @property
    def statements(self) -> set[Statement]:
        return set(self._found)

    @contextmanager
    def without(self, *statements: Statement) -> Iterator[Removed]:
        """The roles' policies as they are, but for these statements, until the block ends."""
        with self._lock:
            assert not self._removed & set(statements)
            self._removed |= set(statements)
            self._write({who for who, _ in statements})
        try:
            yield Removed(self._whole, {one: (self.roles[one[0]], self._found[one]) for one in statements})
        finally:
            with self._lock:
                self._removed -= set(statements)
                self._write({who for who, _ in statements})

    def _write(self, whose: set[str]) -> None:
        for who in whose:
            for policy in self._policies[who]:
                kept = [one for one in policy.document["Statement"] if (who, sid_of(one)) not in self._removed]
                self._iam.put_role_policy(
                    RoleName=policy.role,
                    PolicyName=policy.name,
                    PolicyDocument=json.dumps({**policy.document, "Statement": kept}),
                )


class Removed:
    """Statements that are missing now, and what was denied for it."""

    def __init__(self, whole: Whole, statements: dict[Statement, tuple[str, dict[str, Any]]]) -> None:
        self._whole = whole
        self._statements = statements
        self._since = len(whole.cloud.denials())

    def denials(self, statement: Statement) -> list[Denial]:
        """What the role was denied since the removal that this very statement allows."""
        role, allows = self._statements[statement]
        return [one for one in self._whole.cloud.denials()[self._since :] if one.role == role and covers(allows, one)]

    def until_seen(self, *, seconds: float = 60.0, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Returns when each of them was missed by a call. `meanwhile` is done again and again."""
        deadline = time.monotonic() + seconds
        while missing := {one for one in self._statements if not self.denials(one)}:
            meanwhile()
            if time.monotonic() > deadline:
                pytest.fail(f"nothing was denied in {seconds:.0f} s although these statements are gone: {missing}")
            time.sleep(0.2)


def covers(statement: dict[str, Any], denial: Denial) -> bool:
    """Whether the statement's actions and resources hold the denied call; conditions are not looked at."""
    return denial.action in _list(statement["Action"]) and any(
        fnmatchcase(denial.resource, pattern) for pattern in _list(statement["Resource"])
    )


def _list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
