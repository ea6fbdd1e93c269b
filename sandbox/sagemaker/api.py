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

from sandbox.cloud.context import Caller, CloudContext, JsonObject, RoleNotAssumable
from sandbox.sagemaker import channels, faults, rules, shape_check
from sandbox.sagemaker.access import RoleClients
from sandbox.sagemaker.addresses import Addresses
from sandbox.sagemaker.catalogue import Catalogue, NameTakenError, TokenError, page_of_tags
from sandbox.sagemaker.host import short_folder
from sandbox.sagemaker.profile import Profile
from sandbox.sagemaker.record import TERMINAL, TrainingJob
from sandbox.sagemaker.runner import JobRunner

logger = logging.getLogger("sandbox.sagemaker")

EVENT_DETAIL_TYPE = "SageMaker Training Job State Change"
PASSED_TO = "sagemaker.amazonaws.com"
MAX_TAGS = 50

_CREATE = "CreateTrainingJob"
_SHUTDOWN_SECONDS = 8.0


class ApiError(Exception):
    """An error of the API: its code and its text."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ResponseError(Exception):
    """The sandbox was about to answer what AWS's model does not allow."""


def install(context: CloudContext, profile: Profile) -> TrainingApi:
    """Plug the training plane into the emulator, and its faults (faults.py) beside it."""
    api = TrainingApi(context, profile, service_model())
    context.register_json_service("sagemaker", api.handle, resource_of=api.resources_of)
    faults.install(context, api.runner)
    context.on_shutdown(api.shut_down)
    return api


def service_model() -> ServiceModel:
    return botocore.session.get_session().get_service_model("sagemaker")


class TrainingApi:
    def __init__(self, context: CloudContext, profile: Profile, model: ServiceModel) -> None:
        self._context = context
        self._profile = profile
        self._model = model
        self._catalogue = Catalogue()
        self._addresses = Addresses()
        self._runners: dict[str, JobRunner] = {}
        self._lock = threading.Lock()
        self._jobs_folder = _safe_folder(context.state_dir / "jobs")
        self._operations: dict[str, Callable[[JsonObject], JsonObject]] = {
            "DescribeTrainingJob": self._describe,
            "ListTrainingJobs": self._list,
            "StopTrainingJob": self._stop,
            "ListTags": self._list_tags,
            "AddTags": self._add_tags,
        }

    def handle(self, operation: str, params: JsonObject, caller: Caller) -> tuple[int, JsonObject]:
        try:
            if operation != _CREATE and operation not in self._operations:
                raise ApiError("UnknownOperationException", f"Not emulated by the sandbox: sagemaker {operation}")
            self._check_request(operation, params)
            body = self._create(params, caller) if operation == _CREATE else self._operations[operation](params)
            self._check_response(operation, body)
            return 200, body
        except ApiError as error:
            return 400, {"__type": error.code, "message": str(error)}
        except Exception:
            logger.exception("sagemaker %s failed", operation)
            return 500, {"__type": "InternalFailure", "message": f"the sandbox failed in {operation}; see its log"}

    def resources_of(self, operation: str, params: JsonObject) -> list[str]:
        """ARNs on which an operation is authorized (service authorization reference, Amazon SageMaker)."""
        if operation in (_CREATE, "DescribeTrainingJob", "StopTrainingJob"):
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
        self._authorize_create(request, arn, caller)
        refused = rules.refusal(request)
        if refused is not None:
            raise ApiError("ValidationException", refused)
        beyond = rules.not_emulated(request)
        if beyond is not None:
            raise ApiError("ValidationException", f"Not emulated by the sandbox: {beyond}")
        existing = self._catalogue.named(request["TrainingJobName"])
        if existing is not None:
            raise _taken(existing)
        clients = RoleClients(self._context, request["RoleArn"])
        self._check_inputs(request, clients)
        job = TrainingJob(request, arn, changed=self._announce)
        try:
            self._catalogue.add(job)
        except NameTakenError as taken:
            raise _taken(taken.args[0]) from None
        runner = JobRunner(
            job,
            self._context,
            self._profile,
            addresses=self._addresses,
            clients=clients,
            folder=self._jobs_folder / job.name,
        )
        with self._lock:
            self._runners[job.name] = runner
        job.enter("Starting")
        runner.start()
        return {"TrainingJobArn": arn}

    def _describe(self, request: JsonObject) -> JsonObject:
        return self._job(request["TrainingJobName"]).describe()

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

    def _authorize_create(self, request: JsonObject, arn: str, caller: Caller) -> None:
        role = request["RoleArn"]
        if not caller.is_caller_allowed("iam:PassRole", role, {"iam:PassedToService": PASSED_TO}):
            raise _denied(caller, "iam:PassRole", role)
        if request.get("Tags") and not caller.is_caller_allowed("sagemaker:AddTags", arn):
            raise _denied(caller, "sagemaker:AddTags", arn)

    def _check_inputs(self, request: JsonObject, clients: RoleClients) -> None:
        try:
            for channel in request.get("InputDataConfig", []):
                refused = channels.channel_refusal(clients, channel, request["RoleArn"], self._context.region)
                if refused is not None:
                    raise ApiError("ValidationException", refused)
            clients.credentials()
        except RoleNotAssumable as error:
            raise ApiError("ValidationException", str(error)) from None

    def _announce(self, job: TrainingJob) -> None:
        try:
            self._context.emit_event(EVENT_DETAIL_TYPE, job.event_detail(), [job.arn])
        except Exception:
            # Delivery is best effort with AWS too, and a job must not fail because its event could not be sent.
            logger.exception("%s: event lost", job.name)

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


def _taken(job: TrainingJob) -> ApiError:
    return ApiError(
        "ResourceInUse",
        "Training job names must be unique within an AWS account and region, and a training job with this name already "
        f"exists ({job.arn})",
    )


def _denied(caller: Caller, action: str, resource: str) -> ApiError:
    return ApiError(
        "AccessDeniedException",
        f"User: {caller.principal_arn} is not authorized to perform: {action} on resource: {resource} because no "
        f"identity-based policy allows the {action} action",
    )


def _safe_folder(folder: Path) -> Path:
    """The folder, or a link to it whose path needs no quoting: it replaces /opt/ml inside shell commands."""
    folder.mkdir(parents=True, exist_ok=True)
    if re.fullmatch(r"[A-Za-z0-9_./+-]+", str(folder)):
        return folder
    link = short_folder() / "jobs"
    link.symlink_to(folder, target_is_directory=True)
    return link
