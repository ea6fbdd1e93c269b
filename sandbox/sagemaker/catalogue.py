"""The account's training jobs: found by name or ARN, listed in pages as ListTrainingJobs does."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from typing import Any

from sandbox.sagemaker.record import TERMINAL, TrainingJob

JsonObject = dict[str, Any]

DEFAULT_PAGE = 10
"""MaxResults (API reference, ListTrainingJobs)."""


class NameTakenError(Exception):
    """A job of this name exists; it is the argument."""


class TokenError(ValueError):
    """NextToken was not given out by this service."""


class Catalogue:
    """Thread-safe. A job's name stays taken until the job is deleted. `warm_pool_of` knows a job's WarmPoolStatus."""

    def __init__(self, warm_pool_of: Callable[[str], JsonObject | None] = lambda _job: None) -> None:
        self._lock = threading.Lock()
        self._warm_pool_of = warm_pool_of
        self._jobs: dict[str, TrainingJob] = {}

    def add(self, job: TrainingJob) -> None:
        """Raises NameTakenError."""
        with self._lock:
            holder = self._jobs.setdefault(job.name, job)
        if holder is not job:
            raise NameTakenError(holder)

    def remove(self, job: TrainingJob) -> None:
        with self._lock:
            self._jobs.pop(job.name, None)

    def named(self, name: str) -> TrainingJob | None:
        with self._lock:
            return self._jobs.get(name)

    def with_arn(self, arn: str) -> TrainingJob | None:
        with self._lock:
            return next((job for job in self._jobs.values() if job.arn == arn), None)

    def alive(self) -> list[TrainingJob]:
        """The jobs that are not terminal."""
        with self._lock:
            return [job for job in self._jobs.values() if job.status not in TERMINAL]

    def page(self, query: JsonObject) -> JsonObject:
        """The body of ListTrainingJobs. Raises TokenError.

        StatusEquals filters after the page was taken, as AWS does (see the note in the API reference): a page may hold
        fewer jobs than MaxResults, or none, while NextToken goes on.
        """
        with self._lock:
            jobs = list(self._jobs.values())
        jobs = [job for job in jobs if _selected(job, query) and self._has_pool(job, query.get("WarmPoolStatusEquals"))]
        jobs.sort(key=_order(query.get("SortBy", "CreationTime")), reverse=query.get("SortOrder") == "Descending")
        start, end, more = _slice(len(jobs), query)
        wanted = query.get("StatusEquals")
        summaries = [self._summary(job) for job in jobs[start:end]]
        body: JsonObject = {
            "TrainingJobSummaries": [
                summary for summary in summaries if wanted is None or summary["TrainingJobStatus"] == wanted
            ]
        }
        return {**body, "NextToken": more} if more else body

    def _has_pool(self, job: TrainingJob, wanted: str | None) -> bool:
        """Assumed: this filter, unlike StatusEquals, is applied before the page is taken."""
        return wanted is None or (self._warm_pool_of(job.name) or {}).get("Status") == wanted

    def _summary(self, job: TrainingJob) -> JsonObject:
        pool = self._warm_pool_of(job.name)
        return job.summary() if pool is None else {**job.summary(), "WarmPoolStatus": pool}


def page_of_tags(tags: dict[str, str], query: JsonObject) -> JsonObject:
    """The body of ListTags. Raises TokenError."""
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    start, end, more = _slice(len(listed), {"MaxResults": 50, **query})
    body: JsonObject = {"Tags": listed[start:end]}
    return {**body, "NextToken": more} if more else body


def _selected(job: TrainingJob, query: JsonObject) -> bool:
    if "TrainingPlanArnEquals" in query:  # the sandbox has no training plans
        return False
    return (
        query.get("NameContains", "") in job.name
        and _between(job.created, query.get("CreationTimeAfter"), query.get("CreationTimeBefore"))
        and _between(job.last_modified, query.get("LastModifiedTimeAfter"), query.get("LastModifiedTimeBefore"))
    )


def _between(moment: float, after: float | None, before: float | None) -> bool:
    return (after is None or after < moment) and (before is None or moment < before)


def _order(by: str) -> Any:
    keys = {
        "Name": lambda job: (job.name,),
        "CreationTime": lambda job: (job.created, job.name),
        "Status": lambda job: (job.status, job.created, job.name),
    }
    return keys[by]


def _slice(total: int, query: JsonObject) -> tuple[int, int, str | None]:
    start = _from_token(query["NextToken"]) if "NextToken" in query else 0
    end = start + int(query.get("MaxResults", DEFAULT_PAGE))
    return start, end, _to_token(end) if end < total else None


def _to_token(offset: int) -> str:
    return base64.urlsafe_b64encode(json.dumps({"offset": offset}).encode()).decode()


def _from_token(token: str) -> int:
    try:
        return int(json.loads(base64.urlsafe_b64decode(token.encode()))["offset"])
    except (ValueError, KeyError, TypeError):
        raise TokenError("Invalid NextToken") from None
