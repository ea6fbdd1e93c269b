"""`python -m sandbox.demo`: brings up the embedded cloud, deploys the stacks, and shows eight manifests go their ways.

Prints as it happens, ends with a table, and writes the same to .sandbox/summary.json. Exit code 0 only if every
invariant holds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.table import Table

from holdfast.core.config import AccountConfig
from holdfast.core.read_config import read_config
from sandbox.cloud.deploy import CdkApp, DeployError, deploy
from sandbox.cloud.lifecycle import CloudError, new_state_dir, running_cloud
from sandbox.cloud.state import LOG_FILE
from sandbox.cloud.ticker import Ticker
from sandbox.demo.account import Account
from sandbox.demo.mishaps import freeze, kill_a_host, stop_by_hand, take_the_spot_host
from sandbox.demo.scene import DemoError, Scene, Watched
from sandbox.demo.summary import invariants, invariants_of_mishaps, refused_row, row
from sandbox.granted import grant_wanted_quotas
from sandbox.sagemaker.client import FaultClient, FaultError

REPOSITORY = Path(__file__).resolve().parents[2]
CONFIG = "config/sandbox.yaml"
STATE = Path(".sandbox")
SUMMARY = STATE / "summary.json"
WRONG_IN_BAD = (
    "name",
    "template",
    "resources.instance_type",
    "resources.instance_count",
    "resources.volume_size_gb",
    "data[0].s3",
    "watch.stall_after_seconds",
    "role",
)


class Stage:
    """Prints lines with the seconds since the start and the run they are about."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        # soft_wrap: a line that is piped into a file must stay one line; so must a row of the table.
        self.console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)

    def say(self, who: str, words: str) -> None:
        self.console.print(f"{time.monotonic() - self._began:6.1f} s  {who:<9} {words}", markup=False)


def main() -> int:
    stage = Stage()
    config = read_config((REPOSITORY / CONFIG).read_text())
    SUMMARY.unlink(missing_ok=True)  # an interrupted demo must not leave the one before as its own
    try:
        document = perform(stage, config)
    except (DemoError, DeployError, CloudError) as error:
        stage.say("demo", f"FAILED: {error}")
        return 1
    except (BotoCoreError, ClientError, FaultError, ConnectionError) as error:
        stage.say("demo", f"FAILED: the embedded AWS did not answer as it should: {error}")
        stage.say("demo", f"its log is {LOG_FILE} in the newest folder of {STATE.absolute()}")
        return 1
    except KeyboardInterrupt:
        stage.say("demo", "interrupted; everything it started has been ended")
        return 130
    SUMMARY.parent.mkdir(exist_ok=True)
    SUMMARY.write_text(json.dumps(document, indent=1) + "\n")
    show(stage.console, document)
    broken = [name for name, holds in document["invariants"].items() if not holds]
    stage.say("demo", f"FAILED: {', '.join(broken)}" if broken else "every invariant holds; see .sandbox/summary.json")
    return 1 if broken else 0


def perform(stage: Stage, config: AccountConfig) -> dict[str, Any]:
    """The whole demo; its summary. Nothing that it started runs on after it."""
    with running_cloud(new_state_dir(STATE), region=config.region, account=config.account) as cloud:
        stage.say("cloud", f"an embedded AWS listens on {cloud.endpoint_url}; its log is {cloud.log_file}")
        grant_wanted_quotas(cloud, config)
        app = CdkApp(folder=REPOSITORY, context={"config": CONFIG})
        outputs = deploy(cloud, app, environment=os.environ, report=lambda words: stage.say("deploy", words))
        storage, plane = (
            outputs[f"holdfast-{config.environment}-storage"],
            outputs[f"holdfast-{config.environment}-control-plane"],
        )
        account = Account(cloud, bucket=storage["BucketName"], table=storage["TableName"])
        faults = FaultClient(cloud.endpoint_url, region=cloud.region, access_key_id="test", secret_access_key="test")
        scene = Scene(account, say=stage.say)

        def failed(words: str) -> None:
            stage.say("ticker", words)

        with Ticker(cloud, plane["ReconcileFunction"], every_seconds=config.poll_seconds, on_failure=failed):
            scene.give_code()
            main_scenes = [scene.drop("healthy"), scene.drop("frozen", freeze(faults))]
            refused = scene.refused(scene.drop("bad"))

            def drop_the_rest() -> list[Watched]:
                faults.refuse_capacity_while_pending(f"{config.environment}-research-crowded-*", count=2)
                return [
                    scene.drop("killed", kill_a_host(faults)),
                    scene.drop("broken"),
                    scene.drop("crowded"),
                    scene.drop("spot", take_the_spot_host(faults)),
                    scene.drop("person", stop_by_hand),
                ]

            healthy, frozen, *others = scene.play(main_scenes, drop_the_rest)
        by_name = {story.run.name: story for story in others}
        return {
            "runs": [*(row(story) for story in (healthy, frozen, *others)), refused_row("research/bad", refused)],
            "invariants": {
                **invariants(healthy, frozen, refused, WRONG_IN_BAD),
                **invariants_of_mishaps(by_name),
            },
        }


def show(console: Console, document: dict[str, Any]) -> None:
    """Times are seconds: from the hang to its detection, from there to the stop, and from there to training."""
    table = Table(title="What became of the manifests (times in seconds)")
    for column in ("run", "phase", "attempts", "cause"):
        table.add_column(column)
    for column in ("detected", "stopped", "training", "lost", "steps"):
        table.add_column(column, justify="right")
    for one in document["runs"]:
        times = ("seconds_hang_to_detected", "seconds_detected_to_stopped", "seconds_detected_to_training")
        table.add_row(
            one["name"].partition("/")[2],
            one["phase"],
            str(len(one["attempts"])),
            one["cause"] or "",
            *("" if one[name] is None else f"{one[name]:.1f}" for name in times),
            "" if one["steps_lost"] is None else str(one["steps_lost"]),
            "" if one["final_step"] is None else f"{one['final_step']}/{one['target_step']}",
        )
    console.print(table)
    console.print("detected: after the freeze; stopped, training again: after that; lost: steps trained twice")
    for name, holds in document["invariants"].items():
        console.print(f"  {'holds ' if holds else 'BROKEN'} {name.replace('_', ' ')}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
