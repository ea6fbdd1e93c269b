from __future__ import annotations

import json
from dataclasses import replace

import pytest
from botocore.exceptions import ClientError

from holdfast.aws.publisher import Publisher
from holdfast.core.model import Attempt, Notice
from tests.aws.conftest import BUCKET, TABLE, Aws
from tests.builders import a_run

NOTICE = Notice(id="uid/hung/job", team="research", kind="hung", subject="Holdfast: research/tiny hung", body="why")


@pytest.fixture
def queue(aws: Aws) -> tuple[str, str]:
    topic = aws.sns.create_topic(Name="people")["TopicArn"]
    url = aws.sqs.create_queue(QueueName="inbox")["QueueUrl"]
    arn = aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    aws.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    return topic, url


class Context:
    """What Powertools needs of Lambda's context: how long a send may take before it counts as dead."""

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        return 30_000


def publisher(aws: Aws, topic: str) -> Publisher:
    made = Publisher(s3=aws.s3, sns=aws.sns, dynamodb=aws.dynamodb, bucket=BUCKET, topic_arn=topic, table=TABLE)
    made.idempotency.register_lambda_context(Context())
    return made


def inbox(aws: Aws, url: str) -> list[str]:
    found = aws.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
    return [json.loads(one["Body"])["Message"] for one in found]


def test_a_notice_is_sent_once_however_often_it_is_owed(aws: Aws, queue: tuple[str, str]) -> None:
    topic, url = queue
    publisher(aws, topic).notify(NOTICE)
    publisher(aws, topic).notify(NOTICE)
    assert inbox(aws, url) == ["why"]


def test_another_happening_is_another_notice(aws: Aws, queue: tuple[str, str]) -> None:
    topic, url = queue
    publisher(aws, topic).notify(NOTICE)
    publisher(aws, topic).notify(Notice("uid/hung/job-2", "research", "hung", "subject", "again"))
    assert sorted(inbox(aws, url)) == ["again", "why"]


def test_a_notice_that_failed_is_sent_at_the_next_try(aws: Aws, queue: tuple[str, str]) -> None:
    topic, url = queue
    with pytest.raises(ClientError):
        publisher(aws, topic + "-gone").notify(NOTICE)
    publisher(aws, topic).notify(NOTICE)
    assert inbox(aws, url) == ["why"]


@pytest.mark.parametrize(("allowed", "gets"), [(["vision", "audio"], 1), (["research", "vision"], 1), (["audio"], 0)])
def test_a_notice_to_several_teams_reaches_an_address_of_any_of_them_once(
    aws: Aws, allowed: list[str], gets: int
) -> None:
    topic = aws.sns.create_topic(Name="teams")["TopicArn"]
    url = aws.sqs.create_queue(QueueName="teams")["QueueUrl"]
    arn = aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    only = {"FilterPolicy": json.dumps({"team": allowed})}
    aws.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes=only)
    publisher(aws, topic).notify(Notice("watcher/1", "", "watcher", "subject", "all", teams=("research", "vision")))
    assert inbox(aws, url) == ["all"] * gets


def test_the_status_object_lies_in_the_teams_prefix(aws: Aws, queue: tuple[str, str]) -> None:
    publisher(aws, queue[0]).status(a_run(why="because"), now=0.0)
    body = aws.s3.get_object(Bucket=BUCKET, Key="status/research/tiny.json")["Body"].read()
    assert json.loads(body)["why"] == "because"


def test_an_archived_attempt_is_one_object_however_often_it_is_written(aws: Aws, queue: tuple[str, str]) -> None:
    first = Attempt(1, "dev-research-tiny-0123abcd-a001", "spec", "d" * 64, 1.5, ended_at=2.5)
    run = a_run(attempts=(first, replace(first, number=2, job="dev-research-tiny-0123abcd-a002")))
    made = publisher(aws, queue[0])
    for attempt in (run.attempts[0], run.attempts[0], run.attempts[1]):
        made.archive(run, attempt)
    keys = [one["Key"] for one in aws.s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert len(keys) == 2
    assert keys[0] == "status/research/tiny.history/dev-research-tiny-0123abcd-a001-dddddddd.jsonl"
    bodies = [aws.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read().decode() for key in keys]
    assert [json.loads(line)["attempt"]["number"] for line in "".join(bodies).splitlines()] == [1, 2]
