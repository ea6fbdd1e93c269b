from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from holdfast.aws.artifacts import Artifacts
from holdfast.aws.intake import Intake, IntakeDeniedError
from holdfast.aws.publisher import Publisher
from holdfast.aws.store import DynamoStore
from holdfast.core.layout import bundle_prefix
from holdfast.core.model import Phase, Run
from tests.aws.conftest import BUCKET, TABLE, Aws
from tests.aws.test_publisher import inbox, publisher
from tests.builders import a_deployment, some_pins

BUNDLE = some_pins().bundle
MANIFEST = """
apiVersion: holdfast/v1
kind: TrainingRun
template: tiny_gpt
image: pytorch-cpu
resources:
  instance_type: ml.m5.xlarge
  instance_count: 2
"""
KEY = "manifests/research/tiny.yaml"


class Desk:
    """An intake with its account; `drop` is a person's upload and the event that follows it."""

    def __init__(self, aws: Aws, made: Publisher, url: str) -> None:
        self.aws, self.url = aws, url
        self.store = DynamoStore(aws.dynamodb, TABLE)
        self._uids = iter(f"uid-{number}" for number in range(100))
        self.intake = Intake(
            s3=aws.s3,
            bucket=BUCKET,
            store=self.store,
            artifacts=Artifacts(s3=aws.s3, bucket=BUCKET),
            publisher=made,
            bundle=lambda: BUNDLE,
            mint_uid=lambda: next(self._uids),
            now=lambda: 1_764_000_000.0,
        )

    def drop(self, text: str | bytes, key: str = KEY) -> Any:
        body = text.encode() if isinstance(text, str) else text
        self.aws.s3.put_object(Bucket=BUCKET, Key=key, Body=body)
        return self.intake.take(key)

    def run(self, team: str = "research", name: str = "tiny") -> Run | None:
        return self.store.get(team, name)

    def status(self, place: str = "research/tiny") -> dict[str, Any]:
        body = self.aws.s3.get_object(Bucket=BUCKET, Key=f"status/{place}.json")["Body"].read()
        document: dict[str, Any] = json.loads(body)
        return document

    def mail(self) -> list[str]:
        return inbox(self.aws, self.url)


@pytest.fixture
def desk(aws: Aws) -> Desk:
    topic = aws.sns.create_topic(Name="people")["TopicArn"]
    url = aws.sqs.create_queue(QueueName="inbox")["QueueUrl"]
    arn = aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    aws.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    document = a_deployment(bucket=BUCKET).model_dump_json()
    aws.s3.put_object(Bucket=BUCKET, Key=f"{bundle_prefix(BUNDLE)}deployment.json", Body=document.encode())
    return Desk(aws, publisher(aws, topic), url)


def test_a_good_manifest_becomes_a_run_with_a_uid_and_pins(desk: Desk) -> None:
    assert desk.drop(MANIFEST).accepted
    run = desk.run()
    assert run is not None
    assert (run.phase, run.uid, run.pins.bundle) == (Phase.ACCEPTED, "uid-0", BUNDLE)
    assert desk.status()["manifest"]["accepted"] is True
    assert desk.status()["manifest"]["errors"] == []


def test_what_the_author_should_know_of_a_good_manifest_stands_in_its_status(desk: Desk) -> None:
    desk.drop(MANIFEST)
    assert "watch.stall_after_seconds is not set" in desk.status()["manifest"]["note"]
    desk.drop(
        MANIFEST + "watch:\n  stall_after_seconds: 600\n  start_after_seconds: 900\n", "manifests/vision/tiny.yaml"
    )
    assert desk.status("vision/tiny")["manifest"]["note"] is None


def test_the_same_bytes_again_change_nothing(desk: Desk) -> None:
    desk.drop(MANIFEST)
    before = desk.run()
    assert desk.drop(MANIFEST).accepted
    assert desk.run() == before


def test_a_bad_manifest_is_answered_with_every_error_at_once_and_a_notice(desk: Desk) -> None:
    bad = MANIFEST.replace("tiny_gpt", "tiny_gtp").replace("instance_count: 2", "instance_count: two\n  volumesize: 1")
    assert not desk.drop(bad).accepted
    assert desk.run() is None
    errors = desk.status()["manifest"]["errors"]
    assert {"template", "resources.instance_count", "resources.volumesize"} <= {
        one.split(":")[0].split(" ")[0] for one in errors
    }
    assert len(desk.mail()) == 1


def test_a_refused_change_leaves_the_run_that_is_there_going_on(desk: Desk) -> None:
    desk.drop(MANIFEST)
    assert not desk.drop("{").accepted
    run = desk.run()
    assert run is not None
    assert run.phase is Phase.ACCEPTED
    assert run.refused
    assert [one.kind for one in run.notices] == ["refused"]
    assert desk.status()["manifest"]["accepted"] is False


@pytest.mark.parametrize(
    "body", [b"", b"\x00\xff", b"a: &x [1]\nb: *x", b"x" * 10_000_000], ids=["empty", "binary", "alias", "10 MB"]
)
def test_hostile_bytes_are_refused_in_words_and_never_raise(desk: Desk, body: bytes) -> None:
    taken = desk.drop(body)
    assert not taken.accepted
    assert desk.status()["manifest"]["errors"]


def test_two_teams_with_a_run_of_the_same_name_do_not_meet(desk: Desk) -> None:
    desk.drop(MANIFEST)
    desk.drop(MANIFEST, "manifests/vision/tiny.yaml")
    first, second = desk.run("research"), desk.run("vision")
    assert first is not None
    assert second is not None
    assert first.uid != second.uid


def test_a_yaml_and_a_json_of_one_name_conflict(desk: Desk) -> None:
    desk.drop(MANIFEST)
    taken = desk.drop(json.dumps({"apiVersion": "holdfast/v1"}), "manifests/research/tiny.json")
    assert not taken.accepted
    assert "tiny.yaml" in taken.words


@pytest.mark.parametrize("key", ["manifests/research/Tiny_Run.yaml", "manifests/research/tiny.txt"])
def test_a_file_whose_name_no_job_can_have_is_refused_beside_its_place(desk: Desk, key: str) -> None:
    assert not desk.drop(MANIFEST, key).accepted
    assert desk.status(key.removeprefix("manifests/"))["phase"] == "refused"
    assert len(desk.mail()) == 1


def test_a_stray_file_of_a_runs_name_leaves_that_runs_status_alone(desk: Desk) -> None:
    desk.drop(MANIFEST)
    desk.drop(b"notes", "manifests/research/tiny.txt")
    assert desk.status()["phase"] == "accepted"


def test_a_key_that_lies_too_deep_is_told_and_writes_no_status(desk: Desk) -> None:
    assert not desk.drop(MANIFEST, "manifests/research/deep/../tiny.yaml").accepted
    listed = desk.aws.s3.list_objects_v2(Bucket=BUCKET, Prefix="status/")
    assert listed["KeyCount"] == 0
    assert len(desk.mail()) == 1


def test_a_manifest_that_was_deleted_meanwhile_changes_nothing(desk: Desk) -> None:
    assert not desk.intake.take(KEY).accepted
    assert desk.run() is None


SOURCED = MANIFEST + f"source:\n  archive: s3://{BUCKET}/data/research/code.tar.gz\n  entry_point: train.py\n"


def test_a_teams_own_code_is_copied_and_pinned_by_its_digest(desk: Desk) -> None:
    desk.aws.s3.put_object(Bucket=BUCKET, Key="data/research/code.tar.gz", Body=b"first")
    assert desk.drop(SOURCED).accepted
    desk.aws.s3.put_object(Bucket=BUCKET, Key="data/research/code.tar.gz", Body=b"second")
    run = desk.run()
    assert run is not None
    kept = desk.aws.s3.get_object(Bucket=BUCKET, Key=f"{run.pins.code_prefix}source.tar.gz")["Body"].read()
    assert kept == b"first"


def test_code_that_is_not_there_is_refused_in_words(desk: Desk) -> None:
    taken = desk.drop(SOURCED)
    assert not taken.accepted
    assert "does not exist" in taken.words


def test_another_teams_code_is_refused_although_it_is_there(desk: Desk) -> None:
    desk.aws.s3.put_object(Bucket=BUCKET, Key="data/vision/code.tar.gz", Body=b"theirs")
    taken = desk.drop(SOURCED.replace("data/research", "data/vision"))
    assert not taken.accepted
    assert "data/research/" in taken.words


def test_an_older_manifest_is_never_written_over_a_newer_one(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.drop(MANIFEST)
    save = desk.store.save
    newer = MANIFEST + "state: stopped\n"

    def while_another_one_is_handled(run: Run) -> Run:
        monkeypatch.setattr(desk.store, "save", save)
        desk.drop(newer)
        return save(run)

    monkeypatch.setattr(desk.store, "save", while_another_one_is_handled)
    desk.drop(MANIFEST + "hyperparameters: {steps: 3}\n")
    run = desk.run()
    assert run is not None
    assert run.manifest.state == "stopped"


def test_the_run_is_read_before_the_text_so_that_a_newer_text_makes_the_save_conflict(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.drop(MANIFEST)
    read = desk.intake._read
    newer = MANIFEST + "state: stopped\n"

    def and_then_another_one_is_handled(key: str) -> bytes | None:
        text = read(key)
        monkeypatch.setattr(desk.intake, "_read", read)
        desk.drop(newer)
        return text

    desk.aws.s3.put_object(Bucket=BUCKET, Key=KEY, Body=(MANIFEST + "hyperparameters: {steps: 3}\n").encode())
    monkeypatch.setattr(desk.intake, "_read", and_then_another_one_is_handled)
    desk.intake.take(KEY)
    run = desk.run()
    assert run is not None
    assert run.manifest.state == "stopped"


def deny(client: Any, call: str) -> None:
    """From now on the client's call is denied, before anything is sent."""

    def denied(**_: object) -> None:
        said = {"Code": "AccessDenied", "Message": "User: intake is not authorized to perform it"}
        raise ClientError({"Error": said}, call)

    client.meta.events.register(f"before-call.s3.{call}", denied)


def test_a_manifest_that_may_not_be_read_is_neither_registered_nor_refused_and_its_people_know(desk: Desk) -> None:
    deny(desk.aws.s3, "ListObjectsV2")
    with pytest.raises(IntakeDeniedError, match=r"tiny\.yaml was not taken\. .*ListObjectsV2: AccessDenied"):
        desk.drop(MANIFEST)
    assert desk.run() is None
    status = desk.status()
    assert (status["phase"], status["manifest"]["accepted"]) == ("untaken", None)
    assert "drop the manifest again" in status["denied"]
    (told,) = inbox(desk.aws, desk.url)
    assert "could not be taken yet" in json.dumps(told)


def test_code_that_holdfast_may_not_copy_refuses_no_manifest(desk: Desk) -> None:
    desk.aws.s3.put_object(Bucket=BUCKET, Key="data/research/code.tar.gz", Body=b"code")
    deny(desk.aws.s3, "CopyObject")
    with pytest.raises(IntakeDeniedError, match="CopyObject: AccessDenied"):
        desk.drop(f"{MANIFEST}source: {{archive: s3://{BUCKET}/data/research/code.tar.gz, entry_point: train.py}}")
    assert desk.run() is None


def test_a_run_is_registered_although_its_status_may_not_be_written_yet(desk: Desk) -> None:
    desk.aws.s3.put_object(Bucket=BUCKET, Key=KEY, Body=MANIFEST.encode())
    deny(desk.aws.s3, "PutObject")
    taken = desk.intake.take(KEY)
    assert taken.accepted
    assert "PutObject: AccessDenied" in taken.words
    run = desk.run()
    assert run is not None
    assert run.status_due
