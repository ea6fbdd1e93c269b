"""How many calls a second each operation takes: one token bucket an operation, for the account as a whole.

The rates are AWS's (general reference, Amazon SageMaker endpoints and quotas; none is adjustable). How many calls may
come at once is not documented: a bucket of `burst_seconds` times the rate, at least one token, is assumed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping


class TokenBucket:
    """Not thread-safe. `capacity` tokens at the start, `per_second` more each second, never above `capacity`."""

    def __init__(self, per_second: float, capacity: float, now: float) -> None:
        self._per_second = per_second
        self._capacity = capacity
        self._tokens = capacity
        self._at = now

    def take(self, now: float) -> bool:
        self._tokens = min(self._capacity, self._tokens + max(0.0, now - self._at) * self._per_second)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class RateLimits:
    """Thread-safe. `clock` is in seconds and never goes back."""

    def __init__(
        self,
        calls_per_second: Mapping[str, float],
        burst_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._throttled_until: dict[str, float] = {}
        now = clock()
        self._buckets = {
            operation: TokenBucket(rate, max(1.0, rate * burst_seconds), now)
            for operation, rate in calls_per_second.items()
        }

    def admits(self, operation: str) -> bool:
        """Whether the call may go on; it has then taken its token. An operation without a rate is not limited."""
        with self._lock:
            now = self._clock()
            if now < self._throttled_until.get(operation, now):
                return False
            bucket = self._buckets.get(operation)
            return bucket is None or bucket.take(now)

    def throttle(self, operation: str, seconds: float) -> None:
        """A fault: refuse every call of this operation for so long."""
        with self._lock:
            self._throttled_until[operation] = self._clock() + seconds
