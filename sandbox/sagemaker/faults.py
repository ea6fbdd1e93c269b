"""Faults that are given to the sandbox, never to the product: a small control API beside the SageMaker one.

Served as the JSON service `sandboxfaults` (client.py speaks it). There are two sorts. One hits the processes of a job's
hosts at once and from outside, as a lost node or a hung kernel would; the training plane is not told, so statuses, logs
and metrics are what they would be for a real one. The other makes AWS itself behave as it sometimes does: it is armed
for jobs by the pattern of their names (fault_plan.py), also for jobs that do not exist yet, or set for the account.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandbox.cloud.context import Caller, CloudContext, JsonObject
from sandbox.cloud.service_quotas import ServiceQuotas
from sandbox.sagemaker.fault_plan import FaultPlan
from sandbox.sagemaker.host import FaultReport, Host, HostError
from sandbox.sagemaker.plant import Plant
from sandbox.sagemaker.rate_limits import RateLimits
from sandbox.sagemaker.runner import JobRunner

SERVICE = "sandboxfaults"
ALL_HOSTS = "all"

_ACTIONS: dict[str, Callable[[Host], FaultReport]] = {
    "FreezeHosts": Host.freeze,
    "ThawHosts": Host.thaw,
    "KillHosts": Host.kill,
}


def install(
    context: CloudContext,
    runner_of: Callable[[str], JobRunner | None],
    plant: Plant,
    limits: RateLimits,
    quotas: ServiceQuotas,
) -> None:
    context.register_json_service(SERVICE, FaultService(runner_of, plant.plan, quotas, limits).handle)


class FaultService:
    """Operations: FreezeHosts, ThawHosts and KillHosts, each with TrainingJobName and Host; Arm (Kind, JobNamePattern,
    Count, Options) and Disarm (FaultId); Throttle (Operation, Seconds); SetQuota (Name, Value); AnswerQuotaRequest
    (Name, Granted); ListFaults."""

    def __init__(
        self, runner_of: Callable[[str], JobRunner | None], plan: FaultPlan, quotas: ServiceQuotas, limits: RateLimits
    ) -> None:
        self._runner_of = runner_of
        self._plan = plan
        self._quotas = quotas
        self._limits = limits
        self._operations: dict[str, Callable[[JsonObject], JsonObject]] = {
            "Arm": self._arm,
            "Disarm": lambda params: self._plan.disarm(params.get("FaultId")).describe(),
            "Throttle": self._throttle,
            "SetQuota": self._set_quota,
            "AnswerQuotaRequest": self._answer_quota_request,
            "ListFaults": lambda _: {"Faults": self._plan.recorded(), "Armed": self._plan.armed()},
        }

    def handle(self, operation: str, params: JsonObject, _caller: Caller) -> tuple[int, JsonObject]:
        try:
            if operation in _ACTIONS:
                fault = self._inject(operation, params)
                self._plan.record(fault)
                return 200, fault
            if operation in self._operations:
                return 200, self._operations[operation](params)
        except (ValueError, HostError) as error:
            return _refused(str(error))
        there = ", ".join([*_ACTIONS, *self._operations])
        return _refused(f"unknown operation {operation!r}; there are {there}")

    def _arm(self, params: JsonObject) -> JsonObject:
        armed = self._plan.arm(*(params.get(name) for name in ("Kind", "JobNamePattern", "Count", "Options")))
        return armed.describe()

    def _throttle(self, params: JsonObject) -> JsonObject:
        operation, seconds = params.get("Operation"), _number(params, "Seconds")
        if not isinstance(operation, str) or not operation:
            raise ValueError(f"Operation: {operation!r} is no operation; give e.g. 'CreateTrainingJob'")
        self._limits.throttle(operation, seconds)
        return {"Operation": operation, "Seconds": seconds}

    def _set_quota(self, params: JsonObject) -> JsonObject:
        name, value = _quota_name(params), _number(params, "Value")
        self._quotas.values.set(name, value)
        return {"Name": name, "Value": value}

    def _answer_quota_request(self, params: JsonObject) -> JsonObject:
        """AWS decides. `Granted` is what the quota becomes; without it, the whole value that was asked for."""
        granted = None if params.get("Granted") is None else _number(params, "Granted")
        return self._quotas.decide(_quota_name(params), granted)

    def _inject(self, operation: str, params: JsonObject) -> JsonObject:
        hosts = self._hosts(params)
        reports = {host.name: _ACTIONS[operation](host) for host in hosts}
        return {
            "Fault": operation,
            "TrainingJobName": params["TrainingJobName"],
            "Hosts": {name: report.processes for name, report in reports.items()},
            # The moment when the last host was hit: from here on nothing of the job moves.
            "At": max(report.at for report in reports.values()),
        }

    def _hosts(self, params: JsonObject) -> list[Host]:
        name, wanted = params.get("TrainingJobName"), params.get("Host", ALL_HOSTS)
        runner = self._runner_of(name) if isinstance(name, str) else None
        if runner is None:
            raise ValueError(f"TrainingJobName: there is no training job {name!r}")
        running: list[Host] = runner.hosts
        hosts = [host for host in running if wanted in (ALL_HOSTS, host.name)]
        if not hosts:
            names = ", ".join(host.name for host in running) or "none"
            raise ValueError(f"Host: {wanted!r} of {name!r} is not running (running: {names})")
        return hosts


def _quota_name(params: JsonObject) -> str:
    name = params.get("Name")
    if not isinstance(name, str) or not name:
        raise ValueError(f"Name: {name!r} is no quota; give e.g. 'ml.m5.xlarge for training job usage'")
    return name


def _number(params: JsonObject, name: str) -> float:
    value = params.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name}: {value!r} is no number of 0 or more")
    return float(value)


def _refused(message: str) -> tuple[int, dict[str, Any]]:
    return 400, {"__type": "ValidationException", "message": message}
