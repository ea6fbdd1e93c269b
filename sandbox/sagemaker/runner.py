"""The life of one training job, from Starting to its end, on a thread of its own.

The order of statuses is that of the API reference (DescribeTrainingJob, SecondaryStatus). FailureReason texts are those
that SageMaker's users have reported; where none was found, the wording is marked as assumed.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from sandbox.cloud.context import CloudContext, RoleNotAssumable
from sandbox.sagemaker import access, record
from sandbox.sagemaker.addresses import AddressError, Addresses, host_addresses
from sandbox.sagemaker.cluster import Cluster
from sandbox.sagemaker.host import Host
from sandbox.sagemaker.logs import LogsError
from sandbox.sagemaker.profile import Profile
from sandbox.sagemaker.record import TrainingJob
from sandbox.sagemaker.rules import DEFAULT_MAX_RUNTIME_SECONDS
from sandbox.sagemaker.storage import StorageError

logger = logging.getLogger("sandbox.sagemaker")

_LOOK_SECONDS = 0.1
INTERNAL_ERROR = "InternalServerError: We encountered an internal error. Please try again."


class _Failed(Exception):  # noqa: N818 - like the two below, an end of the job and no error of the plane
    """The job ends as Failed; the text is its FailureReason."""


class _Stopping(Exception):  # noqa: N818
    """Somebody called StopTrainingJob."""


class _Abandoned(Exception):  # noqa: N818
    """The emulator is ending: no status, no upload, only an end."""


class JobRunner:
    def __init__(
        self,
        job: TrainingJob,
        context: CloudContext,
        profile: Profile,
        *,
        addresses: Addresses,
        clients: access.RoleClients,
        folder: Path,
    ) -> None:
        self.job = job
        self._context = context
        self._profile = profile
        self._addresses = addresses
        self._clients = clients
        self._folder = folder
        self._port: int | None = None
        self._cluster: Cluster | None = None
        self._woken = threading.Event()
        self._abandoned = False
        self._out_of_time = False
        self._thread = threading.Thread(target=self._run, name=f"{job.name} runner", daemon=True)

    @property
    def hosts(self) -> list[Host]:
        """The hosts whose processes run now; empty before the start and after the end."""
        cluster = self._cluster
        return [] if cluster is None else [host for host in cluster.hosts if host.started and host.exit_code is None]

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Look at the job's status at once."""
        self._woken.set()

    def abandon(self) -> None:
        """The emulator ends: kill the hosts without a grace and stop working."""
        self._abandoned = True
        self.wake()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    # -- the life ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._complete(self._train())
        except _Stopping:
            self._stop()
        except _Failed as failure:
            self._fail(str(failure))
        except RoleNotAssumable as error:
            self._fail(f"ClientError: {error}")
        except _Abandoned:
            logger.info("%s: abandoned, the emulator ends", self.job.name)
        except Exception:
            logger.exception("%s: the training plane failed", self.job.name)
            self._fail(INTERNAL_ERROR)
        finally:
            self._clear()

    def _train(self) -> Cluster:
        """Returns when every host has ended with 0."""
        cluster = self._bring_up()
        self._advance("Downloading")
        self.job.mark("TrainingStartTime")
        try:
            cluster.download()
        except StorageError as error:
            raise _Failed(f"ClientError: Data download failed:{error}") from error
        self._advance("Training")
        refused = access.image_refusal(self._context, self.job.request)
        if refused is not None:
            raise _Failed(refused)
        self._pause(self._profile.image_seconds)
        try:
            cluster.open_logs()
        except LogsError as error:
            # Assumed: SageMaker may run on without logs; a job that nobody can watch is failed here (see access.py).
            raise _Failed(f"ClientError: CloudWatch Logs: {error}") from error
        cluster.start()
        self.job.say(record.IN_PROGRESS)
        self._supervise(cluster)
        return cluster

    def _bring_up(self) -> Cluster:
        self.job.say(record.LAUNCHING)
        self._pause(self._profile.starting_seconds)
        self.job.say(record.PREPARING)
        refused = access.permission_refusal(self._context, self.job.request)
        if refused is not None:
            raise _Failed(refused)
        try:
            self._port = self._addresses.take()
            hosts = host_addresses(self._port, self.job.request["ResourceConfig"]["InstanceCount"])
        except AddressError as error:
            raise _Failed(f"CapacityError: the sandbox cannot run this job: {error}") from error
        self._cluster = Cluster(
            self.job,
            self._context,
            self._clients,
            self._profile,
            folder=self._folder,
            port=self._port,
            addresses=hosts,
        )
        return self._cluster

    def _supervise(self, cluster: Cluster) -> None:
        condition = self.job.request.get("StoppingCondition", {})
        seconds = condition.get("MaxRuntimeInSeconds", DEFAULT_MAX_RUNTIME_SECONDS)
        deadline = self.job.mark("TrainingStartTime") + seconds
        while True:
            self._pause(0)  # first: a job that is being stopped ends as Stopped, whatever its hosts do meanwhile
            failed = [host for host in cluster.hosts if host.exit_code not in (None, 0)]
            if failed:
                raise _Failed(self._failure(cluster, failed[0]))
            if all(host.exit_code == 0 for host in cluster.hosts):
                return
            if cluster.sync_error is not None:
                raise _Failed(f"ClientError: Checkpoint upload failed:{cluster.sync_error}")  # assumed wording
            if time.time() > deadline and self.job.begin_stopping():
                self._out_of_time = True
            self._pause(_LOOK_SECONDS)

    def _failure(self, cluster: Cluster, host: Host) -> str:
        """FailureReason of a host that exited non-zero: `AlgorithmError: <failure file>, exit code: <n>`.

        The form is that of aws-samples/amazon-sagemaker-ml-pipeline-deploy-with-terraform#12 (without a failure file).
        Cutting the file's text so that the exit code stays readable is assumed.
        """
        start, end = "AlgorithmError: ", f", exit code: {host.exit_code}"
        room = record.MAX_FAILURE_REASON - len(start) - len(end)
        return start + cluster.failure_text(host)[:room] + end

    # -- the four ends -----------------------------------------------------------------------------------------------

    def _complete(self, cluster: Cluster) -> None:
        self._advance("Uploading")
        cluster.finish()
        self._upload(cluster)
        self.job.mark("TrainingEndTime")
        if not self.job.enter("Completed", status="Completed", expected="InProgress"):
            raise _Stopping

    def _stop(self) -> None:
        """From Stopping to Stopped: SIGTERM, the grace, SIGKILL, the last uploads."""
        cluster = self._cluster
        try:
            if cluster is not None:
                cluster.terminate()
                self._wait_or_kill(cluster, self._profile.stop_grace_seconds)
                cluster.finish()
                self._upload(cluster)
        except _Failed as failure:
            self._fail(str(failure))
            return
        except _Abandoned:
            return
        self.job.mark("TrainingEndTime")
        secondary = "MaxRuntimeExceeded" if self._out_of_time else "Stopped"
        self.job.enter(secondary, status="Stopped")

    def _fail(self, reason: str) -> None:
        """End as Failed; what the hosts left is uploaded first, as the SDK's logs of failed jobs show."""
        self.job.mark("TrainingEndTime")  # "for failed jobs, ... when SageMaker detects a job failure" (API reference)
        cluster = self._cluster
        if cluster is not None and any(host.started for host in cluster.hosts):
            cluster.terminate()
            cluster.wait(self._profile.peer_grace_seconds)
            cluster.kill()
            cluster.finish()
            if self.job.enter("Uploading", expected="InProgress"):
                try:
                    cluster.upload_artifacts()
                except StorageError as error:
                    logger.warning("%s: artifacts of the failed job: %s", self.job.name, error)
        self.job.enter("Failed", status="Failed", reason=reason)

    def _clear(self) -> None:
        """In every case: no process, no folder, no port stays."""
        cluster = self._cluster
        if cluster is not None:
            cluster.kill()
            cluster.finish()
            cluster.discard()
        if self._port is not None:
            self._addresses.release(self._port)

    # -- inner -------------------------------------------------------------------------------------------------------

    def _upload(self, cluster: Cluster) -> None:
        if cluster.sync_error is not None:
            raise _Failed(f"ClientError: Checkpoint upload failed:{cluster.sync_error}")  # assumed wording
        if not any(host.started for host in cluster.hosts):
            return
        try:
            cluster.upload_artifacts()
        except StorageError as error:
            # The form of the text, "Error 7" included, is SageMaker's own for a role that may not write there.
            raise _Failed(f"ClientError: Artifact upload failed:Error 7: {error}") from error

    def _wait_or_kill(self, cluster: Cluster, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not cluster.wait(_LOOK_SECONDS):
            if self._abandoned:
                raise _Abandoned
            if time.monotonic() > deadline:
                break
        cluster.kill()

    def _advance(self, secondary: str) -> None:
        if self._abandoned:
            raise _Abandoned
        if not self.job.enter(secondary, expected="InProgress"):
            raise _Stopping

    def _pause(self, seconds: float) -> None:
        """Wait, but not past a stop or the emulator's end."""
        deadline = time.monotonic() + seconds
        while True:
            if self._abandoned:
                raise _Abandoned
            if self.job.status == "Stopping":
                raise _Stopping
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._woken.wait(left)
            self._woken.clear()
