"""The training part of the SageMaker API, over the wire as AWS speaks it: CreateTrainingJob to AddTags.

Every request is checked against botocore's model, and so is every response before it is sent: what the sandbox answers
is what a client library of AWS can read.
"""

from __future__ import annotations

import logging
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import botocore.session
from botocore.model import ServiceModel

from sandbox.cloud import service_quotas
from sandbox.cloud.context import Caller, CloudContext, JsonObject
from sandbox.sagemaker import faults, shape_check
from sandbox.sagemaker.catalogue import Catalogue, TokenError, page_of_tags
from sandbox.sagemaker.creation import Creation
from sandbox.sagemaker.errors import ApiError, ResponseError
from sandbox.sagemaker.event_delivery import EventDelivery
from sandbox.sagemaker.host import short_folder
from sandbox.sagemaker.plant import Plant
from sandbox.sagemaker.profile import Profile
from sandbox.sagemaker.rate_limits import RateLimits
from sandbox.sagemaker.record import TERMINAL, TrainingJob
from sandbox.sagemaker.runner import JobRunner
from sandbox.sagemaker.warm_pools import LONGEST_SECONDS

logger = logging.getLogger("sandbox.sagemaker")

MAX_TAGS = 50

_CREATE = "CreateTrainingJob"
_OF_ONE_JOB = ("DescribeTrainingJob", "StopTrainingJob", "UpdateTrainingJob", "DeleteTrainingJob")
_SHUTDOWN_SECONDS = 8.0


def install(context: CloudContext, profile: Profile) -> TrainingApi:
    """Plug the training plane into the emulator, and its faults (faults.py) and quotas beside it."""
    api = TrainingApi(context, profile, service_model())
    context.register_json_service("sagemaker", api.handle, resource_of=api.resources_of)
    # Service Quotas is part of this plane: what is raised there holds here, at once.
    quotas = service_quotas.serve(context, api.plant.quotas.values)
    faults.install(context, api.runner, api.plant, api.limits, quotas)
    context.on_shutdown(api.shut_down)
    return api


def service_model() -> ServiceModel:
    return botocore.session.get_session().get_service_model("sagemaker")


class TrainingApi:
    def __init__(self, context: CloudContext, profile: Profile, model: ServiceModel) -> None:
        self._context = context
        self._model = model
        self.plant = Plant.new(context, profile)
        self.limits = RateLimits(profile.calls_per_second, profile.rate_burst_seconds)
        self._catalogue = Catalogue(self.plant.pools.status_of)
        self._creation = Creation(self.plant, self._catalogue, EventDelivery(context, self.plant.plan).announce)
        self._runners: dict[str, JobRunner] = {}
        self._lock = threading.Lock()
        self._jobs_folder = _safe_folder(context.state_dir / "jobs")
        self._operations: dict[str, Callable[[JsonObject], JsonObject]] = {
            "DescribeTrainingJob": self._describe,
            "ListTrainingJobs": self._list,
            "StopTrainingJob": self._stop,
            "UpdateTrainingJob": self._update,
            "DeleteTrainingJob": self._delete,
            "ListTags": self._list_tags,
            "AddTags": self._add_tags,
        }

    def handle(self, operation: str, params: JsonObject, caller: Caller) -> tuple[int, JsonObject]:
        try:
            if operation != _CREATE and operation not in self._operations:
                raise ApiError("UnknownOperationException", f"Not emulated by the sandbox: sagemaker {operation}")
            if not self.limits.admits(operation):
                raise ApiError("ThrottlingException", "Rate exceeded")
            self._check_request(operation, params)
            body = self._create(params, caller) if operation == _CREATE else self._operations[operation](params)
            self._check_response(operation, body)
            if self.plant.plan.take("LoseAnswer", str(params.get("TrainingJobName")), Operation=operation):
                # Done, and the caller does not learn it: what a connection that breaks at the wrong moment is like.
                return 500, {"__type": "InternalFailure", "message": "the answer was lost, by a fault of the sandbox"}
            return 200, body
        except ApiError as error:
            return 400, {"__type": error.code, "message": str(error)}
        except Exception:
            logger.exception("sagemaker %s failed", operation)
            return 500, {"__type": "InternalFailure", "message": f"the sandbox failed in {operation}; see its log"}

    def resources_of(self, operation: str, params: JsonObject) -> list[str]:
        """ARNs on which an operation is authorized (service authorization reference, Amazon SageMaker)."""
        if operation in (_CREATE, *_OF_ONE_JOB):
            return [self._arn(params["TrainingJobName"])]
        if operation in ("AddTags", "ListTags"):
            return [params["ResourceArn"]]
        return ["*"]

    def runner(self, job_name: str) -> JobRunner | None:
        with self._lock:
            return self._runners.get(job_name)

    def shut_down(self) -> None:
        """Kill every host, and wait for the jobs' threads."""
        with self._lock:
            runners = list(self._runners.values())
        for runner in runners:
            runner.abandon()
        for runner in runners:
            runner.join(_SHUTDOWN_SECONDS)
        if self._jobs_folder.is_symlink():
            shutil.rmtree(self._jobs_folder.parent, ignore_errors=True)

    # -- operations --------------------------------------------------------------------------------------------------

    def _create(self, request: JsonObject, caller: Caller) -> JsonObject:
        arn = self._arn(request["TrainingJobName"])
        created = self._creation.admit(request, arn, caller)
        job = created.job
        runner = JobRunner(
            job, self.plant, clients=created.clients, folder=self._jobs_folder / job.name, warm_port=created.warm_port
        )
        with self._lock:
            self._runners[job.name] = runner
        job.enter("Starting")
        runner.start()
        return {"TrainingJobArn": arn}

    def _describe(self, request: JsonObject) -> JsonObject:
        job = self._job(request["TrainingJobName"])
        pool = self.plant.pools.status_of(job.name)
        return job.describe() if pool is None else {**job.describe(), "WarmPoolStatus": pool}

    def _update(self, request: JsonObject) -> JsonObject:
        """The length of the warm pool; the rest of the operation belongs to features that are not emulated."""
        job = self._job(request["TrainingJobName"])
        for field in ("ProfilerConfig", "ProfilerRuleConfigurations", "RemoteDebugConfig"):
            if field in request:
                raise ApiError("ValidationException", f"Not emulated by the sandbox: UpdateTrainingJob with {field}")
        seconds = request.get("ResourceConfig", {}).get("KeepAlivePeriodInSeconds")
        if seconds is not None:
            if seconds > LONGEST_SECONDS:
                raise ApiError("ValidationException", f"KeepAlivePeriodInSeconds must be at most {LONGEST_SECONDS}.")
            if not self.plant.pools.keep_alive(job.name, seconds):
                raise ApiError(  # assumed wording
                    "ValidationException", f"The training job {job.name} has no warm pool that can be updated."
                )
            job.keep_alive(seconds)
        return {"TrainingJobArn": job.arn}

    def _delete(self, request: JsonObject) -> JsonObject:
        """API reference: terminal jobs alone, and none that keeps an available warm pool; the name is free again."""
        job = self._job(request["TrainingJobName"])
        if job.status not in TERMINAL:
            raise ApiError(  # the code is the model's, the wording assumed
                "ResourceInUse", f"The training job {job.name} cannot be deleted while it is in status {job.status}."
            )
        pool = self.plant.pools.status_of(job.name)
        if pool is not None and pool["Status"] == "Available":
            raise ApiError("ResourceInUse", f"The training job {job.name} retains an available warm pool.")
        with self._lock:
            runner = self._runners.pop(job.name, None)
        if runner is not None:
            runner.join(_SHUTDOWN_SECONDS)  # its folder and its addresses are free before the name is
        self._catalogue.remove(job)
        self.plant.pools.forget(job.name)
        return {}

    def _list(self, request: JsonObject) -> JsonObject:
        return _paged(lambda: self._catalogue.page(request))

    def _stop(self, request: JsonObject) -> JsonObject:
        job = self._job(request["TrainingJobName"])
        if not job.begin_stopping() and job.status in TERMINAL:
            # awslabs/benchmark-ai#928
            raise ApiError(
                "ValidationException", f"The request was rejected because the training job is in status {job.status}."
            )
        runner = self.runner(job.name)
        if runner is not None:
            runner.wake()
        return {}

    def _list_tags(self, request: JsonObject) -> JsonObject:
        job = self._job_with_arn(request["ResourceArn"])
        return _paged(lambda: page_of_tags(job.tags, request))

    def _add_tags(self, request: JsonObject) -> JsonObject:
        job = self._job_with_arn(request["ResourceArn"])
        added = {tag["Key"]: tag["Value"] for tag in request["Tags"]}
        if len(job.tags | added) > MAX_TAGS:
            raise ApiError("ValidationException", f"A resource can have at most {MAX_TAGS} tags.")  # assumed wording
        return {"Tags": [{"Key": key, "Value": value} for key, value in job.add_tags(added).items()]}

    # -- checks ------------------------------------------------------------------------------------------------------

    def _check_request(self, operation: str, params: JsonObject) -> None:
        shape = self._model.operation_model(operation).input_shape
        if shape is None:
            return
        unknown = shape_check.unknown_members(shape, params)
        if unknown:
            raise ApiError("ValidationException", f"Unknown parameter in the request: {', '.join(unknown)}")
        try:
            found = shape_check.violations(shape, params)
        except shape_check.WrongTypeError as error:
            raise ApiError("SerializationException", str(error)) from None
        if found:
            raise ApiError("ValidationException", shape_check.message(found))

    def _check_response(self, operation: str, body: JsonObject) -> None:
        """Raises ResponseError: a response that the model does not allow is a mistake of the sandbox."""
        shape = self._model.operation_model(operation).output_shape
        if shape is None:
            found = list(body)
        else:
            found = [*shape_check.unknown_members(shape, body), *map(str, shape_check.violations(shape, body))]
        if found:
            raise ResponseError(f"{operation}: the response is not the model's: {'; '.join(found)}")

    def _job(self, name: str) -> TrainingJob:
        job = self._catalogue.named(name)
        if job is None:
            raise ApiError("ValidationException", "Requested resource not found.")
        return job

    def _job_with_arn(self, arn: str) -> TrainingJob:
        job = self._catalogue.with_arn(arn)
        if job is None:
            raise ApiError("ValidationException", "Requested resource not found.")
        return job

    def _arn(self, name: str) -> str:
        return f"arn:aws:sagemaker:{self._context.region}:{self._context.account}:training-job/{name}"


def _paged(page: Callable[[], JsonObject]) -> JsonObject:
    try:
        return page()
    except TokenError as error:
        raise ApiError("ValidationException", str(error)) from None


def _safe_folder(folder: Path) -> Path:
    """The folder, or a link to it whose path needs no quoting: it replaces /opt/ml inside shell commands."""
    folder.mkdir(parents=True, exist_ok=True)
    if re.fullmatch(r"[A-Za-z0-9_./+-]+", str(folder)):
        return folder
    link = short_folder() / "jobs"
    link.symlink_to(folder, target_is_directory=True)
    return link
