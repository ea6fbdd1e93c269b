"""Managed warm pools: hosts that stay after their job, and the next job that they fit.

Source: developer guide, train-warm-pools (life cycle, creation, matching), and the API reference of WarmPoolStatus.
What stays here is the hosts' addresses and the faster start; there is no persistent cache, and the limit of 28 days for
a chain of jobs is not watched.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sandbox.sagemaker.quotas import Usage

JsonObject = dict[str, Any]

LONGEST_SECONDS = 3600
"""The developer guide's maximum of KeepAlivePeriodInSeconds; the model's is 21,600."""


@dataclass
class _Pool:
    job: str
    request: JsonObject
    keep_alive_seconds: int
    status: str = "InUse"
    port: int | None = None
    since: float = 0.0
    until: float = 0.0
    retained_seconds: float = 0.0
    reused_by: str | None = None

    def leave(self, status: str, now: float) -> None:
        """The hosts are this pool's no more."""
        if self.status == "Available":
            self.retained_seconds = min(now, self.until) - self.since
        self.status = status
        self.port = None


class WarmPools:
    """Thread-safe. `release` is told the port of hosts that go; `clock` is epoch seconds."""

    def __init__(self, release: Callable[[int], None], clock: Callable[[], float] = time.time) -> None:
        self._release = release
        self._clock = clock
        self._lock = threading.RLock()
        self._pools: dict[str, _Pool] = {}

    def open(self, job: str, request: JsonObject) -> None:
        """A new job; it has a pool if it asks for one."""
        seconds = request["ResourceConfig"].get("KeepAlivePeriodInSeconds", 0)
        if seconds:
            with self._lock:
                self._pools[job] = _Pool(job, request, seconds)

    def match(self, request: JsonObject) -> str | None:
        """The job whose warm pool this request would reuse."""
        with self._lock:
            self._expire()
            wanted = matched_values(request)
            fitting = (
                pool
                for pool in self._pools.values()
                if pool.status == "Available" and matched_values(pool.request) == wanted
            )
            pool = next(fitting, None)
            return None if pool is None else pool.job

    def claim(self, of_job: str, for_job: str) -> int | None:
        """Move a pool to another job; the port of its hosts, None if the pool has gone."""
        with self._lock:
            self._expire()
            pool = self._pools.get(of_job)
            if pool is None or pool.status != "Available":
                return None
            port = pool.port
            pool.leave("Reused", self._clock())
            pool.reused_by = for_job
            return port

    def retain(self, job: str, port: int) -> bool:
        """The job has ended: keep its hosts, if it asked for that. False: they go, and the port is the caller's."""
        with self._lock:
            pool = self._pools.get(job)
            if pool is None or pool.status != "InUse" or pool.keep_alive_seconds == 0:
                self.end(job)
                return False
            pool.status, pool.port = "Available", port
            pool.since = self._clock()
            pool.until = pool.since + pool.keep_alive_seconds
            return True

    def end(self, job: str) -> None:
        """The job's hosts are not to be kept."""
        with self._lock:
            pool = self._pools.get(job)
            if pool is not None and pool.status in ("InUse", "Available"):
                self._terminate(pool)

    def keep_alive(self, job: str, seconds: int) -> bool:
        """A new length, counted from the job's end; 0 ends the pool. False if the job has no pool that lives."""
        with self._lock:
            self._expire()
            pool = self._pools.get(job)
            if pool is None or pool.status not in ("InUse", "Available"):
                return False
            pool.keep_alive_seconds = seconds
            if pool.status == "Available":
                pool.until = pool.since + seconds
                self._expire()
            return True

    def status_of(self, job: str) -> JsonObject | None:
        """WarmPoolStatus of DescribeTrainingJob; None for a job without a pool."""
        with self._lock:
            self._expire()
            pool = self._pools.get(job)
            if pool is None:
                return None
            seconds = self._clock() - pool.since if pool.status == "Available" else pool.retained_seconds
            status: JsonObject = {"Status": pool.status, "ResourceRetainedBillableTimeInSeconds": int(seconds)}
            return status if pool.reused_by is None else {**status, "ReusedByJob": pool.reused_by}

    def idle(self) -> dict[str, Usage]:
        """What the available pools hold, by their jobs: it counts as training instances."""
        with self._lock:
            self._expire()
            return {
                pool.job: Usage(
                    pool.request["ResourceConfig"]["InstanceType"],
                    pool.request["ResourceConfig"]["InstanceCount"],
                    warm_pool=True,
                )
                for pool in self._pools.values()
                if pool.status == "Available"
            }

    def forget(self, job: str) -> None:
        """The job was deleted."""
        with self._lock:
            self._pools.pop(job, None)

    def _expire(self) -> None:
        now = self._clock()
        for pool in self._pools.values():
            if pool.status == "Available" and now >= pool.until:
                self._terminate(pool)

    def _terminate(self, pool: _Pool) -> None:
        port = pool.port
        pool.leave("Terminated", self._clock())
        if port is not None:
            self._release(port)


def matched_values(request: JsonObject) -> JsonObject:
    """The values that have to be identical for a reuse (developer guide, train-warm-pools)."""
    resources, vpc = request["ResourceConfig"], request.get("VpcConfig", {})
    return {
        "RoleArn": request["RoleArn"],
        **{name: resources.get(name) for name in ("InstanceCount", "InstanceType", "VolumeKmsKeyId", "VolumeSizeInGB")},
        **{name: sorted(vpc.get(name, [])) for name in ("SecurityGroupIds", "Subnets")},
        **{
            name: request.get(name, False)
            for name in ("EnableInterContainerTrafficEncryption", "EnableNetworkIsolation")
        },
        "SessionTagChaining": request.get("SessionChainingConfig", {}).get("EnableSessionTagChaining", False),
    }
