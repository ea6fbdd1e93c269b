"""The life of one training job, from Starting to its end, on a thread of its own.

The order of statuses is that of the API reference (DescribeTrainingJob, SecondaryStatus). What a job says at its end
stands in endings.py, when it goes on after one in restarts.py.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from sandbox.cloud.context import RoleNotAssumable
from sandbox.sagemaker import access, endings, record
from sandbox.sagemaker.addresses import AddressError, host_addresses
from sandbox.sagemaker.cluster import Cluster
from sandbox.sagemaker.endings import Abandoned, Failed, Interrupted, Stopping
from sandbox.sagemaker.host import Host
from sandbox.sagemaker.logs import LogsError
from sandbox.sagemaker.plant import Plant
from sandbox.sagemaker.record import TrainingJob
from sandbox.sagemaker.restarts import Restart, Restarts, keeps_warm_pool
from sandbox.sagemaker.rules import DEFAULT_MAX_RUNTIME_SECONDS, is_accelerated
from sandbox.sagemaker.storage import StorageError

logger = logging.getLogger("sandbox.sagemaker")

_LOOK_SECONDS = 0.1
_WAIT_SECONDS = 1.0
"""The longest wait without a look at the clock of MaxWaitTimeInSeconds."""


class JobRunner:
    """`warm_port`: the job starts on a warm pool, whose hosts have these addresses."""

    def __init__(
        self,
        job: TrainingJob,
        plant: Plant,
        *,
        clients: access.RoleClients,
        folder: Path,
        warm_port: int | None = None,
    ) -> None:
        self.job = job
        self._plant = plant
        self._profile = plant.profile
        self._plan = plant.plan
        self._clients = clients
        self._folder = folder
        self._restarts = Restarts(job, plant.plan)
        self._clusters = 0
        self._warm = warm_port is not None
        self._port = warm_port
        self._cluster: Cluster | None = None
        self._training_since = 0.0
        self._woken = threading.Event()
        self._abandoned = False
        self._time_out: str | None = None
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
            while not self._has_completed():
                pass
        except Stopping:
            self._stop()
        except Failed as failure:
            self._fail(str(failure))
        except RoleNotAssumable as error:
            self._fail(f"ClientError: {error}")
        except Abandoned:
            logger.info("%s: abandoned, the emulator ends", self.job.name)
        except Exception:
            logger.exception("%s: the training plane failed", self.job.name)
            self._fail(endings.INTERNAL_ERROR)
        finally:
            self._clear()

    def _has_completed(self) -> bool:
        """One life of the job's hosts; False when another one is to follow."""
        try:
            self._complete(self._train())
            return True
        except (Failed, Interrupted) as ending:
            restart = self._restarts.after(ending)
            if restart is None:
                raise
            logger.info("%s: %s after %s", self.job.name, restart.secondary_status, repr(ending))
        self._start_over(restart)
        return False

    def _start_over(self, restart: Restart) -> None:
        if not self.job.enter(restart.secondary_status, expected="InProgress", message=restart.message):
            raise Stopping
        self.job.stop_billing()
        cluster = self._cluster
        if cluster is not None:
            if restart.last_sync:
                cluster.terminate()
                cluster.wait(self._profile.peer_grace_seconds)
            cluster.kill()
            cluster.finish(last_sync=restart.last_sync)
            cluster.discard()
            self._cluster = None
        self._release_hosts()
        self._pause(self._profile.restart_seconds)
        self._advance("Starting")

    def _train(self) -> Cluster:
        """Returns when every host has ended with 0."""
        cluster = self._bring_up()
        self._advance("Downloading")
        self.job.mark("TrainingStartTime")
        self.job.bill_again()
        try:
            cluster.download()
        except StorageError as error:
            raise Failed(f"ClientError: Data download failed:{error}") from error
        self._advance("Training")
        self._pull_image()
        try:
            cluster.open_logs()
        except LogsError as error:
            # Assumed: SageMaker may run on without logs; a job that nobody can watch is failed here (see access.py).
            raise Failed(f"ClientError: CloudWatch Logs: {error}") from error
        cluster.start()
        self.job.say(record.IN_PROGRESS)
        self._training_since = time.monotonic()
        self._supervise(cluster)
        return cluster

    def _bring_up(self) -> Cluster:
        self.job.say(record.LAUNCHING)
        self._get_capacity()
        self.job.say(record.PREPARING)
        if self._plan.take("HealthCheckFailed", self.job.name) is not None:
            raise Failed(endings.HEALTH_CHECK)
        refused = access.permission_refusal(self._plant.context, self.job.request)
        if refused is not None:
            raise Failed(refused)
        try:
            if self._port is None:
                self._port = self._plant.addresses.take()
            hosts = host_addresses(self._port, self.job.request["ResourceConfig"]["InstanceCount"])
        except AddressError as error:
            raise Failed(f"CapacityError: the sandbox cannot run this job: {error}") from error
        self._clusters += 1
        self._cluster = Cluster(
            self.job,
            self._plant,
            self._clients,
            folder=self._folder if self._clusters == 1 else self._folder / f"life-{self._clusters}",
            port=self._port,
            addresses=hosts,
        )
        return self._cluster

    def _get_capacity(self) -> None:
        """The wait for instances, and its refusals by fault."""
        began = time.monotonic()
        profile = self._profile
        wait = self._plan.take("DelayCapacity", self.job.name)
        if wait is not None:
            # Assumed: only the types for which MaxPendingTimeInSeconds counts are shown as Pending.
            if is_accelerated(self.job.request["ResourceConfig"]["InstanceType"]):
                self._advance("Pending")
            self.job.say(record.RETRYING)
            self._pause(wait.seconds("Seconds"))
        deadline = began + (profile.warm_starting_seconds if self._warm else profile.starting_seconds)
        while True:
            elapsed = time.monotonic() - began
            for kind, words in (
                ("RefuseCapacityWhilePending", endings.CAPACITY),
                ("InsufficientCapacity", endings.INSUFFICIENT_CAPACITY),
            ):
                if self._plan.take(kind, self.job.name, elapsed=elapsed) is not None:
                    raise Failed(words)
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._pause(min(left, _LOOK_SECONDS))

    def _pull_image(self) -> None:
        if self._plan.take("ImageCannotBePulled", self.job.name) is not None:
            raise Failed(endings.IMAGE)
        refused = access.image_refusal(self._plant.context, self.job.request)
        if refused is not None:
            raise Failed(refused)
        self._pause(0 if self._warm else self._profile.image_seconds)

    def _supervise(self, cluster: Cluster) -> None:
        condition = self.job.request.get("StoppingCondition", {})
        seconds = condition.get("MaxRuntimeInSeconds", DEFAULT_MAX_RUNTIME_SECONDS)
        # From the first start: with RetryStrategy the limit covers all attempts together (API reference).
        deadline = self.job.mark("TrainingStartTime") + seconds
        while True:
            self._pause(0)  # first: a job that is being stopped ends as Stopped, whatever its hosts do meanwhile
            self._strike()
            failed = [host for host in cluster.hosts if host.exit_code not in (None, 0)]
            if failed:
                raise Failed(self._failure(cluster, failed[0]))
            if all(host.exit_code == 0 for host in cluster.hosts):
                return
            if cluster.sync_error is not None:
                raise Failed(f"ClientError: Checkpoint upload failed:{cluster.sync_error}")  # assumed wording
            if time.time() > deadline:
                self._end_by("MaxRuntimeExceeded")
            self._pause(_LOOK_SECONDS)

    def _strike(self) -> None:
        """Faults that come while it trains."""
        elapsed = time.monotonic() - self._training_since
        if self._plan.take("InternalServerError", self.job.name, elapsed=elapsed) is not None:
            raise Failed(endings.INTERNAL_ERROR)
        if (
            self.job.request.get("EnableManagedSpotTraining")
            and self._plan.take("InterruptSpot", self.job.name, elapsed=elapsed) is not None
        ):
            raise Interrupted

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
        if self._plan.take("FailUpload", self.job.name) is not None:
            raise Failed(endings.UPLOAD)
        self._upload(cluster)
        self._leave_hosts(kept=True)
        self.job.mark("TrainingEndTime")
        if not self.job.enter("Completed", status="Completed", expected="InProgress"):
            raise Stopping

    def _stop(self) -> None:
        """From Stopping to Stopped: SIGTERM, the grace, SIGKILL, the last uploads."""
        cluster = self._cluster
        try:
            if cluster is not None:
                cluster.terminate()
                self._wait_or_kill(cluster, self._profile.stop_grace_seconds)
                cluster.finish()
                self._upload(cluster)
        except Failed as failure:
            self._fail(str(failure))
            return
        except Abandoned:
            return
        self.job.mark("TrainingEndTime")
        self._leave_hosts(kept=cluster is not None)  # "after a cluster is already launched" (train-warm-pools)
        self.job.enter(self._time_out or "Stopped", status="Stopped")

    def _fail(self, reason: str) -> None:
        """End as Failed; what the hosts left is uploaded first, as the SDK's logs of failed jobs show."""
        self.job.mark("TrainingEndTime")  # "for failed jobs, ... when SageMaker detects a job failure" (API reference)
        cluster = self._cluster
        if cluster is not None and any(host.started for host in cluster.hosts):
            cluster.terminate()
            cluster.wait(self._profile.peer_grace_seconds)
            cluster.kill()
            cluster.finish()
            if self.job.secondary_status == "Uploading" or self.job.enter("Uploading", expected="InProgress"):
                try:
                    cluster.upload_artifacts()
                except StorageError as error:
                    logger.warning("%s: artifacts of the failed job: %s", self.job.name, error)
        self._leave_hosts(kept=cluster is not None and keeps_warm_pool(reason))
        self.job.enter("Failed", status="Failed", reason=reason)

    def _clear(self) -> None:
        """In every case: no process, no folder, and no port but a warm pool's stays."""
        cluster = self._cluster
        if cluster is not None:
            cluster.kill()
            cluster.finish()
            cluster.discard()
        self._release_hosts()

    # -- inner -------------------------------------------------------------------------------------------------------

    def _leave_hosts(self, *, kept: bool) -> None:
        """Before the terminal status is seen, so that whoever sees it also sees the pool: to the warm pool, or away."""
        pools = self._plant.pools
        if kept and self._port is not None:
            if pools.retain(self.job.name, self._port):
                self._port = None
        else:
            pools.end(self.job.name)

    def _release_hosts(self) -> None:
        if self._port is not None:
            self._plant.addresses.release(self._port)
        self._port = None
        self._warm = False

    def _end_by(self, secondary: str) -> None:
        """A time limit of the job: it is stopped, and not failed, for that."""
        if self.job.begin_stopping():
            self._time_out = secondary

    def _upload(self, cluster: Cluster) -> None:
        if cluster.sync_error is not None:
            raise Failed(f"ClientError: Checkpoint upload failed:{cluster.sync_error}")  # assumed wording
        if not any(host.started for host in cluster.hosts):
            return
        try:
            cluster.upload_artifacts()
        except StorageError as error:
            # The form of the text, "Error 7" included, is SageMaker's own for a role that may not write there.
            raise Failed(f"ClientError: Artifact upload failed:Error 7: {error}") from error

    def _wait_or_kill(self, cluster: Cluster, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not cluster.wait(_LOOK_SECONDS):
            if self._abandoned:
                raise Abandoned
            if time.monotonic() > deadline:
                break
        cluster.kill()

    def _advance(self, secondary: str) -> None:
        if self._abandoned:
            raise Abandoned
        if not self.job.enter(secondary, expected="InProgress"):
            raise Stopping

    def _pause(self, seconds: float) -> None:
        """Wait, but not past a stop or the emulator's end."""
        deadline = time.monotonic() + seconds
        while True:
            if self._abandoned:
                raise Abandoned
            self._look_at_max_wait()
            if self.job.status == "Stopping":
                raise Stopping
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._woken.wait(min(left, _WAIT_SECONDS))
            self._woken.clear()

    def _look_at_max_wait(self) -> None:
        """Of a spot job: waiting and running together (API reference, StoppingCondition)."""
        seconds = self.job.request.get("StoppingCondition", {}).get("MaxWaitTimeInSeconds")
        if seconds is not None and time.time() > self.job.created + seconds:
            self._end_by("MaxWaitTimeExceeded")
