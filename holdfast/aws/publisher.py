"""What leaves for people: the status object and the notices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyPersistenceLayerError
from botocore.exceptions import ClientError

from holdfast.core.layout import QUOTAS_STATUS, history_key, status_key
from holdfast.core.model import Attempt, Notice, Run
from holdfast.core.quotas.record import QuotaRecord, status_document
from holdfast.core.record_size import history_line
from holdfast.core.status import status_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sns.client import SNSClient
    from mypy_boto3_sns.type_defs import MessageAttributeValueTypeDef

REMEMBERED_SECONDS = 7 * 86_400


class Publisher:
    """A notice is sent once for its id, also when two ticks send it or one dies: at least once, seldom twice."""

    def __init__(
        self, *, s3: S3Client, sns: SNSClient, dynamodb: DynamoDBClient, bucket: str, topic_arn: str, table: str
    ) -> None:
        self._s3 = s3
        self._sns = sns
        self._bucket = bucket
        self._topic_arn = topic_arn
        layer = DynamoDBPersistenceLayer(
            table_name=table, key_attr="pk", expiry_attr="expires_at", status_attr="idempotency", boto3_client=dynamodb
        )
        # The handler registers its context here: only then does a send that died in progress expire with the function's
        # time-out and get repeated; without it the notice would be lost.
        self.idempotency = IdempotencyConfig(
            event_key_jmespath="id", expires_after_seconds=REMEMBERED_SECONDS, hash_function="sha256"
        )
        self._send_once = idempotent_function(
            self._send,
            data_keyword_argument="notice",
            persistence_store=layer,
            config=self.idempotency,
            key_prefix="notice",
        )

    def status(self, run: Run, now: float) -> None:
        self.put_status(run.team, run.name, status_of(run, now))

    def put_status(self, team: str, run: str, document: dict[str, Any]) -> None:
        self._put_json(status_key(team, run), document)

    def _put_json(self, key: str, document: dict[str, Any]) -> None:
        self._s3.put_object(
            Bucket=self._bucket,
            Key=key,
            Body=json.dumps(document, indent=1).encode(),
            ContentType="application/json",
        )

    def quotas(self, record: QuotaRecord) -> None:
        self._put_json(QUOTAS_STATUS, status_document(record))

    def archive(self, run: Run, attempt: Attempt) -> None:
        """Before the attempt leaves the record. A function that dies in between writes the same object again."""
        self._s3.put_object(
            Bucket=self._bucket,
            Key=history_key(run.team, run.name, attempt.job, attempt.request_digest),
            Body=history_line(run, attempt).encode(),
            ContentType="application/x-ndjson",
        )

    def notify(self, notice: Notice) -> None:
        """Raises botocore's errors, and Powertools' where another send of this notice is under way or died just now."""
        try:
            self._send_once(notice=asdict(notice))
        except IdempotencyPersistenceLayerError as error:
            # Its memory in the table failed. As botocore's own error it is sorted as every other.
            if isinstance(error.__cause__, ClientError):
                raise error.__cause__ from None
            raise

    def _send(self, notice: dict[str, Any]) -> str:
        answer = self._sns.publish(
            TopicArn=self._topic_arn,
            Subject=notice["subject"],
            Message=notice["body"],
            # What a subscription's filter can tell apart: an address gets its own teams' notices.
            MessageAttributes={
                "team": _for_teams(notice["teams"]) if notice["teams"] else _for_one(notice["team"]),
                "kind": _for_one(notice["kind"]),
            },
        )
        return str(answer["MessageId"])


def _for_one(value: str) -> MessageAttributeValueTypeDef:
    return {"DataType": "String", "StringValue": value}


def _for_teams(teams: Sequence[str]) -> MessageAttributeValueTypeDef:
    """A filter that allows any of them matches, and its address gets the message once (SNS developer guide)."""
    return {"DataType": "String.Array", "StringValue": json.dumps(teams)}
