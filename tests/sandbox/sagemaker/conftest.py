"""One embedded cloud for all tests of the training plane, and a lab to make roles, requests and jobs in it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sandbox.cloud.lifecycle import Cloud, running_cloud
from sandbox.sagemaker.client import FaultClient

BUCKET = "lab-bucket"
LOG_GROUP = "/aws/sagemaker/TrainingJobs"
TERMINAL = ("Completed", "Failed", "Stopped")
PLANE = "tests.sandbox.sagemaker.plane"

JobRequest = dict[str, Any]

# What a job's role needs, by the developer guide (sagemaker-roles); tests take single statements away.
PERMISSIONS: dict[str, dict[str, Any]] = {
    "list": {"Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{BUCKET}"},
    "read": {"Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{BUCKET}/*"},
    "write": {"Action": ["s3:PutObject", "s3:DeleteObject"], "Resource": f"arn:aws:s3:::{BUCKET}/*"},
    "token": {"Action": "ecr:GetAuthorizationToken", "Resource": "*"},
    "pull": {
        "Action": ["ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"],
        "Resource": "arn:aws:ecr:us-east-1:000000000000:repository/trainer",
    },
    "logs": {
        "Action": ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"],
        "Resource": "*",
    },
    "metrics": {"Action": "cloudwatch:PutMetricData", "Resource": "*"},
}


@dataclass
class Lab:
    """Everything is asked through the AWS APIs of the emulator; nothing looks into the plane."""

    cloud: Cloud
    clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        if service not in self.clients:
            self.clients[service] = boto3.client(service, **self.cloud.client_arguments())  # type: ignore[call-overload]
        return self.clients[service]

    @property
    def faults(self) -> FaultClient:
        return FaultClient(
            self.cloud.endpoint_url, region=self.cloud.region, access_key_id="test", secret_access_key="test"
        )

    def role(self, *without: str, trusts: str = "sagemaker.amazonaws.com", **replaced: dict[str, Any]) -> str:
        """A new role with PERMISSIONS, less the named ones, some replaced; its ARN."""
        name = f"role-{uuid.uuid4().hex[:10]}"
        trust = {"Effect": "Allow", "Principal": {"Service": trusts}, "Action": "sts:AssumeRole"}
        self.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=_policy([trust]))
        granted = {**PERMISSIONS, **replaced}
        statements = [{"Effect": "Allow", **granted[key]} for key in granted if key not in without]
        self.client("iam").put_role_policy(RoleName=name, PolicyName="job", PolicyDocument=_policy(statements))
        return f"arn:aws:iam::{self.cloud.account}:role/{name}"

    def put(self, key: str, body: str | bytes) -> None:
        self.client("s3").put_object(Bucket=BUCKET, Key=key, Body=body)

    def keys(self, prefix: str) -> list[str]:
        listed = self.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return [entry["Key"] for entry in listed.get("Contents", [])]

    def get(self, key: str) -> bytes:
        return bytes(self.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def request(self, script: str, *, role: str, name: str | None = None, hosts: int = 1, **more: Any) -> JobRequest:
        """A CreateTrainingJob request whose hosts run a Python script, which it uploads."""
        name = name or f"job-{uuid.uuid4().hex[:10]}"
        self.put(f"code/{name}/main.py", script)
        return {
            "TrainingJobName": name,
            "RoleArn": role,
            "AlgorithmSpecification": {
                "TrainingImage": f"{self.cloud.account}.dkr.ecr.us-east-1.amazonaws.com/trainer:1",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["python3", "-u", "/opt/ml/input/data/code/main.py"],
            },
            "InputDataConfig": [channel("code", f"code/{name}/")],
            "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/output/"},
            "ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": hosts, "VolumeSizeInGB": 10},
            "StoppingCondition": {"MaxRuntimeInSeconds": 60},
            **more,
        }

    def create(self, request: JobRequest) -> str:
        self.client("sagemaker").create_training_job(**request)
        return str(request["TrainingJobName"])

    def describe(self, job: str) -> dict[str, Any]:
        answer = self.client("sagemaker").describe_training_job(TrainingJobName=job)
        return {name: value for name, value in answer.items() if name != "ResponseMetadata"}

    def stop(self, job: str) -> None:
        self.client("sagemaker").stop_training_job(TrainingJobName=job)

    def wait_for(self, job: str, *statuses: str, seconds: float = 30.0) -> dict[str, Any]:
        """Wait for a primary or secondary status; its description."""

        def reached() -> dict[str, Any] | None:
            described = self.describe(job)
            met = {described["TrainingJobStatus"], described["SecondaryStatus"]} & set(statuses)
            assert met or described["TrainingJobStatus"] not in TERMINAL, described
            return described if met else None

        found: dict[str, Any] = self.until(reached, seconds)
        return found

    def run(self, request: JobRequest) -> dict[str, Any]:
        """Create a job and wait for its end."""
        return self.wait_for(self.create(request), *TERMINAL)

    def lines(self, job: str, host: str = "algo-1") -> list[str]:
        """What a host's stream holds by now."""
        logs = self.client("logs")
        try:
            streams = logs.describe_log_streams(logGroupName=LOG_GROUP, logStreamNamePrefix=f"{job}/{host}-")
        except logs.exceptions.ResourceNotFoundException:
            return []
        events: list[str] = []
        for stream in streams["logStreams"]:
            page = logs.get_log_events(
                logGroupName=LOG_GROUP, logStreamName=stream["logStreamName"], startFromHead=True
            )
            events += [event["message"] for event in page["events"]]
        return events

    def wait_for_line(self, job: str, line: str, host: str = "algo-1") -> None:
        self.until(lambda: line in self.lines(job, host))

    def until(self, met: Any, seconds: float = 30.0) -> Any:
        """The first true answer of `met`."""
        deadline = time.monotonic() + seconds
        while not (answer := met()):
            assert time.monotonic() < deadline, f"not within {seconds} s"
            time.sleep(0.1)
        return answer

    def wire(self, operation: str, body: Any) -> tuple[int, dict[str, Any]]:
        """A request as sent on the wire, past everything that botocore would refuse on the client's side."""
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": f"SageMaker.{operation}"}
        signed = AWSRequest("POST", self.cloud.endpoint_url + "/", headers=headers, data=json.dumps(body).encode())
        SigV4Auth(Credentials("test", "test"), "sagemaker", self.cloud.region).add_auth(signed)
        request = urllib.request.Request(  # noqa: S310 - the emulator's own http endpoint
            self.cloud.endpoint_url + "/", data=signed.data, headers=dict(signed.headers.items()), method="POST"
        )
        try:
            with urllib.request.urlopen(request) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


def channel(name: str, prefix: str, **more: Any) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/{prefix}", **more}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}


def _policy(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    state_dir: Path = tmp_path_factory.mktemp("cloud")
    with running_cloud(state_dir, planes=[PLANE]) as cloud:
        lab = Lab(cloud)
        lab.client("s3").create_bucket(Bucket=BUCKET)
        yield lab


@pytest.fixture(scope="session")
def role(lab: Lab) -> str:
    """A role that may do all that a job needs."""
    return lab.role()
