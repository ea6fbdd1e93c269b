"""The lease: one object beside the checkpoints that names the newest writer, as (attempt, incarnation).

The leader host takes it at start. Whoever finds a newer one there is fenced: an attempt that was thought dead and
wakes up may neither seal nor delete. SageMaker's own in-job retry keeps the attempt and the job's name, so it only
raises the incarnation. What this cannot fence is SageMaker's sync, which copies whatever lies in the folder.
"""

from __future__ import annotations

import random
import time
from typing import Callable

from holdfast_agent.contract import ContractError, Lease, parse_lease, render_lease
from holdfast_agent.objects import ObjectConflictError, ObjectStore, ObjectsUnavailableError

_TRIES = 8


class FencedError(Exception):
    """A newer attempt or incarnation owns the run's checkpoints: this one must stop."""


class LeaseUnknownError(Exception):
    """The lease can be neither read nor written now, in words: nobody knows who owns the checkpoints."""


def next_lease(attempt: int, found: Lease | None) -> Lease:
    """The lease that this start takes. Raises FencedError where a newer attempt holds it."""
    if found is None or found.attempt < attempt:
        return Lease(attempt, 1)
    if found.attempt == attempt:
        return Lease(attempt, found.incarnation + 1)
    raise FencedError(f"attempt {attempt} is fenced: attempt {found.attempt} owns the run's checkpoints now")


def take_lease(objects: ObjectStore, uri: str, attempt: int, pause: Callable[[float], None] = time.sleep) -> Lease:
    """Reads the lease, writes the next one if nobody wrote in between, else starts again, a bounded number of times.

    Raises FencedError, LeaseUnknownError. `pause` takes seconds.
    """
    for turn in range(_TRIES):
        try:
            stored = objects.get(uri)
            mine = next_lease(attempt, parse_lease(stored.text) if stored is not None else None)
            objects.put_if(uri, render_lease(mine), stored.etag if stored is not None else None)
            return mine
        except ObjectConflictError:
            pause(random.uniform(0.1, 0.5) * (turn + 1))  # noqa: S311 - jitter
        except ObjectsUnavailableError as error:
            raise LeaseUnknownError(str(error)) from None
        except ContractError as error:
            # Not overwritten: it may be a newer format, whose writer must not be fenced by an older agent.
            raise LeaseUnknownError(f"{uri} holds no lease that this agent can read ({error})") from None
    raise LeaseUnknownError(f"{uri} was written by someone else {_TRIES} times in a row")


class Fence:
    """What a writer of checkpoints asks before it seals or deletes."""

    def __init__(self, objects: ObjectStore, uri: str, mine: Lease) -> None:
        self._objects = objects
        self._uri = uri
        self._mine = mine

    def check(self) -> None:
        """Raises FencedError if the lease names a newer writer, LeaseUnknownError if nobody can say whom."""
        try:
            stored = self._objects.get(self._uri)
            if stored is None:
                raise LeaseUnknownError(f"{self._uri} is gone; this writer had taken it")
            found = parse_lease(stored.text)
        except (ObjectsUnavailableError, ContractError) as error:
            raise LeaseUnknownError(f"{self._uri}: {error}") from None
        if found > self._mine:
            raise FencedError(
                f"attempt {self._mine.attempt}, incarnation {self._mine.incarnation} is fenced: attempt "
                f"{found.attempt}, incarnation {found.incarnation} owns the run's checkpoints now"
            )
        if found < self._mine:
            raise LeaseUnknownError(
                f"{self._uri} names an older writer than the one that took it; someone turned it back"
            )
