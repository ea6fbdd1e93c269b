from dataclasses import replace

import pytest

from holdfast.aws.store import ConflictError, DynamoStore, Unreadable
from holdfast.core.model import Attempt, Phase, Run
from tests.aws.conftest import TABLE, Aws
from tests.builders import a_run


def test_a_saved_run_reads_back_as_it_was(aws: Aws) -> None:
    store = DynamoStore(aws.dynamodb, TABLE)
    attempt = Attempt(
        1, "job", "spec", "digest", 1.5, request={"TrainingJobName": "job", "HyperParameters": {"a": "1"}}
    )
    saved = store.save(a_run(attempts=(attempt,), due_at=12.25))
    assert store.get("research", "tiny") == saved
    assert saved.version == 1


def test_a_run_that_is_not_there_is_none(aws: Aws) -> None:
    assert DynamoStore(aws.dynamodb, TABLE).get("research", "nobody") is None


def test_the_second_of_two_writers_is_refused_and_writes_nothing(aws: Aws) -> None:
    store = DynamoStore(aws.dynamodb, TABLE)
    read = store.save(a_run())
    store.save(replace(read, why="first"))
    with pytest.raises(ConflictError):
        store.save(replace(read, why="second"))
    held = store.get("research", "tiny")
    assert held is not None
    assert held.why == "first"


def test_a_new_run_does_not_overwrite_one_that_is_there(aws: Aws) -> None:
    store = DynamoStore(aws.dynamodb, TABLE)
    store.save(a_run())
    with pytest.raises(ConflictError):
        store.save(a_run())


def test_two_teams_with_a_run_of_the_same_name_do_not_meet(aws: Aws) -> None:
    store = DynamoStore(aws.dynamodb, TABLE)
    store.save(a_run(team="research"))
    store.save(a_run(team="vision"))
    assert {run.id for run in store.active()} == {"research/tiny", "vision/tiny"}


def test_a_run_leaves_the_active_index_only_when_it_ended_and_nothing_is_owed(aws: Aws) -> None:
    store = DynamoStore(aws.dynamodb, TABLE)
    ended = store.save(a_run(phase=Phase.SUCCEEDED, status_due=True))
    assert [run.id for run in store.active()] == [ended.id]
    store.save(replace(ended, status_due=False))
    assert list(store.active()) == []


def test_a_record_that_cannot_be_read_does_not_hide_the_others(aws: Aws) -> None:
    store = DynamoStore(aws.dynamodb, TABLE)
    store.save(a_run(name="sound"))
    for name, record in (("no-json", "{"), ("of-a-later-version", '{"team": "research"}')):
        aws.dynamodb.put_item(
            TableName=TABLE,
            Item={
                "pk": {"S": f"run#research/{name}"},
                "version": {"N": "1"},
                "record": {"S": record},
                "active": {"S": "1"},
                "due": {"N": "0"},
            },
        )
    found = list(store.active())
    assert {one.id for one in found if isinstance(one, Unreadable)} == {
        "research/no-json",
        "research/of-a-later-version",
    }
    assert [one.id for one in found if isinstance(one, Run)] == ["research/sound"]
