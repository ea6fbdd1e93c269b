"""The whole product in one embedded cloud: the stacks deployed, the watcher ticking, people dropping manifests."""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from holdfast.core.config import AccountConfig
from holdfast.core.model import Run
from holdfast.core.read_config import read_config
from sandbox.cloud.deploy import CdkApp, Outputs, deploy
from sandbox.cloud.lifecycle import Cloud, running_cloud
from sandbox.cloud.ticker import Ticker
from sandbox.demo.account import Account
from sandbox.granted import grant_wanted_quotas
from sandbox.sagemaker.client import FaultClient

REPOSITORY = Path(__file__).resolve().parents[3]
CONFIG = "config/sandbox.yaml"
TICK_SECONDS = 4.0


@dataclass
class Whole:
    """What the tests of this folder share."""

    cloud: Cloud
    config: AccountConfig
    outputs: Outputs
    account: Account
    faults: FaultClient
    dropped: set[str] = field(default_factory=set)

    def client(self, service: str) -> Any:
        return boto3.client(service, **self.cloud.client_arguments())  # type: ignore[call-overload]

    def give_code(self, team: str) -> str:
        """A tarball of train.py in the team's own prefix; its address."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            archive.add(Path(__file__).with_name("train.py"), "train.py")
        key = f"data/{team}/code/train.tar.gz"
        self.client("s3").put_object(Bucket=self.config.bucket, Key=key, Body=packed.getvalue())
        return f"s3://{self.config.bucket}/{key}"

    def manifest(self, *, team: str = "research", hosts: int = 1, **fields: Any) -> dict[str, Any]:
        return {
            "apiVersion": "holdfast/v1",
            "kind": "TrainingRun",
            "template": "tiny_gpt",
            "image": "pytorch-cpu",
            "source": {"archive": self.give_code(team), "entry_point": "train.py"},
            "resources": {"instance_type": "ml.m5.xlarge", "instance_count": hosts, "launch": "python"},
            "limits": {"max_run_seconds": 600, "backoff_seconds": 0, "max_restarts": 1},
            **fields,
        }

    def drop(self, name: str, manifest: dict[str, Any], team: str = "research") -> None:
        self.account.drop(team, name, yaml.safe_dump(manifest).encode())

    @contextmanager
    def no_events_of_manifests(self) -> Iterator[None]:
        """S3's events are lost while this lasts: the rule that would hand them to intake is off."""
        events = self.client("events")
        (rule,) = [one["Name"] for one in events.list_rules()["Rules"] if "ManifestDropped" in one["Name"]]
        events.disable_rule(Name=rule)
        try:
            yield
            time.sleep(3)  # an event takes less than a second here; one that came late would be heard after all
        finally:
            events.enable_rule(Name=rule)

    def run(self, name: str, team: str = "research") -> Run | None:
        return self.account.run(team, name)

    def until(self, name: str, holds: Callable[[Run], Any], *, team: str = "research", seconds: float = 120.0) -> Run:
        """The run once `holds` is true of it."""
        deadline = time.monotonic() + seconds
        run = None
        while time.monotonic() < deadline:
            run = self.run(name, team)
            if run is not None and holds(run):
                return run
            time.sleep(0.3)
        pytest.fail(
            f"{team}/{name} did not get there in {seconds:.0f} s; it is {run and (run.phase, run.why, run.health)}"
        )

    def until_settled(self, name: str, *, team: str = "research") -> Run:
        return self.until(name, lambda run: run.phase.terminal and not run.active, team=team)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    config = read_config((REPOSITORY / CONFIG).read_text())
    with running_cloud(tmp_path_factory.mktemp("whole"), region=config.region, account=config.account) as cloud:
        grant_wanted_quotas(cloud, config)
        app = CdkApp(folder=REPOSITORY, context={"config": CONFIG})
        outputs = deploy(cloud, app, environment=os.environ)
        storage, plane = outputs["holdfast-sandbox-storage"], outputs["holdfast-sandbox-control-plane"]
        faults = FaultClient(cloud.endpoint_url, region=cloud.region, access_key_id="test", secret_access_key="test")
        account = Account(cloud, bucket=storage["BucketName"], table=storage["TableName"])
        with Ticker(cloud, plane["ReconcileFunction"], every_seconds=TICK_SECONDS):
            yield Whole(cloud, config, outputs, account, faults)
