"""One bucket of tokens a call: Create and Stop, one a second in the whole account, on every path that sends them.

The account's limits are 1 CreateTrainingJob and 1 StopTrainingJob a second, not adjustable (AWS General Reference,
SageMaker endpoints and quotas), shared by the schedule's sweep and by each event's invocation.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

INTERVAL_SECONDS = 1.0
BURST = 2


class Call(StrEnum):
    CREATE = "create"
    STOP = "stop"


class NoTokenError(Exception):
    """The call is not sent now. Nothing was written; the next tick derives it again."""

    def __init__(self, call: Call) -> None:
        super().__init__(f"no token for {call}: the account takes one a second")
        self.call = call


class Tokens(Protocol):
    def take(self, call: Call) -> bool:
        """Whether the call may be sent now. A token that was taken and not used is lost, which costs a second."""
        ...

    def wait_seconds(self, call: Call) -> float:
        """How long until the bucket may have a token again, as far as this process knows; 0 where it knows nothing."""
        ...


class DynamoTokens:
    """A leaky bucket as one number: the moment at which it will be full again (`full_at`, epoch seconds).

    Taking a token moves that moment by one interval, if it is no further off than the burst allows. Both updates are
    conditional and need no read before them, so two functions at once never take the same token.
    """

    def __init__(self, client: DynamoDBClient, table: str, *, now: Callable[[], float]) -> None:
        self._client = client
        self._table = table
        self._now = now
        self._free_at: dict[Call, float] = {}

    def take(self, call: Call) -> bool:
        """Raises botocore's errors: without an answer nothing is sent."""
        if self.wait_seconds(call) > 0:
            return False
        now = self._now()
        full_at = self._update(
            call,
            "SET full_at = :next",
            "attribute_not_exists(pk) OR full_at <= :now",
            {":next": now + INTERVAL_SECONDS, ":now": now},
        )
        if full_at is None:
            return True
        if full_at <= now + (BURST - 1) * INTERVAL_SECONDS:
            limit = now + (BURST - 1) * INTERVAL_SECONDS
            full_at = self._update(
                call,
                "SET full_at = full_at + :interval",
                "full_at > :now AND full_at <= :limit",
                {":interval": INTERVAL_SECONDS, ":now": now, ":limit": limit},
            )
            if full_at is None:
                return True
        self._free_at[call] = full_at - (BURST - 1) * INTERVAL_SECONDS
        return False

    def wait_seconds(self, call: Call) -> float:
        return max(0.0, self._free_at.get(call, 0.0) - self._now())

    def _update(self, call: Call, update: str, condition: str, values: dict[str, float]) -> float | None:
        """None where the update was made; else what `full_at` is."""
        try:
            self._client.update_item(
                TableName=self._table,
                Key={"pk": {"S": f"tokens#{call}"}},
                UpdateExpression=update,
                ConditionExpression=condition,
                ExpressionAttributeValues={name: {"N": f"{value:.6f}"} for name, value in values.items()},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            held = error.response.get("Item", {}).get("full_at")  # type: ignore[attr-defined]
            return float(held["N"]) if held else self._now() + BURST * INTERVAL_SECONDS
        return None
