"""The synthesized templates, read the way a reviewer would: which resources there are, and who may do what."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from constructs import Construct

ROOT = Path(__file__).resolve().parents[2]


def new_app(outdir: Path) -> cdk.App:
    """An app with cdk.json's context, which the CDK command line would give it."""
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    return cdk.App(context=context, outdir=str(outdir))


@dataclass(frozen=True)
class Statement:
    """One Allow of a role, its intrinsics written out."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Mapping[str, Mapping[str, Any]]

    def allows(self, action: str, resource: str, **keys: str) -> bool:
        """Whether it permits the call. `keys`: the request's condition keys, with `_` for `:`."""
        return (
            action in self.actions
            and any(_matches(pattern, resource) for pattern in self.resources)
            and all(self._holds(kind, tests, keys) for kind, tests in self.conditions.items())
        )

    @staticmethod
    def _holds(kind: str, tests: Mapping[str, Any], keys: Mapping[str, str]) -> bool:
        given = {key.replace("_", ":", 1): value for key, value in keys.items()}
        for key, wanted in tests.items():
            patterns = wanted if isinstance(wanted, list) else [wanted]
            if key not in given:
                return False
            if kind == "StringLike":
                held = any(_matches(pattern, given[key]) for pattern in patterns)
            elif kind == "StringEquals":
                held = given[key] in patterns
            else:
                raise AssertionError(f"a condition that no test knows: {kind}")
            if not held:
                return False
        return True


class Templates:
    """All templates of one synthesis. References are written out: a bucket's ARN as such, others `<LogicalId.Attr>`."""

    def __init__(self, folder: Path) -> None:
        self.by_stack: dict[str, dict[str, Any]] = {
            path.name.removesuffix(".template.json"): json.loads(path.read_text())
            for path in sorted(folder.glob("*.template.json"))
        }
        self._exports = {
            output["Export"]["Name"]: output["Value"]
            for template in self.by_stack.values()
            for output in template.get("Outputs", {}).values()
            if "Export" in output
        }

    def resources(self, kind: str, stack_end: str = "") -> dict[str, dict[str, Any]]:
        """Logical id to resource, of all stacks whose name ends so."""
        return {
            logical: resource
            for name, template in self.by_stack.items()
            if name.endswith(stack_end)
            for logical, resource in template["Resources"].items()
            if resource["Type"] == kind
        }

    def one(self, kind: str, start: str = "") -> dict[str, Any]:
        """The properties of the only resource of a type whose logical id starts so."""
        found = {logical: resource for logical, resource in self.resources(kind).items() if logical.startswith(start)}
        assert len(found) == 1, f"{kind} {start}*: {sorted(found)}"
        properties: dict[str, Any] = next(iter(found.values()))["Properties"]
        return properties

    def kinds(self) -> set[str]:
        return {resource["Type"] for template in self.by_stack.values() for resource in template["Resources"].values()}

    def written(self, value: Any) -> Any:
        """The value with every intrinsic as text."""
        if isinstance(value, list):
            return [self.written(one) for one in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            name, content = next(iter(value.items()))
            if name == "Fn::Join":
                return content[0].join(str(self.written(part)) for part in content[1])
            if name == "Fn::ImportValue":
                return self.written(self._exports[content])
            if name == "Fn::GetAtt":
                return self._attribute(*content)
            if name == "Ref":
                return self._reference(content)
        return {key: self.written(one) for key, one in value.items()}

    def role_statements(self, logical: str) -> list[Statement]:
        """What a role may do: its inline policies, and the policies attached to it."""
        role = self.resources("AWS::IAM::Role")[logical]["Properties"]
        assert not role.get("ManagedPolicyArns"), f"{logical}: a managed policy says more than its function uses"
        documents = [policy["PolicyDocument"] for policy in role.get("Policies", [])]
        documents += [
            policy["Properties"]["PolicyDocument"]
            for policy in self.resources("AWS::IAM::Policy").values()
            if {"Ref": logical} in policy["Properties"]["Roles"]
        ]
        return [self._statement(one) for document in documents for one in document["Statement"]]

    def all_statements(self) -> Iterator[tuple[str, Statement]]:
        for logical in self.resources("AWS::IAM::Role"):
            for statement in self.role_statements(logical):
                yield logical, statement

    def _statement(self, document: Mapping[str, Any]) -> Statement:
        assert document["Effect"] == "Allow"
        assert not {"NotAction", "NotResource"} & document.keys()
        return Statement(
            actions=tuple(_list(document["Action"])),
            resources=tuple(self.written(one) for one in _list(document["Resource"])),
            conditions=document.get("Condition", {}),
        )

    def _attribute(self, logical: str, attribute: str) -> str:
        bucket = self.resources("AWS::S3::Bucket").get(logical)
        if bucket and attribute == "Arn":
            return f"arn:aws:s3:::{bucket['Properties']['BucketName']}"
        role = self.resources("AWS::IAM::Role").get(logical)
        if role and attribute == "Arn" and "RoleName" in role["Properties"]:
            return f"role/{role['Properties']['RoleName']}"
        return f"<{_plain(logical)}.{attribute}>"

    def _reference(self, logical: str) -> str:
        bucket = self.resources("AWS::S3::Bucket").get(logical)
        return bucket["Properties"]["BucketName"] if bucket else f"<{_plain(logical)}>"


def may(statements: list[Statement], action: str, resource: str, **keys: str) -> bool:
    return any(statement.allows(action, resource, **keys) for statement in statements)


def write_stack(outdir: Path, define: Any) -> Templates:
    """Synthesize what `define(app)` adds."""
    app = new_app(outdir)
    scope: Construct = app
    define(scope)
    app.synth()
    return Templates(outdir)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _matches(pattern: str, text: str) -> bool:
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))


def _plain(logical: str) -> str:
    """Without the hash that CDK adds, so that a renamed construct elsewhere breaks no test."""
    return re.sub(r"[0-9A-F]{8}$", "", logical)
