"""Which stacks one account gets, and in what order they need one another."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from constructs import Construct

from holdfast.core.config import AccountConfig
from holdfast.core.read_config import read_config
from stacks.access import AccessStack
from stacks.control_plane import ControlPlaneStack
from stacks.observability import ObservabilityStack
from stacks.quotas import QuotasStack
from stacks.storage import StorageStack


class ContextError(ValueError):
    """`-c config=` is missing or names no file, in words."""


def config_of_context(value: object, root: Path) -> AccountConfig:
    """The config that `-c config=...` names, relative to the repository. Raises ContextError or ConfigError."""
    known = ", ".join(sorted(f"config/{path.name}" for path in (root / "config").glob("*.yaml"))) or "none yet"
    if not isinstance(value, str) or not value:
        raise ContextError(f"say which account: -c config=config/<account>.yaml (there is: {known})")
    path = root / value
    if not path.is_file():
        raise ContextError(f"-c config={value}: there is no such file (there is: {known})")
    return read_config(path.read_bytes(), value)


def define_stacks(scope: Construct, *, config: AccountConfig, root: Path) -> None:
    """All stacks of one deployment, below `scope`. `root` is the repository: code and templates are read from it."""
    environment = cdk.Environment(account=config.account, region=config.region)
    name = f"holdfast-{config.environment}"
    storage = StorageStack(
        scope,
        f"{name}-storage",
        env=environment,
        description=f"Holdfast {config.environment}: the bucket and the table of runs",
        config=config,
    )
    access = AccessStack(
        scope,
        f"{name}-access",
        env=environment,
        description=f"Holdfast {config.environment}: an execution role a team for its training jobs",
        config=config,
        bucket=storage.bucket,
        key=storage.key,
    )
    control_plane = ControlPlaneStack(
        scope,
        f"{name}-control-plane",
        env=environment,
        description=f"Holdfast {config.environment}: the functions, what calls them, and the published bundle",
        config=config,
        root=root,
        bucket=storage.bucket,
        table=storage.table,
        job_roles=access.job_roles,
        key=storage.key,
    )
    observability = ObservabilityStack(
        scope,
        f"{name}-observability",
        env=environment,
        description=f"Holdfast {config.environment}: alarms",
        config=config,
        bucket=storage.bucket,
        topic=control_plane.topic,
        undelivered=control_plane.undelivered,
        failed_invocations=control_plane.failed_invocations,
    )
    quotas = QuotasStack(
        scope,
        f"{name}-quotas",
        env=environment,
        description=f"Holdfast {config.environment}: asks for service quotas and follows the requests",
        config=config,
        root=root,
        bucket=storage.bucket,
        table=storage.table,
        topic=control_plane.topic,
        key=storage.key,
    )
    for stack in (storage, access, control_plane, observability, quotas):
        cdk.Tags.of(stack).add("holdfast:environment", config.environment)
        for key, value in sorted(config.tags.items()):
            cdk.Tags.of(stack).add(key, value)
