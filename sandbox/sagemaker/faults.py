"""Faults that are given to the sandbox, never to the product: a small control API beside the SageMaker one.

Served as the JSON service `sandboxfaults` (client.py speaks it). A fault hits the processes of a job's hosts from
outside, as a lost node or a hung kernel would; the training plane is not told, so statuses, logs and metrics are what
they would be for a real one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sandbox.cloud.context import Caller, CloudContext, JsonObject
from sandbox.sagemaker.host import FaultReport, Host, HostError
from sandbox.sagemaker.runner import JobRunner

SERVICE = "sandboxfaults"
ALL_HOSTS = "all"

_ACTIONS: dict[str, Callable[[Host], FaultReport]] = {
    "FreezeHosts": Host.freeze,
    "ThawHosts": Host.thaw,
    "KillHosts": Host.kill,
}


def install(context: CloudContext, runner_of: Callable[[str], JobRunner | None]) -> None:
    context.register_json_service(SERVICE, FaultService(runner_of).handle)


class FaultService:
    """Operations: FreezeHosts, ThawHosts and KillHosts, each with TrainingJobName and Host; ListFaults."""

    def __init__(self, runner_of: Callable[[str], JobRunner | None]) -> None:
        self._runner_of = runner_of
        self._lock = threading.Lock()
        self._injected: list[JsonObject] = []

    def handle(self, operation: str, params: JsonObject, _caller: Caller) -> tuple[int, JsonObject]:
        if operation == "ListFaults":
            with self._lock:
                return 200, {"Faults": list(self._injected)}
        if operation not in _ACTIONS:
            return _refused(f"unknown operation {operation!r}; there are {', '.join(_ACTIONS)} and ListFaults")
        try:
            fault = self._inject(operation, params)
        except (ValueError, HostError) as error:
            return _refused(str(error))
        with self._lock:
            self._injected.append(fault)
        return 200, fault

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


def _refused(message: str) -> tuple[int, dict[str, Any]]:
    return 400, {"__type": "ValidationException", "message": message}
