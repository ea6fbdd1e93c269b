from __future__ import annotations

from holdfast.aws.tokens import Call, DynamoTokens
from tests.aws.conftest import TABLE, Aws


class Clock:
    def __init__(self) -> None:
        self.now = 1_764_000_000.0

    def __call__(self) -> float:
        return self.now


def taken(tokens: DynamoTokens, times: int, call: Call = Call.CREATE) -> int:
    return sum(tokens.take(call) for _ in range(times))


def test_two_at_once_and_then_one_a_second(aws: Aws) -> None:
    clock = Clock()
    tokens = DynamoTokens(aws.dynamodb, TABLE, now=clock)
    assert taken(tokens, 5) == 2
    for _ in range(10):
        clock.now += 1.0
        assert taken(tokens, 3) == 1


def test_a_bucket_that_rested_for_an_hour_gives_its_burst_and_no_more(aws: Aws) -> None:
    clock = Clock()
    tokens = DynamoTokens(aws.dynamodb, TABLE, now=clock)
    assert taken(tokens, 5) == 2
    clock.now += 3_600
    assert taken(tokens, 5) == 2


def test_two_functions_share_one_bucket(aws: Aws) -> None:
    clock = Clock()
    schedule, event = (DynamoTokens(aws.dynamodb, TABLE, now=clock) for _ in range(2))
    assert taken(schedule, 1) + taken(event, 1) + taken(schedule, 1) + taken(event, 1) == 2
    sent = 0
    for _ in range(30):
        clock.now += 0.5
        sent += taken(schedule, 1) + taken(event, 1)
    assert 14 <= sent <= 16


def test_create_and_stop_have_a_bucket_each(aws: Aws) -> None:
    tokens = DynamoTokens(aws.dynamodb, TABLE, now=Clock())
    assert taken(tokens, 5, Call.CREATE) == 2
    assert taken(tokens, 5, Call.STOP) == 2


def test_who_was_refused_knows_how_long_to_wait_and_asks_no_sooner(aws: Aws) -> None:
    clock = Clock()
    tokens = DynamoTokens(aws.dynamodb, TABLE, now=clock)
    assert tokens.wait_seconds(Call.CREATE) == 0.0
    taken(tokens, 3)
    wait = tokens.wait_seconds(Call.CREATE)
    assert 0.0 < wait <= 1.0
    clock.now += wait
    assert tokens.take(Call.CREATE)
