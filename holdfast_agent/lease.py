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
from holdfast_agent.lines import say
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
        """Raises FencedError if the lease names a newer writer, LeaseUnknownError if nobody can say whom.

        A lease that is gone, or that names an older writer, is taken again, conditionally and in words: somebody
        tidied up in the bucket, and without it this attempt would seal nothing until its end. It never passes over a
        newer writer, who fences this one now or takes the lease back at its own next check.
        """
        try:
            for _ in range(_TRIES):
                stored = self._objects.get(self._uri)
                found = parse_lease(stored.text) if stored is not None else None
                if found == self._mine:
                    return
                if found is not None and found > self._mine:
                    raise FencedError(
                        f"attempt {self._mine.attempt}, incarnation {self._mine.incarnation} is fenced: attempt "
                        f"{found.attempt}, incarnation {found.incarnation} owns the run's checkpoints now"
                    )
                if self._take_again(stored.etag if stored is not None else None):
                    what = "was gone" if found is None else f"named an older writer (attempt {found.attempt})"
                    say(f"the lease {self._uri} {what}, and this writer has taken it again")
                    return
        except (ObjectsUnavailableError, ContractError) as error:
            raise LeaseUnknownError(f"{self._uri}: {error}") from None
        raise LeaseUnknownError(f"{self._uri} was written by someone else {_TRIES} times in a row")

    def _take_again(self, etag: str | None) -> bool:
        try:
            self._objects.put_if(self._uri, render_lease(self._mine), etag)
        except ObjectConflictError:
            return False
        return True
