"""The run table: one DynamoDB item a run, each write conditional on the version that was read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError

from holdfast.core.model import Run, dump_run, load_run

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

ACTIVE_INDEX = "active"


class ConflictError(Exception):
    """Somebody else wrote the run since it was read. Nothing was written; read again."""


@dataclass(frozen=True)
class Unreadable:
    """A record that this version cannot read. It is reported, and must not end the sweep for the others."""

    id: str
    why: str


class Store(Protocol):
    """What the reconciler needs of a store; tests keep one in memory."""

    def get(self, team: str, name: str) -> Run | None: ...

    def save(self, run: Run) -> Run:
        """The run with its new version. Raises ConflictError."""
        ...

    def active(self) -> Iterator[Run | Unreadable]:
        """Every run that lives or to whose people something is owed, the longest due first."""
        ...


class DynamoStore:
    """`pk` is `run#<team>/<run>`; the whole run is JSON in `record`, beside the few attributes that are queried."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def get(self, team: str, name: str) -> Run | None:
        answer = self._client.get_item(TableName=self._table, Key={"pk": {"S": _key(team, name)}}, ConsistentRead=True)
        item = answer.get("Item")
        return None if item is None else _read(item)

    def save(self, run: Run) -> Run:
        item: dict[str, Any] = {
            "pk": {"S": _key(run.team, run.name)},
            "version": {"N": str(run.version + 1)},
            "record": {"S": dump_run(run)},
            "phase": {"S": run.phase.value},
        }
        if run.active:
            # Absent on settled runs: that is what keeps the index sparse.
            item["active"] = {"S": "1"}
            item["due"] = {"N": f"{run.due_at or 0.0:.3f}"}
        condition: dict[str, Any] = (
            {"ConditionExpression": "attribute_not_exists(pk)"}
            if run.version == 0
            else {
                "ConditionExpression": "version = :read",
                "ExpressionAttributeValues": {":read": {"N": str(run.version)}},
            }
        )
        try:
            self._client.put_item(TableName=self._table, Item=item, **condition)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                raise ConflictError(f"{run.id} was written by somebody else") from None
            raise
        return replace(run, version=run.version + 1)

    def active(self) -> Iterator[Run | Unreadable]:
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            IndexName=ACTIVE_INDEX,
            KeyConditionExpression="active = :one",
            ExpressionAttributeValues={":one": {"S": "1"}},
        )
        for page in pages:
            for item in page["Items"]:
                try:
                    yield _read(item)
                except (KeyError, ValueError) as error:
                    name = item["pk"]["S"].removeprefix("run#")
                    yield Unreadable(name, " ".join(f"{type(error).__name__}: {error}".split())[:500])


def _key(team: str, name: str) -> str:
    return f"run#{team}/{name}"


def _read(item: dict[str, Any]) -> Run:
    return load_run(item["record"]["S"], int(item["version"]["N"]))
