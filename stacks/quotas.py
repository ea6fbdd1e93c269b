"""The account's service quotas: asked for during a deployment, followed once a day, and never in a deployment's way."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from holdfast.aws.settings import QuotasSettings
from holdfast.aws.store import ACTIVE_INDEX
from holdfast.core.config import AccountConfig
from holdfast.core.layout import QUOTAS_STATUS
from holdfast.core.quotas.catalogue import SERVICE
from stacks.handler_function import HandlerFunction
from stacks.lambda_code import Platform, lambda_code

# EventBridge takes 8,192 characters of constant input (EventBridge quotas).
_LONGEST_INPUT = 8_000
_SERVICE_ROLE = "aws-service-role/servicequotas.amazonaws.com/AWSServiceRoleForServiceQuotas"


class QuotasStack(cdk.Stack):
    """What is wanted travels in the custom resource and in the schedule alike, so that no state has to be remembered:
    a deployment's call that was lost is made up for by the next day's."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        env: cdk.Environment,
        description: str,
        config: AccountConfig,
        root: Path,
        bucket: s3.IBucket,
        table: dynamodb.ITable,
        topic: sns.ITopic,
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, construct_id, env=env, description=description)
        self._config = config
        needs = config.quota_needs.model_dump_json(exclude_defaults=True)
        if len(needs) > _LONGEST_INPUT:
            raise ValueError(f"config: quotas and instance_types come to {len(needs):,} characters; at most 8,000")
        lost = sqs.Queue(
            self,
            "Lost",
            enforce_ssl=True,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            retention_period=cdk.Duration.days(14),
        )
        quotas = self._function(bucket=bucket, table=table, topic=topic, lost=lost, root=root)
        quotas.use(key)
        asked = cdk.CustomResource(
            self,
            "Asked",
            resource_type="Custom::HoldfastQuotas",
            service_token=quotas.function.function_arn,
            # The function answers before it does anything else. This is for one that cannot even start.
            service_timeout=cdk.Duration.minutes(10),
            properties={"Needs": needs},
        )
        # The role's policy is a resource of its own; without this the function may run before it may read.
        asked.node.add_dependency(quotas.role)
        events.Rule(
            self,
            "Daily",
            description="Follows the requests for quotas, and asks for what is still short",
            schedule=events.Schedule.rate(cdk.Duration.days(1)),
            targets=[
                targets.LambdaFunction(
                    quotas.function,
                    event=events.RuleTargetInput.from_object({"needs": needs}),
                    dead_letter_queue=lost,
                    retry_attempts=2,
                    max_event_age=cdk.Duration.hours(6),
                )
            ],
        )
        self._alarms(quotas.function, topic)
        cdk.CfnOutput(self, "QuotasFunction", value=quotas.function.function_name)

    def _function(
        self, *, bucket: s3.IBucket, table: dynamodb.ITable, topic: sns.ITopic, lost: sqs.IQueue, root: Path
    ) -> HandlerFunction:
        config = self._config
        quotas = HandlerFunction(
            self,
            "Quotas",
            function_name=f"holdfast-{config.environment}-quotas",
            description=f"Holdfast {config.environment}: asks for service quotas and follows the requests",
            handler="lambdas.quotas.handler",
            code=lambda_code(root=root, functions=config.functions),
            platform=Platform.of(config.functions),
            settings=QuotasSettings(
                bucket=bucket.bucket_name,
                table=table.table_name,
                topic_arn=topic.topic_arn,
                teams=",".join(sorted(config.teams)),
            ).to_env(),
            timeout=cdk.Duration.minutes(5),
            memory_size_mb=512,
            retries=2,
            failed_invocations=lost,
        )
        # Service Quotas authorizes reads on no single quota (service authorization reference), so the resource is `*`.
        quotas.allow(
            "ReadQuotas",
            [
                "servicequotas:GetAWSDefaultServiceQuota",
                "servicequotas:GetServiceQuota",
                "servicequotas:ListAWSDefaultServiceQuotas",
                "servicequotas:ListRequestedServiceQuotaChangeHistory",
                "servicequotas:ListServiceQuotas",
            ],
            ["*"],
        )
        # Any quota of SageMaker and of no other service: which code a quota has is found out at run time, by its name.
        quotas.allow(
            "AskForMore",
            ["servicequotas:RequestServiceQuotaIncrease"],
            [f"arn:{config.partition}:servicequotas:{config.region}:{config.account}:{SERVICE}/*"],
        )
        # The first request of an account makes Service Quotas' own role, with which it opens support cases.
        quotas.allow(
            "LetServiceQuotasMakeItsRole",
            ["iam:CreateServiceLinkedRole"],
            [f"arn:{config.partition}:iam::{config.account}:role/{_SERVICE_ROLE}"],
            {"StringEquals": {"iam:AWSServiceName": "servicequotas.amazonaws.com"}},
        )
        quotas.allow("WriteStatus", ["s3:PutObject"], [bucket.arn_for_objects(QUOTAS_STATUS)])
        quotas.allow(
            "RecordAndWaitingRuns",
            ["dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"],
            [table.table_arn],
        )
        quotas.allow("ActiveRuns", ["dynamodb:Query"], [f"{table.table_arn}/index/{ACTIVE_INDEX}"])
        quotas.allow("Notify", ["sns:Publish"], [topic.topic_arn])
        return quotas

    def _alarms(self, function: lambda_.IFunction, topic: sns.ITopic) -> None:
        """A day each: the function runs once a day, and an alarm that ends by itself at noon is overlooked."""
        problems = cloudwatch.Metric(
            namespace="Holdfast",
            metric_name="QuotaProblems",
            dimensions_map={"service": "quotas"},
            statistic="Maximum",
            period=cdk.Duration.days(1),
        )
        failures = function.metric_errors(statistic="Sum", period=cdk.Duration.days(1))
        for name, metric, words in (
            ("Problems", problems, "A service quota could not be read or asked for; see status/quotas.json"),
            ("Failures", failures, "The function that looks after the service quotas failed or ran out of time"),
        ):
            alarm = cloudwatch.Alarm(
                self,
                name,
                alarm_description=f"Holdfast {self._config.environment}: {words}",
                metric=metric,
                threshold=1,
                evaluation_periods=1,
                comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
                treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            )
            alarm.add_alarm_action(actions.SnsAction(topic))
