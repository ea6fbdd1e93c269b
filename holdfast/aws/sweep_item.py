"""The sweep's own item: who sweeps, until when, and what one sweep leaves to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError
from pydantic import TypeAdapter

from holdfast.core.sweep import SweepState
from holdfast.core.watcher_state import WatcherState

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

_KEY = {"pk": {"S": "sweep"}}
_STATE = TypeAdapter(SweepState)
_WATCHER = TypeAdapter(WatcherState)


class LeaseLostError(Exception):
    """The lease ran out and another sweep took it. Its state stands; ours is not written."""


@dataclass(frozen=True)
class Lease:
    """What the sweep before left. `died`: it never gave the lease back, so its state is the one before it.

    `in_hand`: the run it looked at when it died, where that is known.
    """

    holder: str
    state: SweepState
    watcher: WatcherState = field(default_factory=WatcherState)
    died: bool = False
    in_hand: str = ""


class SweepItem(Protocol):
    def take(self, holder: str, *, seconds: float) -> Lease | None:
        """None while another sweep holds it."""
        ...

    def in_hand(self, holder: str, run: str) -> None:
        """Note the run that is looked at next. Raises LeaseLostError."""
        ...

    def remember(self, holder: str, watcher: WatcherState) -> None:
        """Beside the sweep's own state, at once: it has to stand also where the sweep does not end. Raises
        LeaseLostError."""
        ...

    def give_back(self, holder: str, state: SweepState) -> None:
        """Raises LeaseLostError."""
        ...


class DynamoSweepItem:
    """Each write is conditional: on the lease having run out, or on being the holder. `now` gives epoch seconds."""

    def __init__(self, client: DynamoDBClient, table: str, *, now: Callable[[], float]) -> None:
        self._client = client
        self._table = table
        self._now = now

    def take(self, holder: str, *, seconds: float) -> Lease | None:
        now = self._now()
        try:
            answer = self._client.update_item(
                TableName=self._table,
                Key=_KEY,
                UpdateExpression="SET holder = :me, held_until = :until ADD sweeps :one",
                ConditionExpression="attribute_not_exists(holder) OR held_until <= :now",
                ExpressionAttributeValues={
                    ":me": {"S": holder},
                    ":until": {"N": f"{now + seconds:.3f}"},
                    ":now": {"N": f"{now:.3f}"},
                    ":one": {"N": "1"},
                },
                ReturnValues="ALL_OLD",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                return None
            raise
        old: dict[str, Any] = answer.get("Attributes", {})
        text = old.get("sweep_state", {}).get("S")
        state = _STATE.validate_json(text) if text else SweepState()
        # Counted in an attribute of its own, so that sweeps that die are counted too.
        count = int(old.get("sweeps", {}).get("N", "0")) + 1
        return Lease(
            holder,
            replace(state, count=count),
            _WATCHER.validate_json(watcher) if (watcher := old.get("watcher_state", {}).get("S")) else WatcherState(),
            died="holder" in old,
            in_hand=old.get("in_hand", {}).get("S", ""),
        )

    def in_hand(self, holder: str, run: str) -> None:
        self._mine(holder, "SET in_hand = :run", {":run": {"S": run}})

    def remember(self, holder: str, watcher: WatcherState) -> None:
        text = _WATCHER.dump_json(watcher).decode()
        self._mine(holder, "SET watcher_state = :watcher", {":watcher": {"S": text}})

    def give_back(self, holder: str, state: SweepState) -> None:
        text = _STATE.dump_json(state).decode()
        self._mine(holder, "SET sweep_state = :state REMOVE holder, held_until, in_hand", {":state": {"S": text}})

    def _mine(self, holder: str, update: str, values: dict[str, Any]) -> None:
        try:
            self._client.update_item(
                TableName=self._table,
                Key=_KEY,
                UpdateExpression=update,
                ConditionExpression="holder = :me",
                ExpressionAttributeValues={":me": {"S": holder}, **values},
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                raise LeaseLostError(f"the sweep's lease of {holder} was taken by another") from None
            raise
