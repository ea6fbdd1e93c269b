"""The hosts of one job together: prepared, started, signalled, ended, and what they say and do passed on.

Nothing here knows statuses; runner.py decides what an ending means.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from sandbox.cloud.context import CloudContext
from sandbox.sagemaker import channels, metrics
from sandbox.sagemaker.access import RoleClients
from sandbox.sagemaker.artifacts import upload_artifacts
from sandbox.sagemaker.checkpoint_sync import CheckpointSync, as_folder
from sandbox.sagemaker.host import Host, HostError
from sandbox.sagemaker.logs import HostLog, open_streams
from sandbox.sagemaker.periodic import Periodic
from sandbox.sagemaker.profile import Profile
from sandbox.sagemaker.record import TrainingJob
from sandbox.sagemaker.storage import StorageError, location

logger = logging.getLogger("sandbox.sagemaker")

_DEFAULT_CHECKPOINT_PATH = "/opt/ml/checkpoints/"
_LAST_OUTPUT_SECONDS = 5.0


class Cluster:
    """`folder` gets the hosts' trees; `port` is the job's alone on this machine."""

    def __init__(
        self,
        job: TrainingJob,
        context: CloudContext,
        clients: RoleClients,
        profile: Profile,
        *,
        folder: Path,
        port: int,
        addresses: Sequence[str],
    ) -> None:
        self._job = job
        self._context = context
        self._clients = clients
        self._profile = profile
        self._port = port
        self._folder = folder
        self.hosts = [
            Host(job.name, number, address, folder / f"algo-{number}")
            for number, address in enumerate(addresses, start=1)
        ]
        self.sync_error: StorageError | None = None
        self._sync: CheckpointSync | None = self._checkpoint_sync()
        algorithm = job.request["AlgorithmSpecification"]
        self._log_metrics = metrics.LogMetrics(algorithm.get("MetricDefinitions", []), job.record_metric)
        self._logs: list[HostLog] = []
        self._periodics: list[Periodic] = []
        self._groups: list[int] = []
        self._ended = threading.Lock()

    # -- before ------------------------------------------------------------------------------------------------------

    def download(self) -> None:
        """Trees, configuration, channels and checkpoints. Raises StorageError."""
        for host in self.hosts:
            host.prepare()
            channels.write_config(self._job.request, host, self.hosts)
        channels.download_channels(self._clients, self._job.request, self.hosts)
        if self._sync is not None:
            self._sync.download()

    def open_logs(self) -> None:
        """Raises LogsError."""
        epoch = int(time.time())
        names = [f"{host.marker}-{epoch}" for host in self.hosts]
        open_streams(self._clients, names)
        self._logs = [HostLog(self._clients, name, self._log_metrics.read) for name in names]

    def start(self) -> None:
        """Start every host's entry point. Raises HostError."""
        algorithm = self._job.request["AlgorithmSpecification"]
        argv = [*algorithm["ContainerEntrypoint"], *algorithm.get("ContainerArguments", [])]
        given = self._job.request.get("Environment", {})
        of_job = self._environment()
        for host, log in zip(self.hosts, self._logs, strict=True):
            output, group = host.start(argv, host.environment(given, of_job))
            self._context.guard_process_group(group)
            self._groups.append(group)
            log.follow(output)
        self._start_periodics()

    # -- while it runs -----------------------------------------------------------------------------------------------

    def terminate(self) -> None:
        """SIGTERM to the entry point of every host that still runs."""
        for host in self._started():
            try:
                host.terminate()
            except HostError as error:
                logger.warning("%s", error)  # kill() comes next and takes it by force

    def wait(self, seconds: float) -> bool:
        """Wait until all hosts have ended; False if one has not by then."""
        deadline = time.monotonic() + seconds
        return all(host.wait(max(0.0, deadline - time.monotonic())) for host in self._started())

    def kill(self) -> None:
        """SIGKILL to every process of every host, and wait until they are gone."""
        for host in self._started():
            host.destroy()

    # -- after -------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """After the hosts have ended: the last checkpoints, log lines and metrics. Safe to call twice."""
        with self._ended:
            for periodic in self._periodics:
                periodic.end()
            if self._sync is not None and self._periodics:
                self._pass_of_sync(self._sync)
            for log in self._logs:
                log.finish(_LAST_OUTPUT_SECONDS)
            self._flush_metrics()
            self._periodics.clear()
            for group in self._groups:
                self._context.release_process_group(group)
            self._groups.clear()

    def upload_artifacts(self) -> None:
        """Raises StorageError."""
        upload_artifacts(self._clients, self._job, self.hosts)

    def failure_text(self, host: Host) -> str:
        """What the host wrote to /opt/ml/output/failure, or else another host; empty if none did."""
        for candidate in (host, *self.hosts):
            try:
                text = (candidate.tree / "output/failure").read_text(errors="replace").strip()
            except OSError:
                continue
            if text:
                return text
        return ""

    def discard(self) -> None:
        """The instances go, and their storage with them."""
        for host in self.hosts:
            host.discard(keep_tree=self._profile.keep_host_trees)
        if not self._profile.keep_host_trees:
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- inner -------------------------------------------------------------------------------------------------------

    def _started(self) -> list[Host]:
        return [host for host in self.hosts if host.started]

    def _environment(self) -> dict[str, str]:
        region = self._context.region
        env = {
            "TRAINING_JOB_NAME": self._job.name,
            "TRAINING_JOB_ARN": self._job.arn,
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            # The machine may itself be an EC2 instance, whose role is none of this job's business.
            "AWS_EC2_METADATA_DISABLED": "true",
            "MASTER_PORT": str(self._port),
        }
        if self._profile.omp_num_threads is not None:
            env["OMP_NUM_THREADS"] = str(self._profile.omp_num_threads)
        if self._job.request.get("EnableNetworkIsolation"):
            return env  # "no AWS credentials are made available to the container runtime environment" (API reference)
        return {**env, **self._clients.credentials().to_env(), "AWS_ENDPOINT_URL": self._context.endpoint_url}

    def _checkpoint_sync(self) -> CheckpointSync | None:
        config = self._job.request.get("CheckpointConfig")
        if config is None:
            return None
        local_path = config.get("LocalPath", _DEFAULT_CHECKPOINT_PATH)
        return CheckpointSync(self._clients, as_folder(location(config["S3Uri"])), self.hosts, local_path)

    def _start_periodics(self) -> None:
        resources = self._job.request["ResourceConfig"]
        gpus = self._profile.synthetic_gpus_per_host
        if gpus is None:
            gpus = metrics.gpu_count(resources["InstanceType"])
        volume_bytes = resources.get("VolumeSizeInGB", 0) * 2**30 or 2**40
        samplers = [metrics.HostMetrics(host, gpus, volume_bytes) for host in self.hosts]

        def sample() -> None:
            now = time.time()
            metrics.put(self._clients, [datum for sampler in samplers for datum in sampler.sample(now)])

        sample()
        profile, name = self._profile, self._job.name
        self._periodics = [
            Periodic(f"{name} logs", profile.log_flush_seconds, self._flush_logs),
            Periodic(f"{name} metrics", profile.metric_flush_seconds, self._flush_metrics),
            Periodic(f"{name} host metrics", profile.host_metric_seconds, sample),
        ]
        sync = self._sync
        if sync is not None:
            seconds = profile.checkpoint_sync_seconds
            self._periodics.append(Periodic(f"{name} sync", seconds, lambda: self._pass_of_sync(sync)))
        for periodic in self._periodics:
            periodic.start()

    def _flush_logs(self) -> None:
        for log in self._logs:
            log.flush(read_before=time.time() - self._profile.log_delay_seconds)

    def _flush_metrics(self) -> None:
        metrics.put(self._clients, self._log_metrics.take(self._job.name))

    def _pass_of_sync(self, sync: CheckpointSync) -> None:
        try:
            sync.upload_changes()
        except StorageError as error:
            if error.code in ("AccessDenied", "NoSuchBucket"):
                self.sync_error = error
            else:
                logger.warning("%s: checkpoint sync: %s", self._job.name, error)
