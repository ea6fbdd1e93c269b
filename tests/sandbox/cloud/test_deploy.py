from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import boto3
import pytest

from sandbox.cloud.deploy import CdkApp, DeployError, Outputs, Progress, deploy
from sandbox.cloud.lifecycle import Cloud
from tests.sandbox.cloud.conftest import TINY_APP

LINES = """\
tiny-storage: creating CloudFormation changeset...
tiny-storage: deploying... [1/2]
tiny-storage |  1/11 | 3:52:38 AM | CREATE_COMPLETE         | AWS::IAM::Role  | Role
 ✅  tiny-storage
[Warning at /tiny-storage] something to know
""".splitlines()


def test_progress_is_a_line_a_stack() -> None:
    told: list[str] = []
    progress = Progress(told.append)
    for line in LINES:
        progress(line)
    assert told == [
        "tiny-storage: deploying",
        "tiny-storage: deployed, 11 resources",
        "[Warning at /tiny-storage] something to know",
    ]


def test_a_missing_command_line_is_said_with_its_remedy(cloud: Cloud, tmp_path: Path) -> None:
    with pytest.raises(DeployError, match=r"node_modules/\.bin/cdk is missing: run `npm ci`"):
        deploy(cloud, CdkApp(folder=tmp_path), environment=os.environ)


def test_the_stacks_are_there_after_a_deployment(cloud: Cloud, outputs: Outputs) -> None:
    stacks = boto3.client("cloudformation", **cloud.client_arguments()).describe_stacks()["Stacks"]
    statuses = {stack["StackName"]: stack["StackStatus"] for stack in stacks}
    assert set(statuses) == {"CDKToolkit", "tiny-storage", "tiny-control-plane"}
    assert set(statuses.values()) == {"CREATE_COMPLETE"}
    assert len(outputs["tiny-control-plane"]["Digest"]) == 64


def test_a_custom_resource_reads_its_asset_and_hands_on_its_answer(cloud: Cloud, outputs: Outputs) -> None:
    parameter = boto3.client("ssm", **cloud.client_arguments()).get_parameter(Name="/tiny/bundle")["Parameter"]
    assert parameter["Value"] == outputs["tiny-control-plane"]["Digest"]


def test_a_failed_deployment_names_the_resource_and_the_reason(cloud: Cloud, outputs: Outputs, tmp_path: Path) -> None:
    told: list[str] = []
    broken = dataclasses.replace(TINY_APP, context={"fail": "1"})
    with pytest.raises(DeployError) as failed:
        deploy(cloud, broken, environment=os.environ, report=told.append)
    text = str(failed.value)
    assert "tiny-control-plane: Published (Custom::Published): its function failed" in text
    assert "the publisher was asked to fail" in text
    assert len(text.splitlines()) < 8
    # What failed then is not given as the reason of what fails now.
    no_script = dataclasses.replace(TINY_APP, script="no_such_app.py")
    with pytest.raises(DeployError, match=r"no_such_app\.py") as unsynthesized:
        deploy(cloud, no_script, environment=os.environ, report=told.append)
    assert "publisher" not in str(unsynthesized.value)
