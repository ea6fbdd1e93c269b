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


@pytest.mark.parametrize("happening", ["network", "unreadable", "newer format"])
def test_a_lease_that_cannot_be_known_is_neither_mine_nor_anothers_and_is_left_alone(happening: str) -> None:
    objects = MemoryObjects()
    fence = Fence(objects, URI, take(objects, 2))
    if happening == "network":
        objects.down = True
    else:
        objects.put(URI, "{}" if happening == "unreadable" else '{"format": "holdfast-lease/9"}')
    before = dict(objects.stored)
    with pytest.raises(LeaseUnknownError):
        fence.check()
    assert objects.stored == before


@pytest.mark.parametrize(("older", "words"), [(None, "was gone"), (Lease(1, 1), "named an older writer (attempt 1)")])
def test_a_lease_that_was_deleted_or_turned_back_is_taken_again_and_that_is_said_once(
    older: Lease | None, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    objects = MemoryObjects()
    fence = Fence(objects, URI, take(objects, 2))
    del objects.stored[URI]
    if older is not None:
        objects.put(URI, render_lease(older))
    fence.check()
    fence.check()
    assert parse_lease(objects.stored[URI].text) == Lease(2, 1)
    assert capfd.readouterr().err.count(words) == 1


def test_of_two_writers_that_find_no_lease_the_newer_has_it_in_the_end_and_the_older_is_fenced() -> None:
    objects = MemoryObjects()
    older = Fence(objects, URI, take(objects, 1))
    newer = Fence(objects, URI, take(objects, 1))
    del objects.stored[URI]
    older.check()
    newer.check()
    with pytest.raises(FencedError, match="incarnation 2 owns"):
        older.check()
    newer.check()


def test_a_newer_writer_that_comes_between_looking_and_taking_again_fences() -> None:
    class Overtaken(MemoryObjects):
        def put_if(self, uri: str, text: str, etag: str | None) -> None:
            if etag is None and URI not in self.stored and parse_lease(text) == Lease(1, 1) and self.overtake:
                self.put(uri, render_lease(Lease(2, 1)))
            super().put_if(uri, text, etag)

        overtake = False

    objects = Overtaken()
    fence = Fence(objects, URI, take(objects, 1))
    del objects.stored[URI]
    objects.overtake = True
    with pytest.raises(FencedError, match="attempt 2"):
        fence.check()
    assert parse_lease(objects.stored[URI].text) == Lease(2, 1)
