"""What the embedded AWS gives to a service that is plugged into it.

A plane (the SageMaker training plane, say) is a module with one function `install(context)`. It runs inside the
emulator's process, before the first request is served, and keeps the context for as long as the emulator lives. The
emulator authenticates and authorizes each request (`<iam_namespace>:<Operation>` on the resource's ARN) before a
handler sees it; what the service checks itself, such as `iam:PassRole`, it asks the caller for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

JsonObject = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Keys that the emulator accepts. `expiration` is aware (UTC)."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None
    expiration: datetime | None

    def to_env(self) -> dict[str, str]:
        """The variables that every AWS SDK reads."""
        env = {"AWS_ACCESS_KEY_ID": self.access_key_id, "AWS_SECRET_ACCESS_KEY": self.secret_access_key}
        return env if self.session_token is None else {**env, "AWS_SESSION_TOKEN": self.session_token}

    def to_boto3(self) -> dict[str, str | None]:
        """Keyword arguments of `boto3.client`."""
        return {
            "aws_access_key_id": self.access_key_id,
            "aws_secret_access_key": self.secret_access_key,
            "aws_session_token": self.session_token,
        }


class RoleNotAssumable(Exception):  # noqa: N818 - reads as what it says wherever it is raised or caught
    """The role does not exist, or its trust policy does not admit the service; says which, in AWS's words."""


def access_denied(principal_arn: str, action: str, resource: str) -> tuple[int, JsonObject]:
    """What a JSON service answers to a caller whose identity policies do not allow an action."""
    message = (
        f"User: {principal_arn} is not authorized to perform: {action} on resource: {resource} "
        f"because no identity-based policy allows the {action} action"
    )
    return 400, {"__type": "AccessDeniedException", "message": message}


class Caller(Protocol):
    """Who sent the request."""

    @property
    def principal_arn(self) -> str:
        """`arn:aws:sts::<account>:assumed-role/<role>/<session>`, a user's ARN, or `arn:aws:iam::<account>:root`."""
        ...

    def is_caller_allowed(self, action: str, resource: str, condition: Mapping[str, str] | None = None) -> bool:
        """Whether the caller's identity policies (and its boundary) allow `action` on `resource`.

        `condition` holds request condition keys, e.g. `{"iam:PassedToService": "sagemaker.amazonaws.com"}`.
        """
        ...


JsonHandler = Callable[[str, JsonObject, Caller], tuple[int, JsonObject]]
"""`handler(operation, params, caller) -> (HTTP status, body)`.

`params` is the JSON body as the client sent it, not validated: that is the service's part. An error is
`(400, {"__type": "ValidationException", "message": ...})`. The handler runs on its own thread, outside the event loop,
so it may block and may call the emulator itself. Timestamps in a body are numbers: epoch seconds.
"""


class ResourceOf(Protocol):
    """The ARNs on which AWS authorizes one operation, by the service's authorization reference.

    All of them must be allowed. `["*"]` for an operation without a resource level, such as a List.
    """

    def __call__(self, operation: str, params: JsonObject, /) -> Sequence[str]: ...


class CloudContext(Protocol):
    """What `install(context)` is given."""

    @property
    def endpoint_url(self) -> str:
        """`http://127.0.0.1:<port>`: every service of the emulator. Not yet served while `install` runs."""
        ...

    @property
    def region(self) -> str: ...

    @property
    def account(self) -> str: ...

    @property
    def state_dir(self) -> Path:
        """A folder of this emulator's own for files. It exists, and outlives the emulator."""
        ...

    @property
    def service_credentials(self) -> Credentials:
        """For what a service does on its own behalf rather than the customer's role; nothing is denied to it."""
        ...

    def register_json_service(
        self,
        name: str,
        handler: JsonHandler,
        *,
        iam_namespace: str | None = None,
        resource_of: ResourceOf | None = None,
    ) -> None:
        """Serve an AWS JSON 1.1 service.

        `name` is the service's signing name (`sagemaker`, `fsx`, `servicequotas`), `iam_namespace` the prefix of its
        actions (default: `name`). Without `resource_of` every operation is authorized on `*`.
        """
        ...

    def emit_event(self, detail_type: str, detail: JsonObject, resources: Sequence[str]) -> None:
        """Put one event of source `aws.sagemaker` on the default bus, as the service itself would."""
        ...

    def assume_job_role(
        self, role_arn: str, *, session_name: str = "SageMaker", source_arn: str | None = None
    ) -> Credentials:
        """Temporary credentials of a role under which the emulator enforces IAM.

        `source_arn` is the job's ARN: trust policies may condition on `aws:SourceArn` (and on `aws:SourceAccount`,
        which is always given). Raises RoleNotAssumable if the role does not exist or its trust policy does not let
        sagemaker.amazonaws.com assume it.
        """
        ...

    def is_allowed(self, role_arn: str, action: str, resource: str, condition: Mapping[str, str] | None = None) -> bool:
        """Whether the role's own policies allow `action` on `resource`, for calls that no code here really makes.

        An image pull, for example: `ecr:BatchGetImage` on the repository's ARN. False for an unknown role.
        """
        ...

    def on_shutdown(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the emulator ends in order. Callbacks run latest first; one that raises is logged.

        After a SIGKILL nothing is called: what must not outlive the emulator has to be in its process group (do not
        start a new session) or be handed to `guard_process_group`.
        """
        ...

    def guard_process_group(self, pgid: int) -> None:
        """Promise that this process group is killed (SIGKILL) however the emulator ends, a SIGKILL of it included.

        For children that were started with a session of their own. Call it right after the start.
        """
        ...

    def release_process_group(self, pgid: int) -> None:
        """The group has ended and was reaped: its number may belong to somebody else from now on."""
        ...
