"""An embedded cloud into which nobody has deployed yet, and `holdfast acceptance` as a person starts it there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from holdfast.core.acceptance.recording import Recording, parse_recording
from holdfast.core.config import AccountConfig
from holdfast.core.quotas.catalogue import warm_pool
from holdfast.core.read_config import read_config
from sandbox.cloud.lifecycle import Cloud, running_cloud
from sandbox.cloud.ticker import Ticker
from sandbox.sagemaker.client import FaultClient
from tests.sandbox.cloud.processes import heed_ctrl_c

REPOSITORY = Path(__file__).resolve().parents[3]
TICK_SECONDS = 4.0
# Not the installed script: it may be another tree's.
COMMAND = "from holdfast.cli.main import app; app()"


@dataclass
class Stage:
    cloud: Cloud
    config: AccountConfig
    faults: FaultClient

    def client(self, service: str) -> Any:
        return boto3.client(service, **self.cloud.client_arguments())  # type: ignore[call-overload]

    def start(self, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, "acceptance", "--account", "sandbox", *options],
            cwd=self.cloud.state_dir,
            # The endpoint comes by AWS_ENDPOINT_URL, as for any tool that is built on the AWS SDK.
            env={**self.cloud.env(os.environ), "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=heed_ctrl_c,  # noqa: PLW1509 - it only sets a signal
        )

    def accept(self, out: Path, *options: str, seconds: float = 240.0) -> tuple[Recording, str]:
        """What it recorded, and what it printed."""
        process = self.start("--out", str(out), *options)
        try:
            told, _ = process.communicate(timeout=seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.returncode == 0, told[-6_000:]
        return parse_recording(out.read_text()), told

    def live_jobs(self) -> list[str]:
        page = self.client("sagemaker").list_training_jobs(StatusEquals="InProgress", MaxResults=100)
        return [one["TrainingJobName"] for one in page["TrainingJobSummaries"]]


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    config = read_config((REPOSITORY / "config/sandbox.yaml").read_text())
    with running_cloud(tmp_path_factory.mktemp("accept"), region=config.region, account=config.account) as cloud:
        faults = FaultClient(cloud.endpoint_url, region=cloud.region, access_key_id="test", secret_access_key="test")
        # AWS starts every account without warm pools, and then the trial of two jobs in a row has nothing to look at.
        for instance_type in config.instance_types:
            faults.set_quota(warm_pool(instance_type), 2)
        found = Stage(cloud, config, faults)
        with ticking_once_deployed(found):
            yield found


@contextmanager
def ticking_once_deployed(stage: Stage) -> Iterator[None]:
    """The watcher's ticks, from the moment when the acceptance itself has deployed the watcher."""
    over = threading.Event()

    def tick() -> None:
        while not over.is_set():
            function = _reconcile_function(stage)
            if function is not None:
                with Ticker(stage.cloud, function, every_seconds=TICK_SECONDS):
                    over.wait()
            over.wait(1.0)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(15)


def _reconcile_function(stage: Stage) -> str | None:
    name = f"holdfast-{stage.config.environment}-control-plane"
    try:
        (stack,) = stage.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    except (ClientError, ValueError):
        return None
    if stack["StackStatus"] not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
        return None
    return next(one["OutputValue"] for one in stack["Outputs"] if one["OutputKey"] == "ReconcileFunction")


def until(condition: Any, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come in {seconds:.0f} s"
        time.sleep(0.2)
