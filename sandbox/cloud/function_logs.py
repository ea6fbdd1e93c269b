"""A function writes its log with its own role, as on AWS: without the permission its lines are lost.

MiniStack writes them whatever the role may do. On AWS the function runs on and only its log stays empty
(https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs.html, "Required IAM permissions"), so that a
role without the permission would be noticed there first.
"""

from __future__ import annotations

import logging
from typing import Any

from ministack.services import lambda_svc

from sandbox.cloud import iam

logger = logging.getLogger("sandbox.cloud")

# CreateLogStream is authorized on the group and PutLogEvents on the stream (service authorization reference, Amazon
# CloudWatch Logs). CDK grants both on `<group>:*`, which AWS takes for the group too.
_NEEDED = ("logs:CreateLogStream", "logs:PutLogEvents")


def install() -> None:
    emit = lambda_svc._emit_lambda_logs

    def emit_with_the_functions_role(func: dict[str, Any], *arguments: Any, **named: Any) -> None:
        config = func.get("config") or func
        denied = _denied(config)
        if denied is None:
            emit(func, *arguments, **named)
        else:
            logger.warning("function %s: its log lines are lost: its role may not %s", config["FunctionName"], denied)

    lambda_svc._emit_lambda_logs = emit_with_the_functions_role


def _denied(config: dict[str, Any]) -> str | None:
    """The first action that the function's role lacks."""
    _, _, _, region, account, _ = config["FunctionArn"].split(":", 5)
    group = (config.get("LoggingConfig") or {}).get("LogGroup") or f"/aws/lambda/{config['FunctionName']}"
    stream = f"arn:aws:logs:{region}:{account}:log-group:{group}:log-stream:{config.get('Version', '$LATEST')}"
    for action in _NEEDED:
        if not iam.role_allows(
            config["Role"], action, stream, {}, account=account, region=region, session=config["FunctionName"]
        ):
            return action
    return None
