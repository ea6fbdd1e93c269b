"""A client for the sandbox's faults, for the demo and for tests.

faults = FaultClient(cloud.endpoint_url, region="us-east-1", access_key_id="test", secret_access_key="test")
frozen = faults.freeze_hosts("sandbox-research-llm-0a1b2c3d-a001")
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
    """FreezeHosts, ThawHosts or KillHosts."""
    job: str
    hosts: dict[str, int]
    """Host -> number of its processes that were hit."""
    at: float
    """When the last of them was (epoch seconds)."""


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

    def injected(self) -> list[Fault]:
        """All faults so far, in order."""
        return [_fault(entry) for entry in self._call("ListFaults", {})["Faults"]]

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


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:500]
