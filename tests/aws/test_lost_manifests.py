"""A manifest whose S3 event was dropped."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from aws_lambda_powertools.utilities.data_classes import S3EventBridgeNotificationEvent

from holdfast.aws.lost_manifests import Handed, LostManifests
from holdfast.core.model import Phase
from tests.aws.conftest import BUCKET, REGION, Aws
from tests.aws.test_intake import BUNDLE, KEY, MANIFEST, Desk, desk
from tests.builders import a_deployment

__all__ = ["desk"]  # the fixture


class Caller:
    """The real client; what it would send to the intake function is handed to the real intake instead."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.keys: list[str] = []
        self._asked: dict[str, Any] = {}
        self.client = boto3.client("lambda", region_name=REGION)
        self.client.meta.events.register("provide-client-params.lambda.Invoke", self._remember)
        self.client.meta.events.register("before-call.lambda.Invoke", self._invoke)

    def _remember(self, params: dict[str, Any], **_: Any) -> None:
        self._asked = params

    def _invoke(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        assert (self._asked["FunctionName"], self._asked["InvocationType"]) == ("holdfast-dev-intake", "Event")
        event = S3EventBridgeNotificationEvent(json.loads(self._asked["Payload"]))
        self.keys.append(event.detail.object.key)
        self.desk.intake.take(event.detail.object.key)
        return type("Http", (), {"status_code": 202})(), {"StatusCode": 202}


class Sweeper:
    def __init__(self, aws: Aws, desk: Desk) -> None:
        self.caller = Caller(desk)
        self.lost = LostManifests(
            s3=aws.s3,
            lambda_=self.caller.client,
            store=desk.store,
            bucket=BUCKET,
            intake_function="holdfast-dev-intake",
            now=lambda: datetime.now(UTC).timestamp(),
        )

    def look(self, *, since: float = -600.0, to: float = 600.0, seconds: float = 45.0) -> Handed:
        now = datetime.now(UTC).timestamp()
        return self.lost.hand_over(now + since, now + to, until=now + seconds)


@pytest.fixture
def sweeper(aws: Aws, desk: Desk) -> Sweeper:
    return Sweeper(aws, desk)


def put(desk: Desk, text: str = MANIFEST, key: str = KEY) -> None:
    """An upload whose event never comes."""
    desk.aws.s3.put_object(Bucket=BUCKET, Key=key, Body=text.encode())


def test_a_manifest_whose_event_was_dropped_is_registered_by_a_sweep(desk: Desk, sweeper: Sweeper) -> None:
    put(desk)
    assert sweeper.look() == Handed((KEY,), whole=True)
    run = desk.run()
    assert run is not None
    assert run.phase is Phase.ACCEPTED
    assert sweeper.look() == Handed((), whole=True)


def test_a_changed_manifest_whose_event_was_dropped_is_taken_in_too(desk: Desk, sweeper: Sweeper) -> None:
    desk.drop(MANIFEST)
    put(desk, MANIFEST + "state: stopped\n")
    assert sweeper.look().keys == (KEY,)
    run = desk.run()
    assert run is not None
    assert run.manifest.state == "stopped"


def test_unchanged_bytes_are_not_judged_again_under_a_newer_config(desk: Desk, sweeper: Sweeper) -> None:
    desk.drop(MANIFEST)
    _forbid_the_instance_type(desk)
    assert sweeper.look().keys == ()
    desk.intake.take(KEY)  # nor where the event comes twice
    run = desk.run()
    assert run is not None
    assert run.refused == ()


def test_its_twin_in_other_bytes_is_judged_by_the_config_of_today(desk: Desk, sweeper: Sweeper) -> None:
    desk.drop(MANIFEST)
    _forbid_the_instance_type(desk)
    put(desk, MANIFEST + "# a word\n")
    assert sweeper.look().keys == (KEY,)
    run = desk.run()
    assert run is not None
    assert run.refused
    assert sweeper.look().keys == ()  # once


def test_the_same_meaning_in_other_bytes_is_handed_over_once(desk: Desk, sweeper: Sweeper) -> None:
    desk.drop(MANIFEST)
    put(desk, MANIFEST + "\n\n")
    assert sweeper.look().keys == (KEY,)
    assert sweeper.look().keys == ()


def test_a_refused_manifest_that_is_dropped_again_is_judged_again(desk: Desk) -> None:
    desk.drop(MANIFEST)
    desk.drop(MANIFEST.replace("tiny_gpt", "not_there"))
    run = desk.run()
    assert run is not None
    assert run.refused
    desk.drop(MANIFEST)
    run = desk.run()
    assert run is not None
    assert run.refused == ()


def test_refused_bytes_that_are_dropped_again_are_judged_by_the_config_of_today(desk: Desk) -> None:
    desk.drop(MANIFEST)
    _forbid_the_instance_type(desk)
    changed = MANIFEST + "state: stopped\n"
    assert not desk.drop(changed).accepted
    _allow(desk, "ml.m5.xlarge")
    assert desk.drop(changed).accepted
    run = desk.run()
    assert run is not None
    assert (run.refused, run.manifest.state) == ((), "stopped")


def test_a_manifest_of_last_year_is_left_alone_although_the_table_is_empty(desk: Desk, sweeper: Sweeper) -> None:
    put(desk)
    assert sweeper.look(since=60.0).keys == ()
    assert desk.run() is None


def test_a_listing_that_ran_out_of_time_is_not_whole(desk: Desk, sweeper: Sweeper) -> None:
    put(desk)
    assert sweeper.look(seconds=-1.0) == Handed((), whole=False)


def test_a_file_with_a_name_that_no_run_can_have_reaches_its_author_all_the_same(desk: Desk, sweeper: Sweeper) -> None:
    put(desk, key="manifests/research/Tiny_Run.yaml")
    sweeper.look()
    assert desk.status("research/Tiny_Run.yaml")["phase"] == "refused"


def test_what_cannot_be_listed_is_said_and_tried_again(desk: Desk, sweeper: Sweeper) -> None:
    put(desk)
    sweeper.lost._bucket = "gone"
    handed = sweeper.look()
    assert not handed.whole
    assert "NoSuchBucket" in handed.error


def _forbid_the_instance_type(desk: Desk) -> None:
    _allow(desk, "ml.g5.12xlarge")


def _allow(desk: Desk, instance_type: str) -> None:
    newer = a_deployment(bucket=BUCKET, instance_types=(instance_type,)).model_dump_json()
    desk.aws.s3.put_object(Bucket=BUCKET, Key=f"templates/{BUNDLE}/deployment.json", Body=newer.encode())
    desk.intake._artifacts._deployments.clear()
