"""What a job's hosts say and do, on its way to CloudWatch: their log lines, the metrics in these, their host metrics.

Each job's lines are late by one draw of the profile's delay and its metrics by another (or by what a fault says), from
the moment that they are about; that moment is the time that CloudWatch stores.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import BinaryIO

from sandbox.sagemaker import metrics
from sandbox.sagemaker.access import RoleClients
from sandbox.sagemaker.fault_plan import FaultPlan
from sandbox.sagemaker.host import Host
from sandbox.sagemaker.line_faults import LineFaults
from sandbox.sagemaker.logs import HostLog, open_streams
from sandbox.sagemaker.periodic import Periodic
from sandbox.sagemaker.profile import Profile
from sandbox.sagemaker.record import TrainingJob

_LAST_OUTPUT_SECONDS = 5.0


class Telemetry:
    """Of one cluster: a restarted job gets new streams (assumed)."""

    def __init__(
        self,
        job: TrainingJob,
        clients: RoleClients,
        profile: Profile,
        plan: FaultPlan,
        hosts: Sequence[Host],
    ) -> None:
        self._job = job
        self._clients = clients
        self._profile = profile
        self._plan = plan
        self._hosts = hosts
        definitions = job.request["AlgorithmSpecification"].get("MetricDefinitions", [])
        self._found = metrics.LogMetrics(definitions, job.record_metric)
        self._line_faults = LineFaults(job.name, definitions, plan)
        self._shipment = metrics.Shipment(clients)
        self._logs: list[HostLog] = []
        self._periodics: list[Periodic] = []

    def open(self) -> None:
        """Make the hosts' streams. Raises LogsError."""
        names = open_streams(self._clients, [host.marker for host in self._hosts], int(time.time()))
        self._logs = [HostLog(self._clients, name, self._found.read, self._line_faults.of) for name in names]

    def follow(self, number: int, output: BinaryIO) -> None:
        """Read the output of the host at this index."""
        self._logs[number].follow(output)

    def start(self) -> None:
        resources = self._job.request["ResourceConfig"]
        gpus = self._profile.synthetic_gpus_per_host
        if gpus is None:
            gpus = metrics.gpu_count(resources["InstanceType"])
        volume_bytes = resources.get("VolumeSizeInGB", 0) * 2**30 or 2**40
        samplers = [metrics.HostMetrics(host, gpus, volume_bytes, self._gpu_signature) for host in self._hosts]

        def sample() -> None:
            now = time.time()
            self._shipment.add([datum for sampler in samplers for datum in sampler.sample(now)])
            self._send_metrics()

        sample()
        profile, name = self._profile, self._job.name
        self._periodics = [
            Periodic(f"{name} logs", profile.log_flush_seconds, self._send_logs),
            Periodic(f"{name} metrics", profile.metric_flush_seconds, self._send_metrics),
            Periodic(f"{name} host metrics", profile.host_metric_seconds, sample),
        ]
        for periodic in self._periodics:
            periodic.start()

    def finish(self) -> None:
        """The hosts have ended. What is late by the profile still comes, on a thread of its own; safe to call twice."""
        for periodic in self._periodics:
            periodic.end()
        self._periodics.clear()
        for log in self._logs:
            log.read_to_the_end(_LAST_OUTPUT_SECONDS)
        if self._is_late():
            threading.Thread(target=self._send_the_rest, name=f"{self._job.name} late", daemon=True).start()
        else:
            for log in self._logs:
                log.flush(read_before=None)
            self._shipment.add(self._found.take(self._job.name))
            self._shipment.send(older_than=None)

    # -- inner -------------------------------------------------------------------------------------------------------

    def _is_late(self) -> bool:
        return self._profile.late_after_end or self._plan.lasting("DelayTelemetry", self._job.name) is not None

    def _send_the_rest(self) -> None:
        self._send_metrics()
        while not (all(log.empty for log in self._logs) and self._shipment.empty):
            time.sleep(min(self._profile.log_flush_seconds, self._profile.metric_flush_seconds))
            self._send_logs()
            self._send_metrics()

    def _send_logs(self) -> None:
        delay = self._delay("LogSeconds")
        for log in self._logs:
            log.flush(read_before=time.time() - delay)

    def _send_metrics(self) -> None:
        self._shipment.add(self._found.take(self._job.name))
        self._shipment.send(older_than=datetime.fromtimestamp(time.time() - self._delay("MetricSeconds"), UTC))

    def _delay(self, option: str) -> float:
        fault = self._plan.lasting("DelayTelemetry", self._job.name)
        if fault is not None:
            return fault.seconds(option)
        profile = self._profile
        delay = profile.log_delay if option == "LogSeconds" else profile.metric_delay
        return delay.draw(profile.delay_seed, self._job.name, option)

    def _gpu_signature(self) -> str | None:
        fault = self._plan.lasting("GpuSignature", self._job.name)
        return None if fault is None else fault.text("Shape")
