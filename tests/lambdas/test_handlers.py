"""Each handler as Lambda imports and calls it, against an account in memory."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest

from holdfast.aws.settings import IntakeSettings, ReconcileSettings
from holdfast.aws.store import DynamoStore
from holdfast.core.layout import bundle_prefix
from holdfast.core.model import Phase
from sandbox.cloud.ticker import scheduled_event
from tests.aws.conftest import BUCKET, TABLE, Aws, aws
from tests.aws.test_intake import KEY, MANIFEST
from tests.builders import a_deployment, some_pins

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
__all__ = ["aws"]  # the fixture


@dataclass
class Context:
    function_name: str = "holdfast"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:holdfast"
    aws_request_id: str = "request"

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        return 30_000


@pytest.fixture
def load(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a handler's module with the settings that the stack would give it."""
    topic = aws.sns.create_topic(Name="people")["TopicArn"]
    aws.ssm.put_parameter(Name="/holdfast/dev/bundle", Value=some_pins().bundle, Type="String")
    document = a_deployment(bucket=BUCKET, environment="dev").model_dump_json()
    aws.s3.put_object(Bucket=BUCKET, Key=f"{bundle_prefix(some_pins().bundle)}deployment.json", Body=document.encode())
    monkeypatch.setenv("POWERTOOLS_TRACE_DISABLED", "1")
    settings = {
        "intake": IntakeSettings(bucket=BUCKET, table=TABLE, bundle_parameter="/holdfast/dev/bundle", topic_arn=topic),
        "reconcile": ReconcileSettings(
            bucket=BUCKET,
            table=TABLE,
            environment="dev",
            topic_arn=topic,
            poll_seconds=60,
            status_refresh_seconds=600,
            intake_function="holdfast-dev-intake",
        ),
    }
    loaded = []

    def load(name: str) -> ModuleType:
        for variable, value in settings[name].to_env().items():
            monkeypatch.setenv(variable, value)
        loaded.append(f"lambdas.{name}")
        sys.modules.pop(f"lambdas.{name}", None)
        return importlib.import_module(f"lambdas.{name}")

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


def dropped(key: str) -> dict[str, Any]:
    """S3's event as EventBridge delivers it (Amazon S3 user guide, ev-events)."""
    return {
        "version": "0",
        "id": "2ee9cc15-d022-99ea-1fb8-1b1bac4850f9",
        "detail-type": "Object Created",
        "source": "aws.s3",
        "account": "123456789012",
        "time": "2026-12-01T00:00:00Z",
        "region": "us-east-1",
        "resources": [f"arn:aws:s3:::{BUCKET}"],
        "detail": {
            "version": "0",
            "bucket": {"name": BUCKET},
            "object": {"key": key, "size": 5, "etag": "b57f9512698f4b09e608f4f2a65852e5", "sequencer": "1"},
            "request-id": "R",
            "requester": "123456789012",
            "source-ip-address": "1.2.3.4",
            "reason": "PutObject",
        },
    }


def test_a_dropped_manifest_is_registered_and_the_next_tick_creates_its_job(
    aws: Aws, load: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    aws.s3.put_object(Bucket=BUCKET, Key=KEY, Body=MANIFEST.encode())
    assert load("intake").handler(dropped(KEY), Context()) == {"run": "research/tiny", "accepted": True}
    tick = scheduled_event(account="123456789012", region="us-east-1", rule="tick", now=NOON)
    assert load("reconcile").handler(tick, Context()) == {"runs": 1, "left": 0}
    run = DynamoStore(aws.dynamodb, TABLE).get("research", "tiny")
    assert run is not None
    assert run.attempt is not None
    assert run.phase is Phase.STARTING
    job = aws.sagemaker.describe_training_job(TrainingJobName=run.attempt.job)
    assert job["RoleArn"].endswith("-research")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith('{"level"')]
    assert {(line["run"], line.get("decision")) for line in lines if "run" in line} == {
        ("research/tiny", None),
        ("research/tiny", "CreateAttempt"),
    }


def test_a_refused_manifest_is_an_answer_and_no_failed_call(aws: Aws, load: Callable[[str], ModuleType]) -> None:
    aws.s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"\xff\x00")
    assert load("intake").handler(dropped(KEY), Context())["accepted"] is False


def test_an_event_of_a_job_that_is_no_runs_newest_changes_nothing(aws: Aws, load: Callable[[str], ModuleType]) -> None:
    event = {
        **dropped("x"),
        "source": "aws.sagemaker",
        "detail": {"TrainingJobName": "dev-forged", "TrainingJobStatus": "Failed"},
    }
    assert load("reconcile").handler(event, Context()) == {"runs": 0, "left": 0}
