"""No more instances at once than allowed, and a wait that can be ended."""

from __future__ import annotations

import threading

import pytest

from holdfast.aws.acceptance.bench import HaltedError
from holdfast.aws.acceptance.session import Instances


def never() -> bool:
    return False


def taking(instances: Instances, count: int) -> tuple[threading.Thread, threading.Event]:
    """A thread that waits for instances, and the event of its having them."""
    taken = threading.Event()

    def take() -> None:
        instances.take(count, never)
        taken.set()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    return thread, taken


def test_instances_are_waited_for_until_enough_were_given_back_which_counts_once() -> None:
    instances = Instances(2)
    first, second = instances.take(1, never), instances.take(1, never)
    waiting, taken = taking(instances, 2)
    assert not taken.wait(0.3)
    first()
    first()
    assert not taken.wait(0.3), "given back twice, it counted twice"
    second()
    assert taken.wait(5)
    waiting.join(5)


def test_a_large_trial_is_not_overtaken_by_small_ones_for_ever() -> None:
    instances = Instances(2)
    release = instances.take(1, never)
    _, large = taking(instances, 2)
    assert not large.wait(0.2)
    _, small = taking(instances, 1)
    assert not small.wait(0.3), "one is free, but somebody was first"
    release()
    assert large.wait(5)


def test_a_trial_that_wants_more_than_there_are_gets_all() -> None:
    Instances(1).take(2, never)()


def test_the_wait_ends_when_all_of_it_is_halted() -> None:
    instances = Instances(1)
    instances.take(1, never)
    with pytest.raises(HaltedError):
        instances.take(1, lambda: True)
