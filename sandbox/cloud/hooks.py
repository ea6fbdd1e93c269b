"""The parts of MiniStack that the sandbox builds on although MiniStack promises nothing about them.

MiniStack is pinned exactly. A pin alone does not protect from a re-published or locally patched package, or from
somebody raising it without looking: so every hook is checked, by name and by signature, before the first one is used.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MINISTACK_VERSION = "1.5.33"


class HookMissingError(Exception):
    """MiniStack is not the one the sandbox was written for; the text lists what is different."""


@dataclass(frozen=True, kw_only=True)
class Hook:
    module: str
    name: str
    used_for: str
    parameters: tuple[str, ...] | None = None
    """Names of the parameters of a function; None for data."""
    kind: type | None = None
    """Type of a piece of data; None for a function."""


def _function(module: str, name: str, parameters: str, used_for: str) -> Hook:
    return Hook(module=module, name=name, parameters=tuple(parameters.split()), used_for=used_for)


def _data(module: str, name: str, kind: type, used_for: str) -> Hook:
    return Hook(module=module, name=name, kind=kind, used_for=used_for)


_APP = "ministack.app"
_ACTIONS = "ministack.core.iam_actions"
_EVALUATOR = "ministack.core.iam_evaluator"
_EC2 = "ministack.services.ec2"
_LAMBDA = "ministack.services.lambda_svc"
_LOGS = "ministack.services.cloudwatch_logs"
_PROVISIONERS = "ministack.services.cloudformation.provisioners"

HOOKS: tuple[Hook, ...] = (
    _function(_APP, "app", "scope receive send", "serving all of AWS from one process (server.py)"),
    _data(_APP, "AUTH", bool, "enforcing IAM (server.py)"),
    _data(_APP, "SERVICE_HANDLERS", dict, "plugging services in (services.py)"),
    _function(_LOGS, "_filter_log_events", "data", "stream prefixes and pages (log_events.py)"),
    _function(_LOGS, "_compile_filter_pattern", "raw", "patterns of alternatives (log_events.py)"),
    _function(_LOGS, "_resolve_log_group_name", "data", "stream prefixes and pages (log_events.py)"),
    Hook(module=_LOGS, name="_log_groups", used_for="stream prefixes and pages (log_events.py)"),
    _function(
        "ministack.core.responses",
        "json_response",
        "data status content_type",
        "stream prefixes and pages (log_events.py)",
    ),
    _function(
        "ministack.core.responses",
        "error_response_json",
        "code message status extra message_key content_type",
        "stream prefixes and pages (log_events.py)",
    ),
    _data("ministack.core.router", "SERVICE_PATTERNS", dict, "routing plugged-in services (services.py)"),
    _data(_ACTIONS, "SERVICE_TO_IAM_NAMESPACE", dict, "authorizing plugged-in services (services.py)"),
    _function(
        _ACTIONS,
        "extract_resource_arn",
        "service method path headers body query_params region account_id",
        "authorizing plugged-in services on their own ARNs (services.py)",
    ),
    _function(
        _ACTIONS,
        "request_tag_context",
        "service iam_action body params",
        "condition keys that AWS fills from a request (finer_authorization.py)",
    ),
    _function(
        _EVALUATOR, "resolve_principal", "access_key_id account_id credential", "knowing the caller's policies (iam.py)"
    ),
    _function(_EVALUATOR, "evaluate", "ctx policies limits", "evaluating policies (iam.py)"),
    _function(
        _EVALUATOR,
        "enforce",
        "access_key_id iam_action service region resource_arn service_context",
        "recording denied decisions (iam.py)",
    ),
    _function(
        _EVALUATOR,
        "EvalResult",
        "decision principal_arn matched_sid reason resource_policy_arn",
        "recording denied decisions (iam.py)",
    ),
    _function(
        _EVALUATOR,
        "evaluate_resource_policy",
        "doc ctx service named_only direct_only",
        "evaluating trust policies (iam.py)",
    ),
    _function(_EVALUATOR, "_gather_role_policies", "role_name account_id", "evaluating a job's role (iam.py)"),
    _function(_EVALUATOR, "_permissions_boundary", "store name account_id", "evaluating a job's role (iam.py)"),
    _function(
        _EVALUATOR,
        "EvalContext",
        "principal_arn principal_type principal_account action resource_arn region source_ip secure_transport "
        "request_tags tag_keys service_context principal_keys",
        "evaluating policies (iam.py)",
    ),
    _function("ministack.core.router", "extract_access_key_id", "headers query_params", "knowing the caller (iam.py)"),
    Hook(module="ministack.services.iam", name="_roles", used_for="finding roles (iam.py)"),
    _function("ministack.services.sts", "register_session", "access_key session", "a job's credentials (iam.py)"),
    _function(
        "ministack.services.eventbridge", "_put_events", "data allow_aws_source", "service events (eventbridge.py)"
    ),
    _function("ministack.core.responses", "set_request_account_id", "access_key_id", "service events (eventbridge.py)"),
    _function("ministack.core.responses", "set_request_region", "region", "service events (eventbridge.py)"),
    _function("ministack.core.responses", "get_account_id", "", "knowing the caller (services.py)"),
    _function("ministack.core.responses", "get_region", "", "knowing the caller (services.py)"),
    _function(_EVALUATOR, "PrincipalInfo", "arn type account policies keys limits", "evaluating a job's role (iam.py)"),
    _function(_EVALUATOR, "AuthError", "code message details", "knowing the caller (iam.py)"),
    _function(
        "ministack.core.lambda_runtime",
        "_detect_runtime_binary",
        "runtime",
        "running functions without the sandbox's own packages (lambda_workers.py)",
    ),
    _function(
        _LAMBDA,
        "_execute_function_with_config_scope",
        "func event",
        "failing custom resources at once (custom_resources.py)",
    ),
    _function(
        "ministack.services.cloudformation.custom_resource",
        "deliver_response",
        "token response",
        "failing custom resources at once (custom_resources.py)",
    ),
    _function(
        _LAMBDA,
        "_emit_lambda_logs",
        "func request_id log_text error duration_ms log_source",
        "functions' logs under their own role (function_logs.py)",
    ),
    _function(_LAMBDA, "invoke_async_with_retry", "func event", "asynchronous invocation (async_invocation.py)"),
    _function(_LAMBDA, "_get_func_record_for_ref", "function_ref", "asynchronous invocation (async_invocation.py)"),
    _function(_LAMBDA, "_execution_record_for_config", "func config", "asynchronous invocation (async_invocation.py)"),
    _function(
        "ministack.services.eventbridge",
        "_dispatch_to_lambda",
        "arn payload",
        "asynchronous invocation (async_invocation.py)",
    ),
    _function(
        "ministack.core.lambda_runtime",
        "execution_credentials",
        "config",
        "sending dead letters with the function's role (async_invocation.py)",
    ),
    _data(_PROVISIONERS, "_RESOURCE_HANDLERS", dict, "CloudFormation types (cloudformation_types.py)"),
    _function(_PROVISIONERS, "_ec2_sg_permissions", "rules", "security group rules (cloudformation_types.py)"),
    Hook(module=_LAMBDA, name="_functions", used_for="dead letters and concurrency (cloudformation_types.py)"),
    Hook(module="ministack.services.s3", name="_bucket_tags", used_for="bucket tags (cloudformation_types.py)"),
    Hook(module=_EC2, name="_security_groups", used_for="security group rules (cloudformation_types.py)"),
    _function(_EC2, "_allocate_address", "p", "elastic addresses (cloudformation_types.py)"),
    _function(_EC2, "_release_address", "p", "elastic addresses (cloudformation_types.py)"),
    _function(_EC2, "_create_nat_gateway", "params", "NAT gateways (cloudformation_types.py)"),
    _function(_EC2, "_delete_nat_gateway", "params", "NAT gateways (cloudformation_types.py)"),
)


def check(hooks: Iterable[Hook] = HOOKS, *, version: str | None = None) -> None:
    """Raise HookMissingError, listing every difference at once, unless MiniStack is as the sandbox expects it."""
    installed = importlib.metadata.version("ministack") if version is None else version
    differences = []
    if installed != MINISTACK_VERSION:
        differences.append(f"version {installed} is installed; the sandbox is written for {MINISTACK_VERSION}")
    differences += [found for found in map(_difference, hooks) if found is not None]
    if differences:
        raise HookMissingError(_report(differences))


def _report(differences: Sequence[str]) -> str:
    lines = "\n".join(f"  - {difference}" for difference in differences)
    return (
        f"MiniStack has changed under the sandbox:\n{lines}\n"
        f"Install ministack=={MINISTACK_VERSION}, or adapt sandbox/cloud/ and its list in sandbox/cloud/hooks.py."
    )


def _difference(hook: Hook) -> str | None:
    where = f"{hook.module}.{hook.name}"
    try:
        found = getattr(importlib.import_module(hook.module), hook.name)
    except (ImportError, AttributeError):
        return f"{where} is gone; it is needed for {hook.used_for}"
    if hook.kind is not None and not isinstance(found, hook.kind):
        return f"{where} is a {type(found).__name__}, not a {hook.kind.__name__}; it is needed for {hook.used_for}"
    if hook.parameters is None:
        return None
    if not callable(found):
        return f"{where} is a {type(found).__name__}, not a function; it is needed for {hook.used_for}"
    parameters = tuple(inspect.signature(found).parameters)
    if parameters != hook.parameters:
        return (
            f"{where} takes ({', '.join(parameters)}), not ({', '.join(hook.parameters)}); "
            f"it is needed for {hook.used_for}"
        )
    return None
