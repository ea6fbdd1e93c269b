"""One training job as the API shows it: status, secondary statuses, times. The only mutable state of the plane.

Thread-safe: the API's threads read it while the job's own thread changes it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

JsonObject = dict[str, Any]

TERMINAL = frozenset({"Completed", "Failed", "Stopped"})
MAX_FAILURE_REASON = 1024
"""Length of FailureReason in the model."""

# As printed by the SageMaker SDK while a job runs (aws/amazon-sagemaker-examples#739, #842) and in the API reference of
# SecondaryStatusTransition, which warns that they are subject to change.
MESSAGES = {
    "Starting": "Starting the training job",
    "Downloading": "Downloading input data",
    "Training": "Downloading the training image",
    "Uploading": "Uploading generated training model",
    "Stopping": "Stopping the training job",
    "Completed": "Training job completed",
    "Failed": "Training job failed",
    "Stopped": "Training job stopped",
    "MaxRuntimeExceeded": "Training job runtime exceeded MaxRuntimeInSeconds provided",
    "MaxWaitTimeExceeded": "Training job wait time exceeded MaxWaitTimeInSeconds provided",  # assumed wording
    "Pending": "The training job is waiting for compute capacity",
    "Interrupted": "The managed spot training instances were interrupted",  # assumed wording
    "Restarting": "Restarting the training job",  # assumed wording
}
RETRYING = "Insufficient capacity error from EC2 while launching instances, retrying!"
REPAIRING = "Repairing training cluster due to hardware failure"
"""Both as quoted in the API reference (SecondaryStatusTransition) and the developer guide (cluster repair)."""
LAUNCHING = "Launching requested ML instances"
PREPARING = "Preparing the instances for training"
IN_PROGRESS = "Training image download completed. Training in progress."

_NOT_DESCRIBED = ("Tags", "SessionChainingConfig")
_IN_EVENTS = (
    "TrainingJobName",
    "TrainingJobArn",
    "TrainingJobStatus",
    "SecondaryStatus",
    "FailureReason",
    "HyperParameters",
    "AlgorithmSpecification",
    "RoleArn",
    "InputDataConfig",
    "OutputDataConfig",
    "ResourceConfig",
    "VpcConfig",
    "StoppingCondition",
    "CreationTime",
    "TrainingStartTime",
    "TrainingEndTime",
    "LastModifiedTime",
    "SecondaryStatusTransitions",
)
"""Fields of the documented example event (developer guide, automating-sagemaker-with-eventbridge). Environment,
CheckpointConfig and RetryStrategy are not in it, so they are not sent."""


def _milliseconds_now() -> float:
    """SageMaker's times have three digits after the second."""
    return round(time.time(), 3)


class TrainingJob:
    """`request` is a validated CreateTrainingJob request; it is not changed. `changed` runs after each state change."""

    def __init__(
        self,
        request: JsonObject,
        arn: str,
        *,
        changed: Callable[[TrainingJob], None],
        now: Callable[[], float] = _milliseconds_now,
    ) -> None:
        self.name: str = request["TrainingJobName"]
        self.arn = arn
        self.request = request
        self._changed = changed
        self._now = now
        self._lock = threading.RLock()
        self._tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags", [])}
        self._status = "InProgress"
        self._transitions: list[JsonObject] = []
        self._failure_reason: str | None = None
        self._final_metrics: dict[str, JsonObject] = {}
        self._times: dict[str, float] = {"CreationTime": now(), "LastModifiedTime": now()}
        self._unbilled_seconds = 0.0
        self._unbilled_since: float | None = None

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        with self._lock:
            return self._status

    @property
    def secondary_status(self) -> str:
        with self._lock:
            return str(self._transitions[-1]["Status"]) if self._transitions else "Starting"

    @property
    def created(self) -> float:
        return self._times["CreationTime"]

    @property
    def last_modified(self) -> float:
        with self._lock:
            return self._times["LastModifiedTime"]

    @property
    def tags(self) -> dict[str, str]:
        with self._lock:
            return dict(self._tags)

    def describe(self) -> JsonObject:
        """The body of DescribeTrainingJob."""
        with self._lock:
            shown = {name: value for name, value in self.request.items() if name not in _NOT_DESCRIBED}
            body: JsonObject = {
                **deepcopy(shown),
                **self._times,
                "TrainingJobArn": self.arn,
                "TrainingJobStatus": self._status,
                "SecondaryStatus": self.secondary_status,
                "SecondaryStatusTransitions": deepcopy(self._transitions),
                "ModelArtifacts": {"S3ModelArtifacts": self.artifact_uri("model.tar.gz")},
                "EnableNetworkIsolation": self.request.get("EnableNetworkIsolation", False),
                "EnableInterContainerTrafficEncryption": self.request.get(
                    "EnableInterContainerTrafficEncryption", False
                ),
                "EnableManagedSpotTraining": self.request.get("EnableManagedSpotTraining", False),
            }
            if self._final_metrics:
                body["FinalMetricDataList"] = list(deepcopy(self._final_metrics).values())
            if self._failure_reason is not None:
                body["FailureReason"] = self._failure_reason
            if "TrainingStartTime" in self._times and "TrainingEndTime" in self._times:
                seconds = self._times["TrainingEndTime"] - self._times["TrainingStartTime"]
                body["TrainingTimeInSeconds"] = max(1, int(seconds))
                body["BillableTimeInSeconds"] = max(
                    1, int(seconds - self._unbilled_until(self._times["TrainingEndTime"]))
                )
            return body

    def summary(self) -> JsonObject:
        """One entry of ListTrainingJobs."""
        with self._lock:
            body = {name: self._times[name] for name in ("CreationTime", "LastModifiedTime")}
            if "TrainingEndTime" in self._times:
                body["TrainingEndTime"] = self._times["TrainingEndTime"]
            return {
                "TrainingJobName": self.name,
                "TrainingJobArn": self.arn,
                "TrainingJobStatus": self._status,
                "SecondaryStatus": self.secondary_status,
                **body,
            }

    def event_detail(self) -> JsonObject:
        """The detail of a state-change event: like Describe, with times as epoch milliseconds in strings."""
        with self._lock:
            described = self.describe()
            detail = {name: described[name] for name in _IN_EVENTS if name in described}
            for name in self._times:
                detail[name] = _milliseconds(self._times[name])
            for transition in detail["SecondaryStatusTransitions"]:
                for name in ("StartTime", "EndTime"):
                    if name in transition:
                        transition[name] = _milliseconds(transition[name])
            return {**detail, "Tags": dict(self._tags)}

    def artifact_uri(self, name: str) -> str:
        """Where SageMaker puts `model.tar.gz` and `output.tar.gz`: <S3OutputPath>/<job>/output/<name>."""
        return f"{self.request['OutputDataConfig']['S3OutputPath'].rstrip('/')}/{self.name}/output/{name}"

    # -- changing ----------------------------------------------------------------------------------------------------

    def enter(
        self,
        secondary: str,
        *,
        status: str | None = None,
        reason: str | None = None,
        expected: str | None = None,
        message: str | None = None,
    ) -> bool:
        """Move on to a secondary status (and, with `status`, to a primary one); `message` replaces its usual one.

        With `expected`, only from that primary status; False if it is another one by now and nothing was changed.
        """
        with self._lock:
            if expected is not None and self._status != expected:
                return False
            now = self._now()
            if self._transitions:
                self._transitions[-1]["EndTime"] = now
            said = MESSAGES[secondary] if message is None else message
            transition: JsonObject = {"Status": secondary, "StartTime": now, "StatusMessage": said}
            self._transitions.append(transition)
            self._status = status or self._status
            if self._status in TERMINAL:
                transition["EndTime"] = now
            if reason is not None:
                self._failure_reason = reason[:MAX_FAILURE_REASON]
            self._times["LastModifiedTime"] = now
        self._changed(self)
        return True

    def say(self, message: str) -> None:
        """A new message within the same secondary status; no event is sent for it (assumed)."""
        with self._lock:
            self._transitions[-1]["StatusMessage"] = message
            self._times["LastModifiedTime"] = self._now()

    def begin_stopping(self) -> bool:
        """To `Stopping`; False if the job is not in progress any more."""
        return self.enter("Stopping", status="Stopping", expected="InProgress")

    def mark(self, field: str) -> float:
        """Set TrainingStartTime or TrainingEndTime to now, unless it is set; returns what holds."""
        with self._lock:
            return self._times.setdefault(field, self._now())

    def stop_billing(self) -> None:
        """From here on the job has no hosts of its own, until `bill_again`."""
        with self._lock:
            if self._unbilled_since is None:
                self._unbilled_since = self._now()

    def bill_again(self) -> None:
        with self._lock:
            if self._unbilled_since is not None:
                self._unbilled_seconds += self._now() - self._unbilled_since
                self._unbilled_since = None

    def record_metric(self, name: str, value: float, at: float) -> None:
        with self._lock:
            self._final_metrics[name] = {"MetricName": name, "Value": value, "Timestamp": at}

    def keep_alive(self, seconds: int) -> None:
        """UpdateTrainingJob's new KeepAlivePeriodInSeconds."""
        with self._lock:
            resources = {**self.request["ResourceConfig"], "KeepAlivePeriodInSeconds": seconds}
            self.request = {**self.request, "ResourceConfig": resources}
            self._times["LastModifiedTime"] = self._now()

    def add_tags(self, tags: dict[str, str]) -> dict[str, str]:
        with self._lock:
            self._tags.update(tags)
            return dict(self._tags)

    def _unbilled_until(self, end: float) -> float:
        since = self._unbilled_since
        return self._unbilled_seconds + (0.0 if since is None else max(0.0, end - since))


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))
