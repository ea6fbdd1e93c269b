"""What stands between a CreateTrainingJob request and a job: who may, what is refused, what is in use.

Assumed: the order of these checks, which AWS does not document.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from sandbox.cloud.context import Caller, JsonObject, RoleNotAssumable
from sandbox.sagemaker import channels, rules
from sandbox.sagemaker.access import RoleClients
from sandbox.sagemaker.catalogue import Catalogue, NameTakenError
from sandbox.sagemaker.errors import ApiError
from sandbox.sagemaker.plant import Plant
from sandbox.sagemaker.quotas import Quotas, Usage, usage_of
from sandbox.sagemaker.record import TrainingJob

PASSED_TO = "sagemaker.amazonaws.com"


@dataclass(frozen=True)
class Created:
    job: TrainingJob
    clients: RoleClients
    warm_port: int | None
    """Where the hosts of the warm pool are that the job takes over."""


class Creation:
    """`changed` is told each state change of the jobs."""

    def __init__(self, plant: Plant, catalogue: Catalogue, changed: Callable[[TrainingJob], None]) -> None:
        self._plant = plant
        self._catalogue = catalogue
        self._changed = changed
        # What is in use is counted and taken in one step: two requests must not both get the last instance.
        self._admission = threading.Lock()

    def admit(self, request: JsonObject, arn: str, caller: Caller) -> Created:
        """A new job in the catalogue. Raises ApiError."""
        _authorize(request, arn, caller)
        refused = rules.refusal(request)
        if refused is not None:
            raise ApiError("ValidationException", refused)
        beyond = rules.not_emulated(request)
        if beyond is not None:
            raise ApiError("ValidationException", f"Not emulated by the sandbox: {beyond}")
        existing = self._catalogue.named(request["TrainingJobName"])
        if existing is not None:
            raise _taken(existing)
        clients = RoleClients(self._plant.context, request["RoleArn"])
        self._check_inputs(request, clients)
        with self._admission:
            return self._add(TrainingJob(request, arn, changed=self._changed), clients)

    def _add(self, job: TrainingJob, clients: RoleClients) -> Created:
        pools = self._plant.pools
        reused = pools.match(job.request)
        self._check_quotas(job.request, self._in_use(but=reused))
        try:
            self._catalogue.add(job)
        except NameTakenError as taken:
            raise _taken(taken.args[0]) from None
        pools.open(job.name, job.request)
        return Created(job, clients, None if reused is None else pools.claim(reused, job.name))

    def _check_quotas(self, request: JsonObject, in_use: list[Usage]) -> None:
        longest = request.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", rules.DEFAULT_MAX_RUNTIME_SECONDS)
        refused = self._plant.quotas.refusal(request, longest, in_use)
        if refused is None and self._plant.plan.take("RefuseCapacityAtCreate", request["TrainingJobName"]) is not None:
            claim = Quotas.of_type(usage_of(request), in_use)
            refused = claim.refusal(limit=claim.in_use)  # as of an account whose quota is just used up
        if refused is not None:
            raise ApiError("ResourceLimitExceeded", refused)

    def _in_use(self, *, but: str | None) -> list[Usage]:
        """`but`: the job whose warm pool the new one takes over."""
        pools = self._plant.pools.idle()
        jobs = {job.name: usage_of(job.request) for job in self._catalogue.alive()}
        # A job that is just ending has its pool already; its instances are the same ones.
        return [usage for name, usage in {**pools, **jobs}.items() if name != but]

    def _check_inputs(self, request: JsonObject, clients: RoleClients) -> None:
        try:
            for channel in request.get("InputDataConfig", []):
                refused = channels.channel_refusal(clients, channel, request["RoleArn"], self._plant.context.region)
                if refused is not None:
                    raise ApiError("ValidationException", refused)
            clients.credentials()
        except RoleNotAssumable as error:
            raise ApiError("ValidationException", str(error)) from None


def _authorize(request: JsonObject, arn: str, caller: Caller) -> None:
    role = request["RoleArn"]
    if not caller.is_caller_allowed("iam:PassRole", role, {"iam:PassedToService": PASSED_TO}):
        raise _denied(caller, "iam:PassRole", role)
    if request.get("Tags") and not caller.is_caller_allowed("sagemaker:AddTags", arn):
        raise _denied(caller, "sagemaker:AddTags", arn)


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
