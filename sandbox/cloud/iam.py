"""IAM as the plugged-in services need it: who calls, what a role may do, and sessions of a job's role."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ministack.core import iam_evaluator
from ministack.services import iam as iam_service
from ministack.services import sts as sts_service

from sandbox.cloud.context import Credentials, RoleNotAssumable
from sandbox.cloud.denials import DenialLog

SAGEMAKER_PRINCIPAL = "sagemaker.amazonaws.com"
SESSION_HOURS = 12
"""SageMaker renews the credentials that it serves to a container; here one session outlives any sandbox job."""


_denials: DenialLog | None = None


def record_denials(log: DenialLog) -> None:
    """From now on write down what is denied: by the emulator to a request, and by this module to a service's question.

    Requests whose credentials fail are no decision of IAM's and stay out.
    """
    global _denials  # noqa: PLW0603 - one emulator a process; MiniStack's own state is global too
    _denials = log
    enforce = iam_evaluator.enforce

    def enforce_and_record(
        access_key_id: str,
        iam_action: str,
        service: str,
        region: str,
        resource_arn: str = "*",
        service_context: dict[str, Any] | None = None,
    ) -> Any:
        denied = enforce(access_key_id, iam_action, service, region, resource_arn, service_context)
        if isinstance(denied, iam_evaluator.EvalResult):
            log.add(principal=denied.principal_arn, action=iam_action, resource=resource_arn)
        return denied

    iam_evaluator.enforce = enforce_and_record


@dataclass(frozen=True, kw_only=True)
class RequestCaller:
    """The caller of one request, as the emulator authenticated it. Implements `context.Caller`."""

    principal: Any
    region: str

    @property
    def principal_arn(self) -> str:
        return str(self.principal.arn)

    def is_caller_allowed(self, action: str, resource: str, condition: Mapping[str, str] | None = None) -> bool:
        return _allows(self.principal, action, resource, condition or {}, self.region)


def caller_of(access_key_id: str, account: str, region: str) -> RequestCaller:
    """The caller behind an access key that the emulator has already authenticated."""
    principal = iam_evaluator.resolve_principal(access_key_id, account)
    if isinstance(principal, iam_evaluator.AuthError):
        raise PermissionError(principal.message)
    return RequestCaller(principal=principal, region=region)


def role_allows(
    role_arn: str,
    action: str,
    resource: str,
    condition: Mapping[str, str],
    *,
    account: str,
    region: str,
    session: str = "SageMaker",
) -> bool:
    """Whether the policies of a role (and its boundary) allow an action. False for an unknown role."""
    name = _role_name(role_arn)
    if _role(role_arn, account) is None:
        return False
    principal = iam_evaluator.PrincipalInfo(
        arn=f"arn:aws:sts::{account}:assumed-role/{name}/{session}",
        type="AssumedRole",
        account=account,
        policies=iam_evaluator._gather_role_policies(name, account),
        limits=iam_evaluator._permissions_boundary(iam_service._roles, name, account),
    )
    return _allows(principal, action, resource, condition, region)


def assume_for_sagemaker(
    role_arn: str, *, session_name: str, source_arn: str | None, account: str, region: str
) -> Credentials:
    """A session of the role for SageMaker. Raises RoleNotAssumable, in the words of SageMaker's own refusal."""
    role = _role(role_arn, account)
    if role is None or not _trusts_sagemaker(role, role_arn, source_arn, account, region):
        raise RoleNotAssumable(
            f"Could not assume role {role_arn}. Please ensure that the role exists and allows principal "
            f"'{SAGEMAKER_PRINCIPAL}' to assume the role."
        )
    return _session(role_arn, session_name, account)


def _trusts_sagemaker(
    role: Mapping[str, Any], role_arn: str, source_arn: str | None, account: str, region: str
) -> bool:
    source = {"aws:sourceaccount": account} | ({} if source_arn is None else {"aws:sourcearn": source_arn})
    context = iam_evaluator.EvalContext(
        principal_arn=SAGEMAKER_PRINCIPAL,
        principal_type="Service",
        principal_account=account,
        action="sts:AssumeRole",
        resource_arn=role_arn,
        region=region,
        service_context=source,
    )
    trust = role.get("AssumeRolePolicyDocument", "{}")
    return bool(iam_evaluator.evaluate_resource_policy(trust, context, service=SAGEMAKER_PRINCIPAL).decision == "Allow")


def _session(role_arn: str, session_name: str, account: str) -> Credentials:
    expiration = datetime.now(UTC) + timedelta(hours=SESSION_HOURS)
    credentials = Credentials(
        access_key_id="ASIA" + secrets.token_hex(8).upper(),
        secret_access_key=secrets.token_hex(20),
        session_token=secrets.token_hex(32),
        expiration=expiration,
    )
    name = _role_name(role_arn)
    sts_service.register_session(
        credentials.access_key_id,
        {
            "Arn": f"arn:aws:sts::{account}:assumed-role/{name}/{session_name}",
            "UserId": f"{name}:{session_name}",
            "SecretAccessKey": credentials.secret_access_key,
            "SessionToken": credentials.session_token,
            "Expiration": expiration.timestamp(),
            "AccountId": account,
            "PrincipalType": "AssumedRole",
        },
    )
    return credentials


def _allows(principal: Any, action: str, resource: str, condition: Mapping[str, str], region: str) -> bool:
    if principal.policies is None:
        return True  # the account's root user
    context = iam_evaluator.EvalContext(
        principal_arn=principal.arn,
        principal_type=principal.type,
        principal_account=principal.account,
        action=action,
        resource_arn=resource,
        region=region,
        # The evaluator looks condition keys up in lower case; a request without tags has no aws:TagKeys.
        service_context={"aws:tagkeys": None, **{key.lower(): value for key, value in condition.items()}},
        principal_keys=principal.keys,
        secure_transport=True,
    )
    allowed = bool(iam_evaluator.evaluate(context, principal.policies, *principal.limits).decision == "Allow")
    if not allowed and _denials is not None:
        _denials.add(principal=principal.arn, action=action, resource=resource)
    return allowed


def _role(role_arn: str, account: str) -> Mapping[str, Any] | None:
    role = iam_service._roles.get_scoped(account, None, _role_name(role_arn))
    return role if role is not None and role.get("Arn") == role_arn else None


def _role_name(role_arn: str) -> str:
    return role_arn.rsplit("/", 1)[-1]
