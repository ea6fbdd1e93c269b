"""Deploys the synthesized stacks into an embedded cloud with the real CDK command line.

    app = CdkApp(folder=repository, context={"config": "config/sandbox.yaml"})
    outputs = deploy(cloud, app, environment=os.environ)

The same two commands as for an account, `cdk bootstrap` and `cdk deploy --all`, against the emulator's endpoint. Their
whole output is in `<state_dir>/cdk.log`; what is reported is a line a stack, or the reason of the failure.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3

from sandbox.cloud.guard import ProcessGuard
from sandbox.cloud.lifecycle import Cloud

Report = Callable[[str], None]
Outputs = dict[str, dict[str, str]]

CDK_LOG_FILE = "cdk.log"
_DEPLOYING = re.compile(r"^(\S+): deploying\.\.\.")
_DONE = re.compile(r"^\s*✅\s+(\S+)")
_EVENT = re.compile(r"^(\S+) \|\s*(\d+)/(\d+) \|")
_NOISE = re.compile(r"^(\s*$|\(node:|\s+at |\(Use `node|npm )")
_LAST_LINES = 12


class DeployError(Exception):
    """The stacks could not be deployed; the text holds the reason, and where the whole log is."""


@dataclass(frozen=True, kw_only=True)
class CdkApp:
    """A CDK app in Python."""

    folder: Path
    """Where `cdk.json` and the app's script are."""
    context: Mapping[str, str] = field(default_factory=dict)
    script: str = "app.py"
    python: str = sys.executable
    """The interpreter that has aws-cdk-lib."""
    cdk: Path | None = None
    """The CDK's command line; default: `node_modules/.bin/cdk` in the folder."""

    @property
    def command(self) -> Path:
        return self.cdk or self.folder / "node_modules" / ".bin" / "cdk"


def deploy(cloud: Cloud, app: CdkApp, *, environment: Mapping[str, str], report: Report = print) -> Outputs:
    """Bootstrap the account and deploy all stacks; returns the outputs of each stack by its name.

    `environment` is the caller's, from which PATH and the like are taken; its AWS settings are not. Raises DeployError.
    """
    if not app.command.exists():
        raise DeployError(f"{app.command} is missing: run `npm ci` in {app.folder}")
    report("preparing the account (cdk bootstrap)")
    # An empty app: bootstrap must not synthesize the stacks, which takes longer than the bootstrap itself.
    _run(cloud, app, ["bootstrap", f"aws://{cloud.account}/{cloud.region}", "--app", ""], environment, _quiet)
    report("synthesizing the stacks (cdk deploy --all)")
    outputs_file = cloud.state_dir / "outputs.json"
    _run(cloud, app, _deploy_arguments(cloud, app, outputs_file), environment, Progress(report))
    return _outputs(outputs_file)


def _deploy_arguments(cloud: Cloud, app: CdkApp, outputs_file: Path) -> list[str]:
    context = [part for name, value in app.context.items() for part in ("-c", f"{name}={value}")]
    return [
        "deploy", "--all", "--require-approval", "never",
        "--outputs-file", str(outputs_file),
        "--app", f"{shlex.quote(app.python)} {shlex.quote(app.script)}",
        "--output", str(cloud.state_dir / "cdk.out"),
        "--progress", "events",
        *context,
    ]  # fmt: skip


def _run(
    cloud: Cloud, app: CdkApp, arguments: Sequence[str], environment: Mapping[str, str], on_line: Callable[[str], None]
) -> None:
    known = {event["EventId"] for event in _stack_events(cloud)}
    process = subprocess.Popen(
        [str(app.command), *arguments],
        cwd=app.folder,
        env={**cloud.env(environment), **_QUIET_TOOLS},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    guard = ProcessGuard(process.pid)  # the command line must not run on when this process is killed
    try:
        lines = list(_logged(process, cloud.state_dir / CDK_LOG_FILE, on_line))
        if process.wait() == 0:
            guard.release(process.pid)
            return
    finally:
        guard.close()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    raise DeployError(_explanation(cloud, arguments[0], lines, known))


_QUIET_TOOLS = {
    "AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED": "true",
    "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
    "NO_COLOR": "1",
    "NO_PROXY": "127.0.0.1",
    "no_proxy": "127.0.0.1",
}


def _logged(process: subprocess.Popen[str], log_file: Path, on_line: Callable[[str], None]) -> Iterable[str]:
    with log_file.open("a") as log:
        for line in process.stdout or ():
            log.write(line)
            log.flush()
            on_line(line.rstrip("\n"))
            yield line.rstrip("\n")


def _quiet(line: str) -> None:
    """Bootstrap has nothing to say to a person unless it fails."""


class Progress:
    """Turns the command line's output into a line a stack."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._resources: dict[str, str] = {}

    def __call__(self, line: str) -> None:
        if found := _DEPLOYING.match(line):
            self._report(f"{found[1]}: deploying")
        elif found := _EVENT.match(line):
            self._resources[found[1]] = found[3]
        elif found := _DONE.match(line):
            count = self._resources.get(found[1])
            self._report(f"{found[1]}: deployed" + (f", {count} resources" if count else ""))
        elif line.startswith(("[Warning", "[Error")):
            self._report(line)


def _outputs(outputs_file: Path) -> Outputs:
    # The file is not written when no stack has an output.
    return dict(json.loads(outputs_file.read_text())) if outputs_file.exists() else {}


def _explanation(cloud: Cloud, command: str, lines: Sequence[str], known: AbstractSet[str]) -> str:
    failed = list(_failed_resources(cloud, known))
    what = failed or [line for line in lines if not _NOISE.match(line)][-_LAST_LINES:]
    log_file = cloud.state_dir / CDK_LOG_FILE
    return "\n".join([f"cdk {command} failed:", *(f"  {line}" for line in what), f"The whole output is in {log_file}"])


def _failed_resources(cloud: Cloud, known: AbstractSet[str]) -> Iterable[str]:
    """The resources that failed of themselves, oldest first; those cancelled in their wake are left out.

    `known` are the ids of the events that were there before: an earlier deployment's failure is not this one's.
    """
    causes = (event for event in _stack_events(cloud) if event["EventId"] not in known and _is_cause(event))
    return dict.fromkeys(map(_reason, sorted(causes, key=lambda event: event["Timestamp"])))


def _stack_events(cloud: Cloud) -> Iterable[Mapping[str, Any]]:
    cloudformation = boto3.client("cloudformation", **cloud.client_arguments())  # type: ignore[call-overload]
    for stack in cloudformation.describe_stacks()["Stacks"]:
        yield from cloudformation.describe_stack_events(StackName=stack["StackId"])["StackEvents"]


def _is_cause(event: Mapping[str, Any]) -> bool:
    return (
        str(event.get("ResourceStatus", "")).endswith("_FAILED")
        and event.get("ResourceType") != "AWS::CloudFormation::Stack"
        and "cancelled" not in str(event.get("ResourceStatusReason", "")).lower()
    )


def _reason(event: Mapping[str, Any]) -> str:
    return (
        f"{event['StackName']}: {event['LogicalResourceId']} ({event['ResourceType']}): "
        f"{event.get('ResourceStatusReason', 'no reason was given')}"
    )
