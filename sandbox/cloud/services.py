"""Plugs services into MiniStack: routing, authorization, the caller, and the rest of `context.CloudContext`."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ministack import app
from ministack.core import iam_actions, responses, router

from sandbox.cloud import eventbridge, iam
from sandbox.cloud.context import Caller, Credentials, JsonHandler, JsonObject, ResourceOf, access_denied

logger = logging.getLogger("sandbox.cloud")

ROOT = Credentials(access_key_id="test", secret_access_key="test", session_token=None, expiration=None)
"""MiniStack's root user: its signature is not checked and nothing is denied to it."""

_CONTENT_TYPE = {"Content-Type": "application/x-amz-json-1.1"}
_Response = tuple[int, dict[str, str], bytes]


class Guard(Protocol):
    def guard(self, pgid: int) -> None: ...

    def release(self, pgid: int) -> None: ...


class Services:
    """The registry of the emulator's own services. Implements `context.CloudContext`."""

    def __init__(self, *, endpoint_url: str, region: str, account: str, state_dir: Path, guard: Guard) -> None:
        self.endpoint_url = endpoint_url
        self.region = region
        self.account = account
        self.state_dir = state_dir
        self.service_credentials = ROOT
        self._guard = guard
        self._resources: dict[str, ResourceOf] = {}
        self._shutdown: list[Callable[[], None]] = []
        iam_actions.extract_resource_arn = self._with_own_resources(iam_actions.extract_resource_arn)

    def register_json_service(
        self,
        name: str,
        handler: JsonHandler,
        *,
        iam_namespace: str | None = None,
        resource_of: ResourceOf | None = None,
    ) -> None:
        if name in self._resources:
            raise ValueError(f"service {name!r} is registered twice")
        self._resources[name] = resource_of or _any_resource
        iam_actions.SERVICE_TO_IAM_NAMESPACE[name] = iam_namespace or name
        # A service that MiniStack has never heard of is routed by the name it is signed with.
        router.SERVICE_PATTERNS.setdefault(name, {"credential_scope": name})

        async def serve(
            _method: str, _path: str, headers: dict[str, str], body: bytes, query_params: dict[str, Any]
        ) -> _Response:
            return await asyncio.to_thread(self._answer, name, handler, headers, body, query_params)

        app.SERVICE_HANDLERS[name] = serve

    def emit_event(self, detail_type: str, detail: JsonObject, resources: Sequence[str]) -> None:
        eventbridge.emit("aws.sagemaker", detail_type, detail, resources, account=self.account, region=self.region)

    def assume_job_role(
        self, role_arn: str, *, session_name: str = "SageMaker", source_arn: str | None = None
    ) -> Credentials:
        return iam.assume_for_sagemaker(
            role_arn, session_name=session_name, source_arn=source_arn, account=self.account, region=self.region
        )

    def is_allowed(self, role_arn: str, action: str, resource: str, condition: Mapping[str, str] | None = None) -> bool:
        return iam.role_allows(role_arn, action, resource, condition or {}, account=self.account, region=self.region)

    def on_shutdown(self, callback: Callable[[], None]) -> None:
        self._shutdown.append(callback)

    def guard_process_group(self, pgid: int) -> None:
        self._guard.guard(pgid)

    def release_process_group(self, pgid: int) -> None:
        self._guard.release(pgid)

    def shut_down(self) -> None:
        """Run the callbacks of `on_shutdown`, latest first, each once."""
        while self._shutdown:
            callback = self._shutdown.pop()
            try:
                callback()
            except Exception:
                logger.exception("a shutdown callback failed")

    def _answer(
        self, name: str, handler: JsonHandler, headers: dict[str, str], body: bytes, query_params: dict[str, Any]
    ) -> _Response:
        operation = headers.get("x-amz-target", "").rpartition(".")[2]
        params = _json_object(body)
        if params is None:
            return _response(400, {"__type": "SerializationException", "message": "the body is not a JSON object"})
        caller = self._caller(headers, query_params)
        action = f"{iam_actions.SERVICE_TO_IAM_NAMESPACE[name]}:{operation}"
        # MiniStack has authorized the action on the first resource before it came here.
        for resource in self._resources_of(name, operation, params)[1:]:
            if not caller.is_caller_allowed(action, resource):
                return _response(*access_denied(caller.principal_arn, action, resource))
        return _response(*handler(operation, params, caller))

    def _caller(self, headers: dict[str, str], query_params: dict[str, Any]) -> Caller:
        access_key_id = router.extract_access_key_id(headers, query_params)
        return iam.caller_of(access_key_id, responses.get_account_id(), responses.get_region())

    def _resources_of(self, name: str, operation: str, params: JsonObject) -> Sequence[str]:
        try:
            return self._resources[name](operation, params) or ["*"]
        except (KeyError, TypeError, ValueError, AttributeError):
            # Parameters that are not even of the right type name no resource; the handler refuses them in words.
            return ["*"]

    def _with_own_resources(self, extract: Callable[..., str]) -> Callable[..., str]:
        def extract_resource_arn(
            service: str, method: str, path: str, headers: dict[str, str], body: bytes, *rest: Any
        ) -> str:
            if service not in self._resources:
                return extract(service, method, path, headers, body, *rest)
            operation = headers.get("x-amz-target", "").rpartition(".")[2]
            return self._resources_of(service, operation, _json_object(body) or {})[0]

        return extract_resource_arn


def _any_resource(_operation: str, _params: JsonObject) -> Sequence[str]:
    return ["*"]


def _json_object(body: bytes) -> JsonObject | None:
    try:
        value = json.loads(body or b"{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _response(status: int, body: JsonObject) -> _Response:
    return status, dict(_CONTENT_TYPE), json.dumps(body).encode()
