"""The page on one's own code, by a person who may do what its policy says and nothing else."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from holdfast.core.model import Phase
from tests.docs.pages import OWN_CODE, blocks, commands, write_files
from tests.sandbox.whole.conftest import Whole

pytestmark = pytest.mark.end_to_end


class Person:
    """Has the page's policy, and types its `aws s3 cp` lines."""

    def __init__(self, whole: Whole) -> None:
        policy = next(block.text for block in blocks(OWN_CODE) if '"Statement"' in block.text)
        iam = whole.client("iam")
        iam.create_user(UserName="researcher")
        iam.put_user_policy(UserName="researcher", PolicyName="drop-and-read", PolicyDocument=policy)
        key = iam.create_access_key(UserName="researcher")["AccessKey"]
        self._keys = {
            **whole.cloud.client_arguments(),
            "aws_access_key_id": key["AccessKeyId"],
            "aws_secret_access_key": key["SecretAccessKey"],
        }
        self.s3 = self.client("s3")

    def client(self, service: str) -> Any:
        return boto3.client(service, **self._keys)  # type: ignore[call-overload]

    def copy(self, line: str, folder: Path) -> None:
        """`aws s3 cp <file> s3://<bucket>/<key>`."""
        *command, source, target = shlex.split(line)
        assert command == ["aws", "s3", "cp"]
        bucket, _, key = target.removeprefix("s3://").partition("/")
        self.s3.put_object(Bucket=bucket, Key=key, Body=(folder / source).read_bytes())


@pytest.fixture(scope="module")
def person(whole: Whole) -> Person:
    return Person(whole)


def test_the_pages_files_and_lines_make_a_run_that_succeeds(whole: Whole, person: Person, tmp_path: Path) -> None:
    write_files(tmp_path, OWN_CODE)
    lines = commands(OWN_CODE)
    subprocess.run(shlex.split(next(line for line in lines if line.startswith("tar "))), cwd=tmp_path, check=True)
    *puts, get = (line for line in lines if line.startswith("aws "))
    for line in puts:
        person.copy(line, tmp_path)
    whole.until_settled("my-run")
    bucket, _, key = shlex.split(get)[3].removeprefix("s3://").partition("/")
    status = json.loads(person.s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    assert (status["phase"], status["step"], status["sealed_step"]) == (Phase.SUCCEEDED, 60, 60)
    job = status["attempts"][0]["job"]
    page = person.s3.list_objects_v2(Bucket=bucket, Prefix="output/research/my-run/")
    assert f"output/research/my-run/{job}/output/model.tar.gz" in [one["Key"] for one in page["Contents"]]
    page = person.s3.list_objects_v2(Bucket=bucket, Prefix="checkpoints/research/my-run/")
    assert "checkpoints/research/my-run/g001/step-0000000060/seal.json" in [one["Key"] for one in page["Contents"]]
    streams = whole.client("logs").describe_log_streams(
        logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=f"{job}/"
    )["logStreams"]
    own = person.client("logs").get_log_events(
        logGroupName="/aws/sagemaker/TrainingJobs", logStreamName=streams[0]["logStreamName"]
    )
    assert any("phase=step" in event["message"] for event in own["events"])


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("put_object", {"Key": "manifests/vision/mine.yaml", "Body": b"x"}),
        ("put_object", {"Key": "data/vision/code.tar.gz", "Body": b"x"}),
        ("put_object", {"Key": "status/research/my-run.json", "Body": b"{}"}),
        ("put_object", {"Key": "checkpoints/research/my-run/g001/x", "Body": b"x"}),
        ("get_object", {"Key": "status/vision/plain.json"}),
        ("delete_object", {"Key": "manifests/research/my-run.yaml"}),
        ("list_objects_v2", {"Prefix": "status/vision/"}),
        ("list_objects_v2", {}),
    ],
)
def test_that_person_may_do_nothing_else_in_the_bucket(
    whole: Whole, person: Person, call: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ClientError) as refused:
        getattr(person.s3, call)(Bucket=whole.config.bucket, **arguments)
    assert refused.value.response["Error"]["Code"] in ("AccessDenied", "403")
