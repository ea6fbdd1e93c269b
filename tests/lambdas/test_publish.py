from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from moto import mock_aws

from holdfast.bundle import bundle_digest
from lambdas.publish import handler
from tests.response_url import CloudFormation, listening

FILES = {"agent/__main__.py": b"start()"}


@dataclass
class Context:
    """What Powertools' Logger and the handler read of Lambda's context."""

    function_name: str = "publish"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:publish"
    aws_request_id: str = "request"

    def get_remaining_time_in_millis(self) -> int:
        return 100_000


@pytest.fixture
def cloudformation(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudFormation]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with listening() as service:
        yield service


def _event(cloudformation: CloudFormation) -> dict[str, Any]:
    properties = {"AssetBucket": "assets", "AssetKey": "bundle.zip", "Digest": bundle_digest(FILES)}
    return {**cloudformation.event("Create"), "ResourceProperties": properties}


def test_a_deployment_finds_its_bundle_in_the_bucket_and_is_told_so(
    cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_BUCKET", "holdfast")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    # moto answers for AWS alone; the answer to CloudFormation goes to the loopback port.
    with mock_aws():
        s3 = boto3.client("s3")
        for bucket in ("assets", "holdfast"):
            s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket="assets", Key="bundle.zip", Body=buffer.getvalue())
        handler(_event(cloudformation), Context())
        key = f"templates/{bundle_digest(FILES)}/agent/__main__.py"
        assert s3.get_object(Bucket="holdfast", Key=key)["Body"].read() == b"start()"
    assert [answer["Status"] for answer in cloudformation.answers] == ["SUCCESS"]


def test_a_function_without_its_settings_says_so_instead_of_hanging_the_deployment(
    cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_BUCKET", raising=False)
    handler(_event(cloudformation), Context())
    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"
    assert "missing from the environment: HOLDFAST_BUCKET" in answer["Reason"]


def test_the_log_does_not_hold_the_signed_url(
    cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HOLDFAST_BUCKET", raising=False)
    handler(_event(cloudformation), Context())
    assert cloudformation.url not in capsys.readouterr().out
