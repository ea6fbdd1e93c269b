"""SageMaker, CloudWatch, its logs and S3 in memory, behind real boto3 clients.

Each call goes through botocore, which checks it against its model; only the wire is missing. Calls are counted.

Fidelity gaps: jobs change only when a test says so; reads never lag behind writes; no rate limits and no IAM, except
for the errors that a test puts into `fails`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import boto3

Answer = dict[str, Any]


class RefusedError(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class MemoryJob:
    request: Answer
    created: float
    modified: float
    status: str = "InProgress"
    secondary: str = "Starting"
    training_at: float | None = None
    ended_at: float | None = None
    failure_reason: str = ""
    steps: list[tuple[float, float]] = field(default_factory=list)
    hosts: list[tuple[float, float]] = field(default_factory=list)


class MemoryAws:
    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.jobs: dict[str, MemoryJob] = {}
        self.calls: Counter[str] = Counter()
        self.series = 0
        self.fails: dict[str, str] = {}
        """Error code by operation, for as long as it stands here."""
        self.loses: set[str] = set()
        """Operations that take effect and whose answer is lost, once each."""
        self._params: Answer = {}

    def client(self, service: str) -> Any:
        made = boto3.client(
            service,  # type: ignore[call-overload]
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )
        made.meta.events.register("provide-client-params", self._remember)
        made.meta.events.register("before-call", self._answer)
        return made

    def tick_calls(self) -> Counter[str]:
        """Calls since this was last asked."""
        counted, self.calls = self.calls, Counter()
        return counted

    def change(self, name: str, status: str, secondary: str, **fields: Any) -> MemoryJob:
        job = self.jobs[name]
        job.status, job.secondary, job.modified = status, secondary, self.now()
        for key, value in fields.items():
            setattr(job, key, value)
        return job

    def train(self, name: str) -> MemoryJob:
        return self.change(name, "InProgress", "Training", training_at=self.now())

    def end(self, name: str, status: str, failure_reason: str = "") -> MemoryJob:
        return self.change(name, status, status, ended_at=self.now(), failure_reason=failure_reason)

    def living(self) -> list[str]:
        return [name for name, job in self.jobs.items() if job.status in ("InProgress", "Stopping")]

    def _remember(self, params: Answer, **_: Any) -> None:
        self._params = params

    def _answer(self, model: Any, **_: Any) -> tuple[Any, Answer]:
        self.calls[model.name] += 1
        try:
            if model.name in self.fails:
                raise RefusedError(self.fails[model.name], "as the test says")
            body = getattr(self, f"_{model.name}")(dict(self._params))
            if model.name in self.loses:
                self.loses.discard(model.name)
                raise RefusedError("InternalFailure", "the answer was lost")
        except RefusedError as error:
            said = {"Error": {"Code": error.code, "Message": str(error)}}
            return SimpleNamespace(status_code=400), said
        return SimpleNamespace(status_code=200), body

    # SageMaker -------------------------------------------------------------------------------------------------------

    def _CreateTrainingJob(self, asked: Answer) -> Answer:  # noqa: N802 - the operation's name
        name = asked["TrainingJobName"]
        if name in self.jobs:
            raise RefusedError("ResourceInUse", "Training job names must be unique within an AWS account and region")
        self.jobs[name] = MemoryJob(asked, self.now(), self.now())
        return {"TrainingJobArn": _arn(name)}

    def _StopTrainingJob(self, asked: Answer) -> Answer:  # noqa: N802
        job = self._known(asked)
        if job.status != "InProgress":
            said = f"The request was rejected because the training job is in status {job.status}."
            raise RefusedError("ValidationException", said)
        self.change(asked["TrainingJobName"], "Stopping", "Stopping")
        return {}

    def _DescribeTrainingJob(self, asked: Answer) -> Answer:  # noqa: N802
        job, name = self._known(asked), asked["TrainingJobName"]
        answer: Answer = {**self._summary(name, job), "FailureReason": job.failure_reason}
        if job.training_at is not None:
            answer["TrainingStartTime"] = _at(job.training_at)
        return answer

    def _ListTrainingJobs(self, asked: Answer) -> Answer:  # noqa: N802
        found = [
            (name, job)
            for name, job in self.jobs.items()
            if asked.get("NameContains", "") in name
            and _later(job.modified, asked.get("LastModifiedTimeAfter"))
            and _later(job.created, asked.get("CreationTimeAfter"))
        ]
        start, size = int(asked.get("NextToken", 0)), asked.get("MaxResults", 10)
        body: Answer = {"TrainingJobSummaries": [self._summary(*one) for one in found[start : start + size]]}
        return {**body, "NextToken": str(start + size)} if start + size < len(found) else body

    def _ListTags(self, asked: Answer) -> Answer:  # noqa: N802
        return {"Tags": self.jobs[asked["ResourceArn"].rpartition("/")[2]].request["Tags"]}

    def _known(self, asked: Answer) -> MemoryJob:
        if asked["TrainingJobName"] not in self.jobs:
            raise RefusedError("ValidationException", "Requested resource not found.")
        return self.jobs[asked["TrainingJobName"]]

    @staticmethod
    def _summary(name: str, job: MemoryJob) -> Answer:
        summary = {
            "TrainingJobName": name,
            "TrainingJobArn": _arn(name),
            "TrainingJobStatus": job.status,
            "SecondaryStatus": job.secondary,
            "CreationTime": _at(job.created),
            "LastModifiedTime": _at(job.modified),
        }
        return summary if job.ended_at is None else {**summary, "TrainingEndTime": _at(job.ended_at)}

    # CloudWatch, logs and S3 ------------------------------------------------------------------------------------------

    def _GetMetricData(self, asked: Answer) -> Answer:  # noqa: N802
        start, end = asked["StartTime"].timestamp(), asked["EndTime"].timestamp()
        self.series += len(asked["MetricDataQueries"])
        results = []
        for query in asked["MetricDataQueries"]:
            metric = query["MetricStat"]["Metric"]
            name = metric["Dimensions"][0]["Value"].partition("/")[0]
            job = self.jobs.get(name)
            points = [] if job is None else job.hosts if "/" in metric["Dimensions"][0]["Value"] else job.steps
            if metric["MetricName"] == "holdfast:resumed_step":
                points = []
            kept = [(at, value) for at, value in points if start <= at < end]
            results.append(
                {"Id": query["Id"], "Timestamps": [_at(at) for at, _ in kept], "Values": [value for _, value in kept]}
            )
        return {"MetricDataResults": results}

    @staticmethod
    def _FilterLogEvents(_: Answer) -> Answer:  # noqa: N802
        return {"events": []}

    @staticmethod
    def _ListObjectsV2(_: Answer) -> Answer:  # noqa: N802
        return {"KeyCount": 0}

    @staticmethod
    def _PutObject(_: Answer) -> Answer:  # noqa: N802
        return {}

    @staticmethod
    def _DeleteObject(_: Answer) -> Answer:  # noqa: N802
        return {}


def _arn(name: str) -> str:
    return f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{name}"


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _later(at: float, than: datetime | None) -> bool:
    return than is None or at > than.timestamp()
