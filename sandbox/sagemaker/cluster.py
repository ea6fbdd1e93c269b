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

from sandbox.sagemaker import channels
from sandbox.sagemaker.access import RoleClients
from sandbox.sagemaker.artifacts import upload_artifacts
from sandbox.sagemaker.checkpoint_sync import CheckpointSync, as_folder
from sandbox.sagemaker.host import Host, HostError
from sandbox.sagemaker.periodic import Periodic
from sandbox.sagemaker.plant import Plant
from sandbox.sagemaker.record import TrainingJob
from sandbox.sagemaker.storage import StorageError, location
from sandbox.sagemaker.telemetry import Telemetry

logger = logging.getLogger("sandbox.sagemaker")

_DEFAULT_CHECKPOINT_PATH = "/opt/ml/checkpoints/"


class Cluster:
    """`folder` gets the hosts' trees; `port` is the job's alone on this machine."""

    def __init__(
        self,
        job: TrainingJob,
        plant: Plant,
        clients: RoleClients,
        *,
        folder: Path,
        port: int,
        addresses: Sequence[str],
    ) -> None:
        self._job = job
        self._context = plant.context
        self._clients = clients
        self._profile = plant.profile
        self._port = port
        self._folder = folder
        self.hosts = [
            Host(job.name, number, address, folder / f"algo-{number}")
            for number, address in enumerate(addresses, start=1)
        ]
        self.sync_error: StorageError | None = None
        self._sync: CheckpointSync | None = self._checkpoint_sync()
        self._telemetry = Telemetry(job, clients, plant.profile, plant.plan, self.hosts)
        self._sync_passes: Periodic | None = None
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
        self._telemetry.open()

    def start(self) -> None:
        """Start every host's entry point. Raises HostError."""
        algorithm = self._job.request["AlgorithmSpecification"]
        argv = [*algorithm["ContainerEntrypoint"], *algorithm.get("ContainerArguments", [])]
        given = self._job.request.get("Environment", {})
        of_job = self._environment()
        for number, host in enumerate(self.hosts):
            output, group = host.start(argv, host.environment(given, of_job))
            self._context.guard_process_group(group)
            self._groups.append(group)
            self._telemetry.follow(number, output)
        self._telemetry.start()
        self._start_sync()

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

    def finish(self, *, last_sync: bool = True) -> None:
        """After the hosts have ended: the last checkpoints, log lines and metrics. Safe to call twice.

        Without `last_sync` what the hosts had not uploaded yet is lost with them.
        """
        with self._ended:
            if self._sync_passes is not None and self._sync is not None:
                self._sync_passes.end()
                if last_sync:
                    self._pass_of_sync(self._sync)
                self._sync_passes = None
            if self._groups:
                self._telemetry.finish()
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

    def _start_sync(self) -> None:
        sync = self._sync
        if sync is not None:
            self._sync_passes = Periodic(
                f"{self._job.name} sync", self._profile.checkpoint_sync_seconds, lambda: self._pass_of_sync(sync)
            )
            self._sync_passes.start()

    def _pass_of_sync(self, sync: CheckpointSync) -> None:
        try:
            sync.upload_changes()
        except StorageError as error:
            if error.code in ("AccessDenied", "NoSuchBucket"):
                self.sync_error = error
            else:
                logger.warning("%s: checkpoint sync: %s", self._job.name, error)
