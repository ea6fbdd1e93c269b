"""An AWS account in memory by moto, which checks every request against botocore's models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
import pytest
from moto import mock_aws

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.client import CloudWatchClient
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_logs.client import CloudWatchLogsClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sagemaker.client import SageMakerClient
    from mypy_boto3_sns.client import SNSClient
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_ssm.client import SSMClient

REGION = "us-east-1"
BUCKET = "holdfast-dev-123456789012-us-east-1"
TABLE = "runs"


@dataclass(frozen=True)
class Aws:
    s3: S3Client
    dynamodb: DynamoDBClient
    sagemaker: SageMakerClient
    cloudwatch: CloudWatchClient
    logs: CloudWatchLogsClient
    sns: SNSClient
    sqs: SQSClient
    ssm: SSMClient


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        session = boto3.Session(region_name=REGION)
        account = Aws(
            *(
                session.client(name)
                for name in ("s3", "dynamodb", "sagemaker", "cloudwatch", "logs", "sns", "sqs", "ssm")
            )
        )
        account.s3.create_bucket(Bucket=BUCKET)
        account.dynamodb.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "active", "AttributeType": "S"},
                {"AttributeName": "due", "AttributeType": "N"},
            ],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "active",
                    "KeySchema": [
                        {"AttributeName": "active", "KeyType": "HASH"},
                        {"AttributeName": "due", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        yield account
