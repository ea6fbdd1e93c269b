from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from holdfast.core.config import AccountConfig, Network
from stacks.access import AccessStack
from stacks.application import config_of_context
from stacks.storage import StorageStack
from tests.stacks.synthesis import ROOT, Statement, Templates, may, write_stack

BUCKET = "arn:aws:s3:::holdfast-sandbox-000000000000-us-east-1"
RELEASE = f"{BUCKET}/templates/sha256-{'ab' * 32}/agent/__main__.py"
LOGS = "arn:aws:logs:us-east-1:000000000000:log-group:/aws/sagemaker/TrainingJobs"
REPOSITORY = "arn:aws:ecr:us-east-1:763104351884:repository/pytorch-training"


def _role(templates: Templates, team: str) -> str:
    (found,) = (
        logical
        for logical, role in templates.resources("AWS::IAM::Role").items()
        if role["Properties"].get("RoleName", "").endswith(f"-us-east-1-{team}")
    )
    return found


@pytest.fixture(scope="session")
def research(sandbox: Templates) -> list[Statement]:
    return sandbox.role_statements(_role(sandbox, "research"))


def _with(tmp_path: Path, **changes: Any) -> list[Statement]:
    """Team research's statements under config/sandbox.yaml with some fields changed."""
    config = AccountConfig.model_validate({**config_of_context("config/sandbox.yaml", ROOT).model_dump(), **changes})

    def define(app: Any) -> None:
        env = cdk.Environment(account=config.account, region=config.region)
        storage = StorageStack(app, "storage", env=env, description="s", config=config)
        AccessStack(app, "access", env=env, description="a", config=config, bucket=storage.bucket, key=None)

    templates = write_stack(tmp_path, define)
    return templates.role_statements(_role(templates, "research"))


def test_only_sagemaker_takes_the_role_and_only_for_this_account(sandbox: Templates) -> None:
    trust = sandbox.resources("AWS::IAM::Role")[_role(sandbox, "vision")]["Properties"]["AssumeRolePolicyDocument"]
    assert trust["Statement"] == [
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
            "Condition": {"StringEquals": {"aws:SourceAccount": "000000000000"}},
        }
    ]


@pytest.mark.parametrize("prefix", ["data", "checkpoints", "output", "control"])
def test_a_job_reads_its_own_teams_objects_and_no_other_teams(research: list[Statement], prefix: str) -> None:
    assert may(research, "s3:GetObject", f"{BUCKET}/{prefix}/research/x")
    assert not may(research, "s3:GetObject", f"{BUCKET}/{prefix}/vision/x")
    assert not may(research, "s3:GetObject", f"{BUCKET}/{prefix}/research-2/x")


@pytest.mark.parametrize("prefix", ["checkpoints", "output"])
def test_a_job_writes_its_own_checkpoints_and_output_and_no_other_teams(research: list[Statement], prefix: str) -> None:
    assert may(research, "s3:PutObject", f"{BUCKET}/{prefix}/research/x")
    assert not may(research, "s3:PutObject", f"{BUCKET}/{prefix}/vision/x")


@pytest.mark.parametrize(
    "key",
    [
        "data/research/x",
        "manifests/research/run.yaml",
        "status/research/run.json",
        "control/research/run.json",
        f"templates/sha256-{'ab' * 32}/deployment.json",
        f"templates/team/research/sha256-{'ab' * 32}/source.tar.gz",
    ],
)
def test_a_job_changes_nothing_that_steers_it(research: list[Statement], key: str) -> None:
    for action in ("s3:PutObject", "s3:DeleteObject"):
        assert not may(research, action, f"{BUCKET}/{key}")


def test_a_job_reads_the_release_and_its_teams_code_and_no_other_teams_code(research: list[Statement]) -> None:
    assert may(research, "s3:GetObject", RELEASE)
    assert may(research, "s3:GetObject", f"{BUCKET}/templates/team/research/sha256-1/source.tar.gz")
    assert not may(research, "s3:GetObject", f"{BUCKET}/templates/team/vision/sha256-1/source.tar.gz")


def test_a_job_prunes_checkpoints_and_deletes_nothing_else(research: list[Statement]) -> None:
    assert may(research, "s3:DeleteObject", f"{BUCKET}/checkpoints/research/run/g001/step-1/x")
    assert not may(research, "s3:DeleteObject", f"{BUCKET}/output/research/run/model.tar.gz")


def test_a_job_lists_its_own_prefixes_and_never_the_whole_bucket(research: list[Statement]) -> None:
    # A channel of type S3Prefix is listed before it is downloaded: data, agent and code alike.
    for prefix in ("checkpoints/research/run/", "data/research/x/", f"templates/sha256-{'ab' * 32}/agent/"):
        assert may(research, "s3:ListBucket", BUCKET, s3_prefix=prefix)
    assert may(research, "s3:ListBucket", BUCKET, s3_prefix="templates/team/research/sha256-1/")
    assert not may(research, "s3:ListBucket", BUCKET, s3_prefix="templates/team/vision/sha256-1/")
    assert not may(research, "s3:ListBucket", BUCKET, s3_prefix="checkpoints/vision/run/")
    assert not may(research, "s3:ListBucket", BUCKET, s3_prefix="checkpoints/")
    assert not may(research, "s3:ListBucket", BUCKET)


def test_a_missing_lease_or_control_object_is_missing_and_not_forbidden(research: list[Statement]) -> None:
    """S3 judges the read of a missing key by s3:ListBucket with the key as its prefix: 404 with it, 403 without."""
    for key in ("control/research/run.json", "checkpoints/research/run/lease-g001.json"):
        assert may(research, "s3:ListBucket", BUCKET, s3_prefix=key)


def test_a_job_pulls_listed_images_and_no_others(research: list[Statement]) -> None:
    assert may(research, "ecr:GetAuthorizationToken", "*")
    for action in ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "ecr:BatchCheckLayerAvailability"):
        assert may(research, action, REPOSITORY)
        assert not may(research, action, "arn:aws:ecr:us-east-1:000000000000:repository/anything")


def test_an_image_of_the_catalogue_can_be_pulled_though_its_repository_is_not_listed(tmp_path: Path) -> None:
    image = "000000000000.dkr.ecr.us-east-1.amazonaws.com/own/trainer@sha256:" + "0" * 64
    statements = _with(tmp_path, images={"own": image}, repositories=())
    assert may(statements, "ecr:BatchGetImage", "arn:aws:ecr:us-east-1:000000000000:repository/own/trainer")
    assert not may(statements, "ecr:BatchGetImage", REPOSITORY)


def test_a_job_writes_its_own_log_streams_and_no_other_teams(research: list[Statement]) -> None:
    assert may(research, "logs:CreateLogStream", f"{LOGS}:log-stream:sandbox-research-run-0123abcd-a001/algo-1-1")
    assert may(research, "logs:PutLogEvents", f"{LOGS}:log-stream:sandbox-research-run-0123abcd-a001/algo-1-1")
    assert not may(research, "logs:PutLogEvents", f"{LOGS}:log-stream:sandbox-vision-run-0123abcd-a001/algo-1-1")


def test_a_job_writes_metrics_into_sagemakers_namespace_alone(research: list[Statement]) -> None:
    name = "cloudwatch:PutMetricData"
    assert may(research, name, "*", cloudwatch_namespace="/aws/sagemaker/TrainingJobs")
    assert not may(research, name, "*", cloudwatch_namespace="AWS/EC2")
    assert not may(research, name, "*")


def test_a_job_touches_the_network_only_where_one_is_configured(research: list[Statement], tmp_path: Path) -> None:
    account = "arn:aws:ec2:us-east-1:000000000000"
    network = Network(subnets=("subnet-1",), security_group_ids=("sg-1",))
    inside = _with(tmp_path, network=network.model_dump())
    assert may(inside, "ec2:CreateNetworkInterface", f"{account}:subnet/subnet-1")
    assert may(inside, "ec2:CreateNetworkInterface", f"{account}:security-group/sg-1")
    assert not may(inside, "ec2:CreateNetworkInterface", f"{account}:subnet/subnet-2")
    assert may(inside, "ec2:CreateNetworkInterfacePermission", f"{account}:network-interface/eni-1")
    assert may(inside, "ec2:DescribeSubnets", "*")
    assert not [action for statement in research for action in statement.actions if action.startswith("ec2:")]


def test_a_job_uses_keys_only_where_they_are_configured(research: list[Statement], tmp_path: Path) -> None:
    output, volume = (f"arn:aws:kms:us-east-1:000000000000:key/{name}" for name in ("output", "volume"))
    keyed = _with(tmp_path, output_kms_key_arn=output, volume_kms_key_arn=volume)
    assert may(keyed, "kms:GenerateDataKey", output)
    assert may(keyed, "kms:CreateGrant", volume)
    assert not may(keyed, "kms:CreateGrant", output)
    assert not [action for statement in research for action in statement.actions if action.startswith("kms:")]
