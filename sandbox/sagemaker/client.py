"""A client for the sandbox's faults, for the demo and for tests.

faults = FaultClient(cloud.endpoint_url, region="us-east-1", access_key_id="test", secret_access_key="test")
frozen = faults.freeze_hosts("sandbox-research-llm-0a1b2c3d-a001")
faults.refuse_capacity_while_pending("sandbox-research-llm-*", count=2)

Job names may be patterns, as of a shell: `sandbox-research-llm-*` is every attempt of a run, also those to come.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sandbox.sagemaker.faults import ALL_HOSTS, SERVICE

_SECONDS = 60.0


class FaultError(Exception):
    """The sandbox could not inject the fault; the text says why."""


@dataclass(frozen=True)
class Fault:
    kind: str
    """FreezeHosts, ThawHosts, KillHosts, or a kind of fault_plan.py that has struck."""
    job: str
    hosts: dict[str, int]
    """Host -> number of its processes that were hit; empty for a fault that hits no processes."""
    at: float
    """When it struck, the last of them (epoch seconds)."""


@dataclass(frozen=True)
class Armed:
    """A fault that waits. `left` is how often it can still strike; None: until it is disarmed."""

    id: str
    kind: str
    pattern: str
    left: int | None


class FaultClient:
    """Every method raises FaultError, for an unknown job or for a host that does not run."""

    def __init__(self, endpoint_url: str, *, region: str, access_key_id: str, secret_access_key: str) -> None:
        self._endpoint_url = endpoint_url
        self._signer = SigV4Auth(Credentials(access_key_id, secret_access_key), SERVICE, region)
        # Without a proxy: a person's http_proxy must not see a request to loopback.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def freeze_hosts(self, job: str, host: str = ALL_HOSTS) -> Fault:
        """SIGSTOP every process of the host, of all hosts by default."""
        return _fault(self._call("FreezeHosts", {"TrainingJobName": job, "Host": host}))

    def thaw_hosts(self, job: str, host: str = ALL_HOSTS) -> Fault:
        return _fault(self._call("ThawHosts", {"TrainingJobName": job, "Host": host}))

    def kill_hosts(self, job: str, host: str = ALL_HOSTS) -> Fault:
        """SIGKILL every process of the host."""
        return _fault(self._call("KillHosts", {"TrainingJobName": job, "Host": host}))

    # -- at CreateTrainingJob ----------------------------------------------------------------------------------------

    def refuse_capacity_at_create(self, jobs: str, count: int | None = 1) -> Armed:
        """ResourceLimitExceeded, as of an account whose quota of the instance type is just used up."""
        return self._arm("RefuseCapacityAtCreate", jobs, count)

    def lose_answer(self, jobs: str, count: int | None = 1, *, operation: str = "CreateTrainingJob") -> Armed:
        """The operation is done and answered with a 500, after which a client repeats it."""
        return self._arm("LoseAnswer", jobs, count, Operation=operation)

    # -- while a job starts ------------------------------------------------------------------------------------------

    def delay_capacity(self, jobs: str, count: int | None = 1, *, seconds: float) -> Armed:
        """The job waits so long for its instances, says so, and goes on."""
        return self._arm("DelayCapacity", jobs, count, Seconds=seconds)

    def refuse_capacity_while_pending(self, jobs: str, count: int | None = 1, *, after_seconds: float = 0) -> Armed:
        """Failed with `CapacityError: Unable to provision ...` before it trains."""
        return self._arm("RefuseCapacityWhilePending", jobs, count, AfterSeconds=after_seconds)

    def insufficient_capacity(self, jobs: str, count: int | None = 1, *, after_seconds: float = 0) -> Armed:
        """Failed with `InsufficientCapacityError: ...` before it trains."""
        return self._arm("InsufficientCapacity", jobs, count, AfterSeconds=after_seconds)

    def fail_health_check(self, jobs: str, count: int | None = 1) -> Armed:
        return self._arm("HealthCheckFailed", jobs, count)

    def fail_image_pull(self, jobs: str, count: int | None = 1) -> Armed:
        return self._arm("ImageCannotBePulled", jobs, count)

    # -- while it trains, and after ----------------------------------------------------------------------------------

    def interrupt_spot(self, jobs: str, count: int | None = 1, *, after_seconds: float = 0) -> Armed:
        """Take the hosts of a managed spot job, so long after it began to train; the job comes back by itself."""
        return self._arm("InterruptSpot", jobs, count, AfterSeconds=after_seconds)

    def internal_server_error(self, jobs: str, count: int | None = 1, *, after_seconds: float = 0) -> Armed:
        """Failed with InternalServerError while it trains; retried inside the job where it has a RetryStrategy."""
        return self._arm("InternalServerError", jobs, count, AfterSeconds=after_seconds)

    def repair_cluster(self, jobs: str, count: int | None = 1) -> Armed:
        """The next failure of such a job's container (kill_hosts, say) is taken for a broken GPU, on ml.p and ml.g."""
        return self._arm("RepairCluster", jobs, count)

    def fail_upload(self, jobs: str, count: int | None = 1) -> Armed:
        """Training ends well, and the artifacts' upload fails."""
        return self._arm("FailUpload", jobs, count)

    # -- its events --------------------------------------------------------------------------------------------------

    def lose_events(self, jobs: str, count: int | None = 1) -> Armed:
        """The next `count` state-change events, all with None."""
        return self._arm("LoseEvents", jobs, count)

    def double_events(self, jobs: str, count: int | None = 1) -> Armed:
        return self._arm("DoubleEvents", jobs, count)

    def delay_events(self, jobs: str, count: int | None = 1, *, seconds: float) -> Armed:
        return self._arm("DelayEvents", jobs, count, Seconds=seconds)

    # -- its telemetry; each holds until it is disarmed --------------------------------------------------------------

    def gpu_signature(self, jobs: str, shape: str) -> Armed:
        """`flat-100`, `flat-0`, or `split`: the hosts with odd numbers at 100, the others at 0."""
        return self._arm("GpuSignature", jobs, None, Shape=shape)

    def silence_logs(self, jobs: str, *, metrics: bool = True) -> Armed:
        """No further line reaches the log; the metrics in them still do unless `metrics` is false."""
        return self._arm("SilenceLogs", jobs, None, Metrics=metrics)

    def freeze_step(self, jobs: str, *, metric: str = "holdfast:step") -> Armed:
        """Lines go on, with the number of this metric (a name of MetricDefinitions) as it was last."""
        return self._arm("FreezeStep", jobs, None, Metric=metric)

    def delay_telemetry(self, jobs: str, *, log_seconds: float = 0, metric_seconds: float = 0) -> Armed:
        """Instead of the profile's delays, also after the job's end."""
        return self._arm("DelayTelemetry", jobs, None, LogSeconds=log_seconds, MetricSeconds=metric_seconds)

    # -- the account -------------------------------------------------------------------------------------------------

    def throttle(self, operation: str, seconds: float) -> None:
        """Refuse every call of this SageMaker operation for so long, for the whole account."""
        self._call("Throttle", {"Operation": operation, "Seconds": seconds})

    def set_quota(self, name: str, value: float) -> None:
        """A quota by its name in Service Quotas, e.g. `ml.m5.xlarge for training job usage`; it holds there too."""
        self._call("SetQuota", {"Name": name, "Value": value})

    def grant_quota_request(self, name: str) -> float:
        """AWS approves the open request for this quota; its new value. Raises FaultError where none is open."""
        return float(self._call("AnswerQuotaRequest", {"Name": name})["Value"])

    def grant_quota_request_in_part(self, name: str, value: float) -> float:
        """AWS raises the quota to less than was asked for and closes the case."""
        return float(self._call("AnswerQuotaRequest", {"Name": name, "Granted": value})["Value"])

    def deny_quota_request(self, name: str) -> None:
        """The quota stays as it is."""
        self._call("AnswerQuotaRequest", {"Name": name, "Granted": 0})

    # -- what there is -----------------------------------------------------------------------------------------------

    def disarm(self, armed: Armed) -> None:
        """Raises FaultError for a fault that is spent."""
        self._call("Disarm", {"FaultId": armed.id})

    def armed(self) -> list[Armed]:
        return [_armed(entry) for entry in self._call("ListFaults", {})["Armed"]]

    def injected(self) -> list[Fault]:
        """All that have struck so far, in order."""
        return [_fault(entry) for entry in self._call("ListFaults", {})["Faults"]]

    def _arm(self, kind: str, jobs: str, count: int | None, **options: Any) -> Armed:
        return _armed(self._call("Arm", {"Kind": kind, "JobNamePattern": jobs, "Count": count, "Options": options}))

    def _call(self, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": f"SandboxFaults.{operation}"}
        signed = AWSRequest("POST", self._endpoint_url + "/", headers=headers, data=json.dumps(params).encode())
        self._signer.add_auth(signed)
        request = urllib.request.Request(  # noqa: S310 - the sandbox's own http endpoint
            self._endpoint_url + "/", data=signed.data, headers=dict(signed.headers.items()), method="POST"
        )
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            raise FaultError(_message(text)) from None
        except urllib.error.URLError as error:
            raise FaultError(f"the sandbox at {self._endpoint_url} does not answer: {error.reason}") from None


def _fault(entry: dict[str, Any]) -> Fault:
    return Fault(entry["Fault"], entry["TrainingJobName"], entry["Hosts"], entry["At"])


def _armed(entry: dict[str, Any]) -> Armed:
    return Armed(entry["FaultId"], entry["Kind"], entry["JobNamePattern"], entry["Left"])


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:500]
