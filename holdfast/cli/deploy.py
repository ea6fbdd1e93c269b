"""`cdk bootstrap` and `cdk deploy --all` as `make deploy` calls them, with the tools of this tree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from holdfast.core.config import AccountConfig


class DeployFailedError(Exception):
    """The command line of the CDK is missing or failed, in words. What it printed itself says more."""


def deploy(root: Path, account: str, config: AccountConfig, *, unattended: bool) -> None:
    """`unattended`: the CDK asks no questions either. Raises DeployFailedError."""
    cdk = root / "node_modules" / ".bin" / "cdk"
    if not cdk.exists():
        raise DeployFailedError(f"{cdk} is missing: run make setup in {root}")
    context = ["-c", f"config=config/{account}.yaml"]
    approval = ["--require-approval", "never"] if unattended else []
    # By its address and without the app, whose synthesis takes longer than the bootstrap.
    _run(root, [str(cdk), "bootstrap", f"aws://{config.account}/{config.region}", "--app", ""])
    _run(root, [str(cdk), "deploy", "--all", *approval, *context])


def _run(root: Path, command: list[str]) -> None:
    # `python3 app.py`, which the CDK starts, has to find the Python that this one is.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    quiet = {"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20", "CDK_DISABLE_VERSION_CHECK": "1"}
    done = subprocess.run(command, cwd=root, env={**os.environ, **quiet, "PATH": path}, check=False)
    if done.returncode != 0:
        raise DeployFailedError(f"cdk {command[1]} ended with {done.returncode}; no job was started")
