"""What the tests of denied calls do to the deployed functions, and what they read of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sandbox.cloud.ticker import scheduled_event
from tests.sandbox.whole.conftest import Whole
from tests.sandbox.whole.policies import Policies, Removed, Statement

FUNCTIONS = "holdfast-sandbox-"
WAIT_SECONDS = 90.0
# Prints, writes and deletes a checkpoint, and leaves a model: a job that needs everything that its role may do. In one
# line, since SageMaker takes no newline in an argument.
SCRIPT = (
    "import pathlib, sys, time; old, model = (pathlib.Path(folder, 'file.txt') for folder in sys.argv[1:]); "
    "print('begun', flush=True); old.write_text('old'); time.sleep(1.5); old.unlink(); time.sleep(1.5); "
    "model.write_text('weights')"
)


@dataclass
class Scene:
    """The deployed roles and, for what takes longest to come, statements that are gone from the beginning."""

    whole: Whole
    policies: Policies
    early: dict[Statement, tuple[ExitStack, Removed]] = field(default_factory=dict)

    def take_early(self, statement: Statement) -> None:
        stack = ExitStack()
        self.early[statement] = (stack, stack.enter_context(self.policies.without(statement)))

    def early_missed(self, statement: Statement, *, meanwhile: Callable[[], None]) -> None:
        """Returns once it was missed, and gives it back."""
        stack, removed = self.early[statement]
        try:
            removed.until_seen(seconds=120, meanwhile=meanwhile)
        finally:
            stack.close()

    def give_back_all(self) -> None:
        for stack, _ in self.early.values():
            stack.close()

    def invoke(self, who: str, event: dict[str, Any]) -> dict[str, Any]:
        """The function's answer, or its error."""
        answer = self.whole.client("lambda").invoke(FunctionName=FUNCTIONS + who, Payload=json.dumps(event).encode())
        return dict(json.loads(answer["Payload"].read()) or {})

    def sweep(self) -> None:
        """A tick between the ticker's."""
        event = scheduled_event(
            account=self.whole.config.account, region=self.whole.config.region, rule="test", now=datetime.now(UTC)
        )
        self.invoke("reconcile", event)

    def dropped(self, name: str, team: str = "research") -> dict[str, Any]:
        """What S3 says to intake of a manifest."""
        key = f"manifests/{team}/{name}.yaml"
        head = self.whole.client("s3").head_object(Bucket=self.whole.config.bucket, Key=key)
        detail = {
            "bucket": {"name": self.whole.config.bucket},
            "object": {"key": key, "size": head["ContentLength"], "etag": head["ETag"].strip('"')},
            "reason": "PutObject",
        }
        return {"id": "test", "source": "aws.s3", "detail-type": "Object Created", "detail": detail}

    @contextmanager
    def without_retries(self, functions: set[str]) -> Iterator[None]:
        """An asynchronous call that fails is given up at once, and not after three minutes."""
        client = self.whole.client("lambda")
        try:
            for name in (FUNCTIONS + who for who in functions):
                deployed = client.get_function_event_invoke_config(FunctionName=name, Qualifier="$LATEST")
                client.put_function_event_invoke_config(
                    FunctionName=name, MaximumRetryAttempts=0, DestinationConfig=deployed["DestinationConfig"]
                )
            yield
        finally:
            for who in functions:
                client.delete_function_event_invoke_config(FunctionName=FUNCTIONS + who)

    def send(self, who: str, event: dict[str, Any]) -> None:
        """As a rule calls: nobody waits for the answer."""
        self.whole.client("lambda").invoke(
            FunctionName=FUNCTIONS + who, InvocationType="Event", Payload=json.dumps(event).encode()
        )

    def until_kept(self, wanted: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """(function, mark) of the failed events in their queue, once it has these."""
        sqs = self.whole.client("sqs")
        (url,) = [one for one in sqs.list_queues()["QueueUrls"] if "FailedInvocations" in one]
        kept: set[tuple[str, str]] = set()
        deadline = time.monotonic() + WAIT_SECONDS
        while not wanted <= kept:
            if time.monotonic() > deadline:
                pytest.fail(f"the queue of failed invocations has {kept}, not {wanted}")
            page = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
            for message in page.get("Messages", []):
                failed = json.loads(message["Body"])
                name = failed["requestContext"]["functionArn"].split(":")[6]
                kept.add((name.removeprefix(FUNCTIONS), failed["requestPayload"].get("mark", "")))
        return kept

    def bundle_properties(self) -> dict[str, str]:
        """What CloudFormation says to publish of the release that is deployed."""
        template = self.whole.client("cloudformation").get_template(StackName=f"{FUNCTIONS}control-plane")
        body: Any = template["TemplateBody"]
        resources = (json.loads(body) if isinstance(body, str) else body)["Resources"].values()
        (properties,) = [one["Properties"] for one in resources if one["Type"] == "Custom::HoldfastBundle"]
        return {name: properties[name] for name in ("AssetBucket", "AssetKey", "Digest")}

    def start_afresh(self, who: str) -> None:
        """A new execution environment, which remembers nothing that an earlier call read."""
        client, name = self.whole.client("lambda"), FUNCTIONS + who
        # The same size as before. Not the description: an environment lives on where only that changes.
        memory = client.get_function(FunctionName=name)["Configuration"]["MemorySize"]
        client.update_function_configuration(FunctionName=name, MemorySize=memory)

    def lines(self, who: str, message: str, since: float) -> list[dict[str, Any]]:
        """The function's log lines with this message since then (epoch seconds)."""
        group = self.whole.client("lambda").get_function(FunctionName=FUNCTIONS + who)["Configuration"]
        pages = (
            self.whole.client("logs")
            .get_paginator("filter_log_events")
            .paginate(logGroupName=group["LoggingConfig"]["LogGroup"], startTime=int(since * 1000))
        )
        texts = [event["message"] for page in pages for event in page["events"]]
        lines = [json.loads(text) for text in texts if text.startswith('{"level"')]
        return [line for line in lines if line["message"] == message]

    def until_said(self, who: str, message: str, holds: Callable[[dict[str, Any]], Any], since: float) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not any(holds(line) for line in self.lines(who, message, since)):
            if time.monotonic() > deadline:
                pytest.fail(f"{who} did not say so: {self.lines(who, message, since)[-3:]}")
            time.sleep(0.5)

    def until_status(self, name: str, holds: Callable[[dict[str, Any]], Any], team: str = "research") -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            status = self.whole.account.status(team, name)
            if status is not None and holds(status):
                return status
            if time.monotonic() > deadline:
                pytest.fail(f"the status of {team}/{name} did not get there: {status}")
            time.sleep(0.3)

    def run_job(self, team: str, name: str) -> str:
        """A job of the team's role, without Holdfast; why it ended, empty where it completed."""
        bucket, config = self.whole.config.bucket, self.whole.config
        sagemaker = self.whole.client("sagemaker")
        self.whole.give_code(team)
        source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{bucket}/data/{team}/code/"}
        job = f"{config.environment}-{team}-{name}-{time.time():.0f}"
        try:
            sagemaker.create_training_job(
                TrainingJobName=job,
                RoleArn=f"arn:aws:iam::{config.account}:role/{config.job_role_name(team)}",
                AlgorithmSpecification={
                    "TrainingImage": config.images["pytorch-cpu"],
                    "TrainingInputMode": "File",
                    "ContainerEntrypoint": ["python3", "-c", SCRIPT, "/opt/ml/checkpoints", "/opt/ml/model"],
                },
                InputDataConfig=[{"ChannelName": "code", "DataSource": {"S3DataSource": source}}],
                CheckpointConfig={"S3Uri": f"s3://{bucket}/checkpoints/{team}/{name}/"},
                OutputDataConfig={"S3OutputPath": f"s3://{bucket}/output/{team}/{name}"},
                ResourceConfig={"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
                StoppingCondition={"MaxRuntimeInSeconds": 60},
            )
        except ClientError as error:
            return str(error)
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            described = sagemaker.describe_training_job(TrainingJobName=job)
            if described["TrainingJobStatus"] in ("Completed", "Failed", "Stopped"):
                return str(described.get("FailureReason", ""))
            time.sleep(0.5)
        pytest.fail(f"{job} did not end")
