"""A custom resource whose function fails is failed at once.

CloudFormation starts the function asynchronously and then waits for a PUT to the ResponseURL, an hour by default: a
function that cannot even be imported, or is denied something, says nothing for that hour. MiniStack waits likewise.
Here the function's own error is delivered as the response, so the deployment fails in seconds and names the reason.
(On AWS the function would be tried twice more, and the reason would be in its log only.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ministack.services import lambda_svc
from ministack.services.cloudformation import custom_resource

Execute = Callable[[dict[str, Any], Any], dict[str, Any]]


def install() -> None:
    lambda_svc._execute_function_with_config_scope = fail_at_once(
        lambda_svc._execute_function_with_config_scope, custom_resource.deliver_response
    )


def fail_at_once(execute: Execute, deliver: Callable[[str, dict[str, Any]], bool]) -> Execute:
    """`execute`, which besides answers for a custom resource's function that ended with an error."""

    def executed(function: dict[str, Any], event: Any) -> dict[str, Any]:
        result = execute(function, event)
        if result.get("error") and isinstance(event, dict) and "ResponseURL" in event and "LogicalResourceId" in event:
            error = result.get("body") or {}
            reason = f"its function failed: {error.get('errorType')}: {error.get('errorMessage')}"
            deliver(event["ResponseURL"].rsplit("/", 1)[-1], {"Status": "FAILED", "Reason": reason})
        return result

    return executed
