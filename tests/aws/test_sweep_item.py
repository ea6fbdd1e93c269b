from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.aws.store import DynamoStore
from holdfast.aws.sweep_item import DynamoSweepItem, LeaseLostError
from holdfast.core.model import Notice
from holdfast.core.sweep import SweepState
from holdfast.core.watcher_state import WatcherState
from tests.aws.conftest import TABLE, Aws
from tests.aws.test_tokens import Clock

WATCHER = WatcherState(
    since=10.5,
    counted=("research/x",),
    ended={"research/y": 9.5},
    told=True,
    owed=(Notice("watcher/10", "", "watcher", "subject", "body", ("research",)),),
)
STATE = SweepState(first="research/x", listed_until=12.5, full_token="t" * 8_192, manifests_until=3.0)


def test_one_holds_it_until_it_is_given_back(aws: Aws) -> None:
    clock = Clock()
    item = DynamoSweepItem(aws.dynamodb, TABLE, now=clock)
    assert item.take("one", seconds=55) is not None
    assert item.take("two", seconds=55) is None
    item.give_back("one", STATE)
    lease = item.take("two", seconds=55)
    assert lease is not None
    assert lease.state == replace(STATE, count=2)
    assert not lease.died


def test_a_lease_that_ran_out_is_taken_and_its_holder_can_write_no_more(aws: Aws) -> None:
    clock = Clock()
    item = DynamoSweepItem(aws.dynamodb, TABLE, now=clock)
    item.take("one", seconds=55)
    item.in_hand("one", "research/killer")
    clock.now += 55
    lease = item.take("two", seconds=55)
    assert lease is not None
    assert (lease.died, lease.in_hand, lease.state.count) == (True, "research/killer", 2)
    with pytest.raises(LeaseLostError):
        item.give_back("one", STATE)
    with pytest.raises(LeaseLostError):
        item.in_hand("one", "x")
    item.give_back("two", STATE)
    after = item.take("three", seconds=55)
    assert after is not None
    assert (after.died, after.in_hand) == (False, "")


def test_what_the_watcher_remembers_of_itself_stands_also_where_the_sweep_ends_otherwise(aws: Aws) -> None:
    clock = Clock()
    item = DynamoSweepItem(aws.dynamodb, TABLE, now=clock)
    item.take("one", seconds=55)
    item.remember("one", WATCHER)
    clock.now += 55
    after_death = item.take("two", seconds=55)
    assert after_death is not None
    assert after_death.watcher == WATCHER
    item.give_back("two", STATE)
    after_giving_back = item.take("three", seconds=55)
    assert after_giving_back is not None
    assert after_giving_back.watcher == WATCHER
    with pytest.raises(LeaseLostError):
        item.remember("two", WatcherState())


def test_the_items_of_sweep_and_tokens_are_no_runs(aws: Aws) -> None:
    DynamoSweepItem(aws.dynamodb, TABLE, now=Clock()).take("one", seconds=55)
    assert list(DynamoStore(aws.dynamodb, TABLE).active()) == []
