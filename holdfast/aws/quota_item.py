"""The account's quotas as last read: one item of the table, read by the runs' preflight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.core.quotas.record import QuotaRecord, dump_record, load_record

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

_KEY = {"pk": {"S": "quotas"}}


class QuotaItem(Protocol):
    def get(self) -> QuotaRecord:
        """An empty one where nothing was read yet. Raises ValueError for a record that this version cannot read."""
        ...

    def put(self, record: QuotaRecord) -> None: ...


class DynamoQuotaItem:
    """Written without a condition: whoever looked last knows best, and notices are sent once for their id anyway."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def get(self) -> QuotaRecord:
        item = self._client.get_item(TableName=self._table, Key=_KEY, ConsistentRead=True).get("Item")
        return QuotaRecord() if item is None else load_record(item["record"]["S"])

    def put(self, record: QuotaRecord) -> None:
        self._client.put_item(TableName=self._table, Item={**_KEY, "record": {"S": dump_record(record)}})
