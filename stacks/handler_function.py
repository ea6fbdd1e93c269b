"""One function of the control plane: its role, its log group, and what happens to an event that it cannot handle."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.lambda_code import Platform


class HandlerFunction(Construct):
    """The role starts with its own logs, its failure queue and X-Ray; the stack grants the rest where it says why."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function_name: str,
        description: str,
        handler: str,
        code: lambda_.Code,
        platform: Platform,
        settings: Mapping[str, str],
        timeout: cdk.Duration,
        memory_size_mb: int,
        retries: int,
        failed_invocations: sqs.IQueue,
    ) -> None:
        super().__init__(scope, construct_id)
        # Made here and not by Lambda at the first call, which would keep the lines for ever.
        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{function_name}",
            retention=logs.RetentionDays.THREE_MONTHS,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        # Not the role that CDK would make: its managed policy lets a function write to every log group of the account.
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"What {function_name} may do",
        )
        self.allow("OwnLogs", ["logs:CreateLogStream", "logs:PutLogEvents"], [log_group.log_group_arn])
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=function_name,
            description=description,
            handler=handler,
            code=code,
            runtime=platform.runtime,
            architecture=platform.architecture,
            role=self.role,
            log_group=log_group,
            timeout=timeout,
            memory_size=memory_size_mb,
            tracing=lambda_.Tracing.ACTIVE,
            retry_attempts=retries,
            max_event_age=cdk.Duration.hours(1),
            on_failure=destinations.SqsDestination(failed_invocations),
            environment=dict(settings),
        )

    def allow(
        self,
        sid: str,
        actions: list[str],
        resources: list[str],
        conditions: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        """One statement of the function's role. `resources` are ARNs."""
        self.role.add_to_policy(
            iam.PolicyStatement(sid=sid, actions=actions, resources=resources, conditions=dict(conditions or {}))
        )

    def use(self, key: kms.IKey | None) -> None:
        """The key of bucket and topic, where the deployment has one of its own."""
        if key is not None:
            # Decrypt also for writing: S3 opens the bucket key with it, SNS the topic's data key.
            self.allow("UseKey", ["kms:Decrypt", "kms:GenerateDataKey"], [key.key_arn])
