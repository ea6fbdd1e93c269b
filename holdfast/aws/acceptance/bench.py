"""The workbench of an acceptance: what it makes in the account, and how all of it goes away again."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.aws.acceptance.clients import Clients
from holdfast.aws.errors import DENIALS, FAILED_READ, THROTTLES, code_of, words_of
from holdfast.core.acceptance.pace import Pace
from holdfast.core.acceptance.seen import TERMINAL, Answer
from holdfast.core.config import AccountConfig
from holdfast.core.instance_types import has_local_storage
from holdfast.core.layout import CHECKPOINTS, DATA, OUTPUT

if TYPE_CHECKING:
    from mypy_boto3_sagemaker.client import SageMakerClient

METRIC = "acceptance:n"
METRIC_REGEX = r"\[acceptance/1\] .*event=tick n=([0-9]+)"
NAME_PART = "-accept-"
# Answers after which there is no job, or one that was there before.
_REFUSALS = {"ValidationException", "ResourceInUse", "ResourceLimitExceeded", *DENIALS, *THROTTLES}


class HaltedError(Exception):
    """Somebody asked for the end of it all."""


@dataclass(frozen=True)
class Place:
    """Where an acceptance works: one team of one deployment. `uid` tells its things from an earlier one's."""

    config: AccountConfig
    team: str
    image: str
    image_uri: str
    instance_type: str
    uid: str

    @property
    def prefix(self) -> str:
        """Of its jobs' names. They begin as the team's own do, which is what the team's role may write logs for."""
        return f"{self.config.environment}-{self.team}{NAME_PART}{self.uid}-"

    @property
    def data(self) -> str:
        return f"{DATA}{self.team}/acceptance/{self.uid}/"

    def uri(self, key: str) -> str:
        return f"s3://{self.config.bucket}/{key}"


@dataclass
class Bench:
    """Thread-safe where trials share it. `now` is in epoch seconds."""

    place: Place
    clients: Clients
    pace: Pace
    now: Callable[[], float]
    halt: threading.Event
    say: Callable[[str], None]
    jobs: list[str] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _creating: threading.Lock = field(default_factory=threading.Lock)
    _may_create_at: float = 0.0

    def sleep(self, seconds: float) -> None:
        """Raises HaltedError."""
        if self.halt.wait(max(0.0, seconds)):
            raise HaltedError

    # -- jobs --------------------------------------------------------------------------------------------------------

    def request(
        self, label: str, arguments: list[str], *, hosts: int = 1, role: str | None = None, longest: int | None = None
    ) -> dict[str, Any]:
        """CreateTrainingJob for acceptance_jobs/probe.py, with the team's role by default."""
        place, config = self.place, self.place.config
        resources: dict[str, Any] = {"InstanceType": place.instance_type, "InstanceCount": hosts, "VolumeSizeInGB": 30}
        if config.volume_kms_key_arn and not has_local_storage(place.instance_type):
            resources["VolumeKmsKeyId"] = config.volume_kms_key_arn
        output = {"S3OutputPath": place.uri(f"{OUTPUT}{place.team}/acceptance/")}
        if config.output_kms_key_arn:
            output["KmsKeyId"] = config.output_kms_key_arn
        request: dict[str, Any] = {
            "TrainingJobName": place.prefix + label,
            "AlgorithmSpecification": {
                "TrainingImage": place.image_uri,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["python3", "/opt/ml/input/data/code/probe.py"],
                "ContainerArguments": arguments,
                "MetricDefinitions": [{"Name": METRIC, "Regex": METRIC_REGEX}],
            },
            "RoleArn": role or config.job_role_arn(place.team),
            "InputDataConfig": [channel("code", place.uri(place.data))],
            "OutputDataConfig": output,
            "ResourceConfig": resources,
            "CheckpointConfig": {"S3Uri": place.uri(self.checkpoints(label))},
            "StoppingCondition": {"MaxRuntimeInSeconds": longest or self.pace.longest_direct_seconds},
            "EnableNetworkIsolation": False,
            "EnableInterContainerTrafficEncryption": False,
            "ProfilerConfig": {"DisableProfiler": True},
            "Tags": self._tags(),
        }
        if config.network is not None:
            request["VpcConfig"] = {
                "SecurityGroupIds": list(config.network.security_group_ids),
                "Subnets": list(config.network.subnets),
            }
        return request

    def checkpoints(self, label: str) -> str:
        return f"{CHECKPOINTS}{self.place.team}/acceptance/{self.place.uid}/{label}/"

    def create(
        self, request: Mapping[str, Any], *, patient: bool = True, client: SageMakerClient | None = None
    ) -> Answer:
        """One CreateTrainingJob, at its distance to the one before; `patient`: tried again while it is throttled.

        Until it was refused for certain the name is one of ours: an answer may be lost on its way.
        """
        name = str(request["TrainingJobName"])
        with self._lock:
            self.jobs.append(name)
        while True:
            with self._creating:
                self.sleep(self._may_create_at - self.now())
                self._may_create_at = self.now() + self.pace.create_gap_seconds
                answer = self.call(lambda: (client or self.clients.once).create_training_job(**request))
            if patient and answer.code in THROTTLES:
                continue
            if answer.code in _REFUSALS:
                with self._lock:
                    self.jobs.remove(name)
            return answer

    def call(self, what: Callable[[], object]) -> Answer:
        try:
            what()
        except FAILED_READ as error:
            return Answer(self.now(), code_of(error), words_of(error).removeprefix(f"{code_of(error)}: "))
        return Answer(self.now())

    def stop(self, job: str) -> Answer:
        return self.call(lambda: self.clients.sagemaker.stop_training_job(TrainingJobName=job))

    # -- roles -------------------------------------------------------------------------------------------------------

    def make_role(self, label: str, trust: Mapping[str, Any], statements: list[Mapping[str, Any]]) -> str:
        """A role of this acceptance alone; its ARN. Raises botocore's errors."""
        name = f"holdfast-{self.place.config.environment}{NAME_PART}{self.place.uid}-{label}"
        tags: Any = self._tags()
        made = self.clients.iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust), Tags=tags)
        with self._lock:
            self.roles.append(name)
        self.clients.iam.put_role_policy(RoleName=name, PolicyName="acceptance", PolicyDocument=policy(statements))
        return made["Role"]["Arn"]

    # -- files -------------------------------------------------------------------------------------------------------

    def put(self, key: str, body: bytes) -> None:
        self.clients.s3.put_object(Bucket=self.place.config.bucket, Key=key, Body=body)

    def keys(self, prefix: str) -> dict[str, float]:
        """Name below the prefix -> LastModified, in epoch seconds."""
        pages = self.clients.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.place.config.bucket, Prefix=prefix
        )
        return {
            one["Key"][len(prefix) :]: one["LastModified"].timestamp()
            for page in pages
            for one in page.get("Contents", [])
        }

    # -- the beginning and the end -----------------------------------------------------------------------------------

    def stop_earlier(self) -> list[str]:
        """Names of jobs that an acceptance left behind which could not tidy up; they are stopped."""
        pages = self.clients.sagemaker.get_paginator("list_training_jobs").paginate(
            NameContains=f"{self.place.config.environment}-{self.place.team}{NAME_PART}", StatusEquals="InProgress"
        )
        names = [one["TrainingJobName"] for page in pages for one in page["TrainingJobSummaries"]]
        for name in names:
            self.stop(name)
        return names

    def clear(self) -> list[str]:
        """Stop what still runs, delete roles and files. What could not be, in words; never raises AWS's errors."""
        left = self._stop_jobs()
        for role in self.roles:
            gone = self.call(lambda name=role: self._delete_role(name))  # type: ignore[misc]
            if not gone.ok:
                left.append(f"role {role}: {gone.words}")
        with suppress(*FAILED_READ):
            for name in self.keys(self.place.data):
                self.clients.s3.delete_object(Bucket=self.place.config.bucket, Key=self.place.data + name)
        return left

    def _stop_jobs(self) -> list[str]:
        left: list[str] = []
        for job in dict.fromkeys(self.jobs):
            try:
                described = self.clients.sagemaker.describe_training_job(TrainingJobName=job)
            except FAILED_READ as error:
                if "not found" not in words_of(error).lower():
                    left.append(f"job {job}: {words_of(error)}")
                continue
            if described.get("WarmPoolStatus", {}).get("Status") == "Available":
                self.call(
                    lambda name=job: self.clients.sagemaker.update_training_job(  # type: ignore[misc]
                        TrainingJobName=name, ResourceConfig={"KeepAlivePeriodInSeconds": 0}
                    )
                )
            if described["TrainingJobStatus"] not in TERMINAL:
                stopped = self.stop(job)
                words = "is being stopped" if stopped.ok else f"could not be stopped: {stopped.words}"
                left.append(f"job {job}: {words}; it ends by itself at its MaxRuntimeInSeconds")
        return left

    def _delete_role(self, name: str) -> None:
        with suppress(self.clients.iam.exceptions.NoSuchEntityException):  # halted between the two calls that make one
            self.clients.iam.delete_role_policy(RoleName=name, PolicyName="acceptance")
        self.clients.iam.delete_role(RoleName=name)

    def _tags(self) -> list[dict[str, str]]:
        config = self.place.config
        tags = {
            **config.tags,
            "holdfast:environment": config.environment,
            "holdfast:team": self.place.team,
            "holdfast:acceptance": self.place.uid,
        }
        return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def channel(name: str, uri: str) -> dict[str, Any]:
    return {
        "ChannelName": name,
        "DataSource": {
            "S3DataSource": {
                "S3DataType": "S3Prefix",
                "S3Uri": uri,
                "S3DataDistributionType": "FullyReplicated",
            }
        },
        "InputMode": "File",
    }


def policy(statements: list[Mapping[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})
