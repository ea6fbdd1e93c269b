"""The demo's view of the account: what a person with the AWS CLI could do and see."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import boto3

from holdfast.aws.evidence import LOG_GROUP
from holdfast.aws.ledger import read_seals
from holdfast.aws.store import DynamoStore
from holdfast.core.layout import checkpoint_prefix, manifest_key, status_key
from holdfast.core.model import Run
from holdfast_agent.contract import Heartbeat, parse_heartbeat
from sandbox.cloud.lifecycle import Cloud

LATE_SECONDS = 10.0


@dataclass(frozen=True)
class Beat:
    """One heartbeat line of a job's log; `at` is the log event's time in epoch seconds."""

    at: float
    heartbeat: Heartbeat


class Account:
    """Clients of the embedded cloud, with its root key: the demo's person may see everything."""

    def __init__(self, cloud: Cloud, *, bucket: str, table: str) -> None:
        arguments: Any = cloud.client_arguments()
        self._s3 = boto3.client("s3", **arguments)
        self._sagemaker = boto3.client("sagemaker", **arguments)
        self._logs = boto3.client("logs", **arguments)
        self._store = DynamoStore(boto3.client("dynamodb", **arguments), table)
        self._bucket = bucket
        self._beats: dict[str, dict[tuple[float, str], Heartbeat]] = {}

    def drop(self, team: str, name: str, text: bytes) -> None:
        self._s3.put_object(Bucket=self._bucket, Key=manifest_key(team, name), Body=text)

    def give(self, key: str, body: bytes) -> None:
        self._s3.put_object(Bucket=self._bucket, Key=key, Body=body)

    def stop(self, job: str) -> None:
        self._sagemaker.stop_training_job(TrainingJobName=job)

    def lives(self, job: str) -> int:
        """How often SageMaker itself began the job: more than once after a spot interruption."""
        described = self._sagemaker.describe_training_job(TrainingJobName=job)
        return sum(1 for one in described["SecondaryStatusTransitions"] if one["Status"] == "Training")

    def status(self, team: str, name: str) -> dict[str, Any] | None:
        try:
            body = self._s3.get_object(Bucket=self._bucket, Key=status_key(team, name))["Body"].read()
        except self._s3.exceptions.NoSuchKey:
            return None
        document: dict[str, Any] = json.loads(body)
        return document

    def run(self, team: str, name: str) -> Run | None:
        return self._store.get(team, name)

    def newest_sealed_step(self, run: Run) -> int | None:
        prefix = checkpoint_prefix(run.team, run.name, run.manifest.generation)
        return read_seals(self._s3, bucket=self._bucket, prefix=prefix, run=run.id).newest_step

    def beats(self, job: str) -> list[Beat]:
        """Heartbeats of a job so far, oldest first. A job whose log does not exist yet has none.

        What was read before is kept, so that watching a run does not cost its whole log each second.
        """
        held = self._beats.setdefault(job, {})
        newest = max((at for at, _ in held), default=0.0)
        pages = self._logs.get_paginator("filter_log_events").paginate(
            logGroupName=LOG_GROUP,
            logStreamNamePrefix=f"{job}/",
            # Lines of several streams arrive out of order by a few seconds.
            startTime=int(max(0.0, newest - LATE_SECONDS) * 1000),
        )
        try:
            for page in pages:
                for event in page["events"]:
                    heartbeat = parse_heartbeat(event["message"])
                    if heartbeat is not None:
                        held[event["timestamp"] / 1000, event["message"]] = heartbeat
        except self._logs.exceptions.ResourceNotFoundException:
            return []
        return sorted((Beat(at, heartbeat) for (at, _), heartbeat in held.items()), key=lambda beat: beat.at)
