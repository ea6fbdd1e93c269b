"""The metrics of a job: what its regexes find in the log, and what its hosts are doing.

CPU, memory and disk are measured on the host's real processes. GPU figures are SYNTHETIC, for the sandbox has no GPU:
they are a function of the same processes' CPU time and memory, so they move when the host works and stand still at
zero when it does not. A fault gives them the signature of a real one: a GPU reads 100 while NCCL waits for a peer
(NVIDIA/nccl#968), and 0 where its rank has left or is stuck on the host (NVIDIA/nccl#1033).
"""

from __future__ import annotations

import logging
import math
import os
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from sandbox.sagemaker.access import METRIC_NAMESPACE
from sandbox.sagemaker.host import Host
from sandbox.sagemaker.logs import Line
from sandbox.sagemaker.storage import Clients

logger = logging.getLogger("sandbox.sagemaker")

_MAX_DATA = 1000
"""MetricData members of one PutMetricData (API reference)."""

GPUS = {
    "p4d.24xlarge": 8, "p4de.24xlarge": 8, "p5.4xlarge": 1, "p5.48xlarge": 8, "p5e.48xlarge": 8, "p5en.48xlarge": 8,
    "p6-b200.48xlarge": 8, "p6-b300.48xlarge": 8, "p3.2xlarge": 1, "p3.8xlarge": 4, "p3.16xlarge": 8,
    "p3dn.24xlarge": 8, "g4dn.12xlarge": 4, "g5.12xlarge": 4, "g5.24xlarge": 4, "g5.48xlarge": 8, "g6.12xlarge": 4,
    "g6.24xlarge": 4, "g6.48xlarge": 8, "g6e.12xlarge": 4, "g6e.24xlarge": 4, "g6e.48xlarge": 8,
}  # fmt: skip
"""GPUs of the types that have more than one, or that are P types; every other ml.g type has one."""


def gpu_count(instance_type: str) -> int:
    size = instance_type.removeprefix("ml.")
    return GPUS.get(size, 1 if size.startswith("g") else 0)


class LogMetrics:
    """MetricDefinitions at work: the first capture group of each regex that matches a line. Thread-safe.

    `found` is told each value; a value that is no finite number is dropped, for CloudWatch refuses it.
    """

    def __init__(self, definitions: Iterable[dict[str, str]], found: Callable[[str, float, float], None]) -> None:
        self._definitions = [(entry["Name"], re.compile(entry["Regex"])) for entry in definitions]
        self._found = found
        self._lock = threading.Lock()
        self._data: list[tuple[str, float, float]] = []

    def read(self, line: Line) -> None:
        at, text = line
        for name, regex in self._definitions:
            match = regex.search(text)
            value = _finite(match.group(1)) if match else None
            if value is not None:
                self._found(name, value, at)
                with self._lock:
                    self._data.append((name, value, at))

    def take(self, job: str) -> list[dict[str, Any]]:
        """What was found since the last time, as MetricData of one-second resolution."""
        with self._lock:
            taken, self._data = self._data, []
        return [_datum(name, value, at, dimension=("TrainingJobName", job)) for name, value, at in taken]


def _finite(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class _Sample:
    at: float
    cpu_seconds: float


class HostMetrics:
    """The five host metrics of one host, over the time since the last sample.

    `signature` names the shape that a fault gives the GPU figures at the moment, None for none.
    """

    def __init__(
        self, host: Host, gpus: int, volume_bytes: int, signature: Callable[[], str | None] = lambda: None
    ) -> None:
        self._host = host
        self._gpus = gpus
        self._signature = signature
        self._volume_bytes = volume_bytes
        self._last: _Sample | None = None

    def sample(self, at: float) -> list[dict[str, Any]]:
        """MetricData at `at` (epoch seconds); empty for the first sample, which only sets the start."""
        processes = self._host.processes()
        now = _Sample(at, sum(process.cpu_seconds for process in processes))
        last, self._last = self._last, now
        if last is None or now.at <= last.at:
            return []
        # CPU time of a process that nobody waited for is lost with it, so the sum can fall.
        cpu = max(0.0, now.cpu_seconds - last.cpu_seconds) / (now.at - last.at) * 100
        cpu = min(cpu, 100.0 * (os.cpu_count() or 1))
        memory = min(100.0, 100.0 * sum(process.resident_bytes for process in processes) / _memory_bytes())
        values = {
            "CPUUtilization": cpu,
            "MemoryUtilization": memory,
            "DiskUtilization": min(100.0, 100.0 * _tree_bytes(self._host.tree) / self._volume_bytes),
        }
        if self._gpus:
            shape = self._signature()
            values["GPUUtilization"] = (
                self._gpus * synthetic_gpu_utilization(cpu)
                if shape is None
                else signature_utilization(shape, self._gpus, self._host.number)
            )
            values["GPUMemoryUtilization"] = self._gpus * memory
        dimension = ("Host", self._host.marker)
        return [_datum(name, value, at, dimension=dimension, unit="Percent") for name, value in values.items()]


def synthetic_gpu_utilization(cpu: float) -> float:
    """Percent of one synthetic GPU from the host's CPU percent: 0 at rest, 80 at one busy core, never quite 100."""
    return 100.0 * cpu / (cpu + 25.0)


def signature_utilization(shape: str, gpus: int, host_number: int) -> float:
    """GPUUtilization of a host, the sum over its GPUs, while a fault holds.

    `split`: the GPUs of every second host stand at 0 and the others' at 100; the first host's at 100.
    """
    at_full = {"flat-100": True, "flat-0": False, "split": host_number % 2 == 1}[shape]
    return 100.0 * gpus if at_full else 0.0


class Shipment:
    """Metric values on their way to CloudWatch, each with the time that it is about. Thread-safe."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._lock = threading.Lock()
        self._waiting: list[dict[str, Any]] = []

    def add(self, data: list[dict[str, Any]]) -> None:
        with self._lock:
            self._waiting += data

    @property
    def empty(self) -> bool:
        with self._lock:
            return not self._waiting

    def send(self, *, older_than: datetime | None) -> None:
        """Send the values of before that moment, all with None."""
        with self._lock:
            ready = [datum for datum in self._waiting if older_than is None or datum["Timestamp"] <= older_than]
            self._waiting = [
                datum for datum in self._waiting if older_than is not None and datum["Timestamp"] > older_than
            ]
        put(self._clients, ready)


def put(clients: Clients, data: list[dict[str, Any]]) -> None:
    """Send; what is refused is lost, and is said."""
    for start in range(0, len(data), _MAX_DATA):
        part = data[start : start + _MAX_DATA]
        try:
            clients.client("cloudwatch").put_metric_data(Namespace=METRIC_NAMESPACE, MetricData=part)
        except (ClientError, BotoCoreError) as error:
            logger.warning("%d metric values lost: %s", len(part), error)


def _datum(name: str, value: float, at: float, *, dimension: tuple[str, str], unit: str = "None") -> dict[str, Any]:
    return {
        "MetricName": name,
        "Dimensions": [{"Name": dimension[0], "Value": dimension[1]}],
        "Timestamp": datetime.fromtimestamp(at, UTC),
        "Value": value,
        "Unit": unit,
        "StorageResolution": 1,
    }


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _tree_bytes(tree: Path) -> int:
    total = 0
    for folder, _, names in os.walk(tree):
        for name in names:
            try:
                total += Path(folder, name).lstat().st_size
            except OSError:
                continue  # deleted meanwhile
    return total
