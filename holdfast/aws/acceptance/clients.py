"""The account's clients for an acceptance, with the credentials that the AWS SDK finds by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from holdfast.aws.errors import FAILED_READ, words_of

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.client import CloudWatchClient
    from mypy_boto3_iam.client import IAMClient
    from mypy_boto3_logs.client import CloudWatchLogsClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sagemaker.client import SageMakerClient
    from mypy_boto3_sts.client import STSClient

CALLS_AT_ONCE = 20
_PATIENT = Config(retries={"mode": "standard", "total_max_attempts": 6}, max_pool_connections=20)
# What is measured must not be repeated behind the measurement's back.
_ONCE = Config(retries={"total_max_attempts": 1}, max_pool_connections=CALLS_AT_ONCE)


class AccountError(Exception):
    """The credentials are none, or those of another account: in words."""


@dataclass(frozen=True)
class Clients:
    """`once` is SageMaker without retries."""

    sagemaker: SageMakerClient
    once: SageMakerClient
    s3: S3Client
    logs: CloudWatchLogsClient
    cloudwatch: CloudWatchClient
    iam: IAMClient
    sts: STSClient
    region: str


def connect(region: str) -> Clients:
    session = boto3.Session(region_name=region)
    return Clients(
        sagemaker=session.client("sagemaker", config=_PATIENT),
        once=session.client("sagemaker", config=_ONCE),
        s3=session.client("s3", config=_PATIENT),
        logs=session.client("logs", config=_PATIENT),
        cloudwatch=session.client("cloudwatch", config=_PATIENT),
        iam=session.client("iam", config=_PATIENT),
        sts=session.client("sts", config=_PATIENT),
        region=region,
    )


def check_account(sts: STSClient, expected: str) -> None:
    """Raises AccountError unless the credentials are of the account that the config names."""
    try:
        found = sts.get_caller_identity()["Account"]
    except FAILED_READ as error:
        raise AccountError(f"whose credentials these are cannot be found out: {words_of(error)}") from None
    if found != expected:
        raise AccountError(f"the config is for account {expected}, the credentials are of {found}")


def assumed(clients: Clients, role_arn: str, name: str) -> SageMakerClient:
    """SageMaker as a role. Raises botocore's errors while the role may not be assumed."""
    found = clients.sts.assume_role(RoleArn=role_arn, RoleSessionName=name)["Credentials"]
    session = boto3.Session(
        aws_access_key_id=found["AccessKeyId"],
        aws_secret_access_key=found["SecretAccessKey"],
        aws_session_token=found["SessionToken"],
        region_name=clients.region,
    )
    return session.client("sagemaker", config=_ONCE)
