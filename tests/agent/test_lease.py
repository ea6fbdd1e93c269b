from __future__ import annotations

import pytest

from holdfast_agent.contract import Lease, parse_lease, render_lease
from holdfast_agent.lease import Fence, FencedError, LeaseUnknownError, take_lease
from tests.agent.memory_objects import MemoryObjects

URI = "s3://bucket/checkpoints/research/moby/lease-g001.json"


def take(objects: MemoryObjects, attempt: int) -> Lease:
    return take_lease(objects, URI, attempt, pause=lambda seconds: None)


def test_the_first_start_of_an_attempt_is_its_first_incarnation() -> None:
    objects = MemoryObjects()
    assert take(objects, 3) == Lease(3, 1)
    assert parse_lease(objects.stored[URI].text) == Lease(3, 1)


def test_a_retry_of_the_same_attempt_raises_the_incarnation_and_a_new_attempt_starts_at_one() -> None:
    objects = MemoryObjects()
    assert [take(objects, attempt) for attempt in (1, 1, 1, 2)] == [Lease(1, 1), Lease(1, 2), Lease(1, 3), Lease(2, 1)]


def test_an_older_attempt_cannot_take_the_lease() -> None:
    objects = MemoryObjects()
    take(objects, 2)
    with pytest.raises(FencedError, match="attempt 2 owns"):
        take(objects, 1)
    assert parse_lease(objects.stored[URI].text) == Lease(2, 1)


def test_a_write_in_between_is_read_again_and_not_overwritten() -> None:
    objects = MemoryObjects()
    objects.conflicts = 3
    assert take(objects, 1) == Lease(1, 1)


def test_endless_conflicts_end_in_words() -> None:
    objects = MemoryObjects()
    objects.conflicts = 1_000
    with pytest.raises(LeaseUnknownError, match="times in a row"):
        take(objects, 1)


def test_a_lease_of_a_newer_format_is_left_alone() -> None:
    objects = MemoryObjects()
    newer = '{"format": "holdfast-lease/9", "holder": "someone"}'
    objects.put(URI, newer)
    with pytest.raises(LeaseUnknownError, match="newer"):
        take(objects, 1)
    assert objects.stored[URI].text == newer


@pytest.mark.parametrize("newer", [Lease(1, 2), Lease(2, 1)])
def test_a_writer_is_fenced_once_a_newer_one_is_named(newer: Lease) -> None:
    objects = MemoryObjects()
    fence = Fence(objects, URI, take(objects, 1))
    fence.check()
    objects.put(URI, render_lease(newer))
    with pytest.raises(FencedError, match="is fenced"):
        fence.check()


@pytest.mark.parametrize("happening", ["network", "deleted", "turned back"])
def test_a_lease_that_cannot_be_known_is_neither_mine_nor_anothers(happening: str) -> None:
    objects = MemoryObjects()
    fence = Fence(objects, URI, take(objects, 2))
    if happening == "network":
        objects.down = True
    elif happening == "deleted":
        del objects.stored[URI]
    else:
        objects.put(URI, render_lease(Lease(1, 1)))
    with pytest.raises(LeaseUnknownError):
        fence.check()
