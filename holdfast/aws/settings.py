"""What each Lambda function is told: one frozen dataclass, written by the stack and read by the handler.

`to_env()` and `from_env()` share the field names, so a variable cannot be called one thing in the stack and another in
the handler. Values may be CDK tokens at synth; they are strings all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self


class SettingsError(ValueError):
    """A variable is missing from the function's environment: the stack and the code are of different versions."""


@dataclass(frozen=True, kw_only=True)
class _Settings:
    def to_env(self) -> dict[str, str]:
        return {_name(field.name): str(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        missing = [_name(field.name) for field in fields(cls) if _name(field.name) not in env]
        if missing:
            raise SettingsError(f"{cls.__name__}: missing from the environment: {', '.join(missing)}")
        kinds = {"int": int, "str": str}
        return cls(**{field.name: kinds[str(field.type)](env[_name(field.name)]) for field in fields(cls)})


def _name(field: str) -> str:
    return "HOLDFAST_" + field.upper()


@dataclass(frozen=True, kw_only=True)
class IntakeSettings(_Settings):
    bucket: str
    table: str
    bundle_parameter: str
    """SSM parameter that names the published bundle, `sha256-<hex>`."""
    topic_arn: str


@dataclass(frozen=True, kw_only=True)
class ReconcileSettings(_Settings):
    bucket: str
    table: str
    environment: str
    topic_arn: str
    poll_seconds: int
    status_refresh_seconds: int
    intake_function: str
    """Name of the function that is handed the manifests whose event was lost."""


@dataclass(frozen=True, kw_only=True)
class PublishSettings(_Settings):
    bucket: str


@dataclass(frozen=True, kw_only=True)
class QuotasSettings(_Settings):
    bucket: str
    table: str
    topic_arn: str
    teams: str
    """Names, separated by commas: who is told of a quota that changed."""
