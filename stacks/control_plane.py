"""The functions, what calls them and what each may do; and the bundle that they hand to training jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from holdfast.aws.settings import IntakeSettings, PublishSettings, ReconcileSettings
from holdfast.aws.store import ACTIVE_INDEX
from holdfast.bundle import build_bundle
from holdfast.core.config import AccountConfig
from holdfast.core.layout import CHECKPOINTS, CONTROL, DATA, MANIFESTS, STATUS, TEMPLATES
from stacks.access import JOB_LOG_GROUP
from stacks.bundle_publication import BundlePublication
from stacks.handler_function import HandlerFunction
from stacks.lambda_code import Platform, lambda_code


class ControlPlaneStack(cdk.Stack):
    """Functions outside any VPC and without reserved concurrency: a small account has ten executions at once in all."""

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
        job_roles: Mapping[str, iam.IRole],
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, construct_id, env=env, description=description)
        self._config = config
        self._bucket = bucket
        self._table = table
        self._job_roles = job_roles
        self._key = key
        self._code = lambda_code(root=root, functions=config.functions)
        self._platform = Platform.of(config.functions)
        self._parameter_name = f"/holdfast/{config.environment}/bundle"
        self.topic = _topic(self, config=config, key=key)
        self.undelivered = _queue(self, "UndeliveredEvents")
        self.failed_invocations = _queue(self, "FailedInvocations")

        intake = self._intake()
        reconcile = self._reconcile(intake)
        publish = self._publish()
        published = BundlePublication(
            self,
            "Bundle",
            bundle=build_bundle(root, config),
            root=root,
            publish=publish,
            parameter_name=self._parameter_name,
        )
        for rule in self._rules(intake=intake, reconcile=reconcile):
            # Of a first deployment: a manifest that is waiting already would be read before there is a bundle to pin.
            rule.node.add_dependency(published)

        cdk.CfnOutput(self, "TopicArn", value=self.topic.topic_arn, description="Where notices go")
        cdk.CfnOutput(self, "IntakeFunction", value=intake.function.function_name)
        cdk.CfnOutput(self, "ReconcileFunction", value=reconcile.function.function_name)

    def _intake(self) -> HandlerFunction:
        intake = self._handler_function(
            "Intake",
            "reads a manifest and registers or updates its run",
            settings=IntakeSettings(
                bucket=self._bucket.bucket_name,
                table=self._table.table_name,
                bundle_parameter=self._parameter_name,
                topic_arn=self.topic.topic_arn,
            ).to_env(),
            timeout_seconds=60,
            memory_size_mb=512,
            # A manifest whose event is given up would wait for the next full listing.
            retries=2,
        )
        intake.allow("ReadManifestsSourcesTemplates", ["s3:GetObject"], self._keys(MANIFESTS, DATA, TEMPLATES))
        intake.allow("WriteStatusAndTeamCode", ["s3:PutObject"], self._keys(STATUS, f"{TEMPLATES}team/"))
        # A source tarball above S3's 5 GB for one copy is refused, so no multipart permissions.
        self._allow_listing(intake, MANIFESTS, DATA, TEMPLATES)
        intake.allow("Runs", ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [self._table.table_arn])
        intake.allow("ForgetNoticeThatFailed", ["dynamodb:DeleteItem"], [self._table.table_arn])
        intake.allow("Notify", ["sns:Publish"], [self.topic.topic_arn])
        intake.allow("WhichBundle", ["ssm:GetParameter"], [self._arn("ssm", f"parameter{self._parameter_name}")])
        intake.use(self._key)
        return intake

    def _reconcile(self, intake: HandlerFunction) -> HandlerFunction:
        reconcile = self._handler_function(
            "Reconcile",
            "brings each active run a step nearer to its goal",
            settings=ReconcileSettings(
                bucket=self._bucket.bucket_name,
                table=self._table.table_name,
                environment=self._config.environment,
                topic_arn=self.topic.topic_arn,
                poll_seconds=self._config.poll_seconds,
                status_refresh_seconds=self._config.status_refresh_seconds,
                intake_function=intake.function.function_name,
            ).to_env(),
            # A sweep works for 45 s at most and is done before the next tick.
            timeout_seconds=55,
            memory_size_mb=512,
            # The next tick sees the same world; a repeated old one would only meet it.
            retries=0,
        )
        reconcile.allow("ReadSealsAndTemplates", ["s3:GetObject"], self._keys(CHECKPOINTS, TEMPLATES))
        reconcile.allow("WriteStatusAndControl", ["s3:PutObject"], self._keys(STATUS, CONTROL))
        reconcile.allow("WithdrawControl", ["s3:DeleteObject"], self._keys(CONTROL))
        # Manifests are listed to find one whose event was lost, and not read: intake is called with that event instead,
        # so that nothing but intake opens what strangers wrote.
        self._allow_listing(reconcile, CHECKPOINTS, TEMPLATES, CONTROL, MANIFESTS)
        reconcile.allow("HandLostManifestsToIntake", ["lambda:InvokeFunction"], [intake.function.function_arn])
        reconcile.allow(
            "Runs",
            ["dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"],
            [self._table.table_arn],
        )
        reconcile.allow("ActiveRuns", ["dynamodb:Query"], [f"{self._table.table_arn}/index/{ACTIVE_INDEX}"])
        self._allow_training_jobs(reconcile)
        reconcile.allow("Notify", ["sns:Publish"], [self.topic.topic_arn])
        reconcile.use(self._key)
        return reconcile

    def _allow_training_jobs(self, reconcile: HandlerFunction) -> None:
        reconcile.allow(
            "OwnTrainingJobs",
            [
                "sagemaker:AddTags",
                "sagemaker:CreateTrainingJob",
                "sagemaker:DescribeTrainingJob",
                "sagemaker:ListTags",
                "sagemaker:StopTrainingJob",
            ],
            [self._arn("sagemaker", f"training-job/{self._config.environment}-*")],
        )
        reconcile.allow("ListTrainingJobs", ["sagemaker:ListTrainingJobs"], ["*"])
        reconcile.allow(
            "PassJobRoles",
            ["iam:PassRole"],
            [role.role_arn for role in self._job_roles.values()],
            {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        )
        reconcile.allow("ReadMetrics", ["cloudwatch:GetMetricData"], ["*"])
        reconcile.allow("ReadJobLogs", ["logs:FilterLogEvents"], [self._job_log_group(), f"{self._job_log_group()}:*"])

    def _publish(self) -> HandlerFunction:
        publish = self._handler_function(
            "Publish",
            "unpacks a release's bundle into the bucket during a deployment",
            settings=PublishSettings(bucket=self._bucket.bucket_name).to_env(),
            timeout_seconds=120,
            memory_size_mb=512,
            retries=2,
        )
        publish.allow("WriteBundles", ["s3:PutObject"], self._keys(f"{TEMPLATES}sha256-"))
        publish.use(self._key)
        return publish

    def _handler_function(
        self,
        construct_id: str,
        description: str,
        *,
        settings: Mapping[str, str],
        timeout_seconds: int,
        memory_size_mb: int,
        retries: int,
    ) -> HandlerFunction:
        name = construct_id.lower()
        return HandlerFunction(
            self,
            construct_id,
            function_name=f"holdfast-{self._config.environment}-{name}",
            description=f"Holdfast {self._config.environment}: {description}",
            handler=f"lambdas.{name}.handler",
            code=self._code,
            platform=self._platform,
            settings=settings,
            timeout=cdk.Duration.seconds(timeout_seconds),
            memory_size_mb=memory_size_mb,
            retries=retries,
            failed_invocations=self.failed_invocations,
        )

    def _rules(self, *, intake: HandlerFunction, reconcile: HandlerFunction) -> tuple[events.Rule, ...]:
        manifest_dropped = events.Rule(
            self,
            "ManifestDropped",
            description="A person, a pipeline or a notebook put a manifest into the bucket",
            event_pattern=events.EventPattern(
                source=["aws.s3"],
                detail_type=["Object Created"],
                detail={"bucket": {"name": [self._config.bucket]}, "object": {"key": [{"prefix": MANIFESTS}]}},
            ),
            targets=[self._target(intake, retries=24, max_age=cdk.Duration.hours(6))],
        )
        training_job_changed = events.Rule(
            self,
            "TrainingJobChanged",
            description="SageMaker says that one of our jobs changed; best effort, so the ticks do not rely on it",
            event_pattern=events.EventPattern(
                source=["aws.sagemaker"],
                detail_type=["SageMaker Training Job State Change"],
                # The account has other jobs. The environment has no hyphen, so `prod-` does not match `prodeu-`.
                detail={"TrainingJobName": [{"prefix": f"{self._config.environment}-"}]},
            ),
            targets=[self._target(reconcile, retries=2, max_age=cdk.Duration.minutes(10))],
        )
        # EventBridge ticks once a minute at most. Where the config polls more often, that cloud adds its own ticks.
        minutes = max(1, self._config.poll_seconds // 60)
        tick = events.Rule(
            self,
            "Tick",
            description="Looks at every active run",
            schedule=events.Schedule.rate(cdk.Duration.minutes(minutes)),
            # No retry: an old tick tells nothing that the next one does not.
            targets=[self._target(reconcile, retries=0, max_age=cdk.Duration.minutes(1))],
        )
        return manifest_dropped, training_job_changed, tick

    def _target(self, called: HandlerFunction, *, retries: int, max_age: cdk.Duration) -> targets.LambdaFunction:
        return targets.LambdaFunction(
            called.function,
            dead_letter_queue=self.undelivered,
            retry_attempts=retries,
            max_event_age=max_age,
        )

    def _allow_listing(self, called: HandlerFunction, *prefixes: str) -> None:
        """Also lets a read of a missing key under these prefixes be a 404; without it S3 says 403."""
        called.allow(
            "List",
            ["s3:ListBucket"],
            [self._bucket.bucket_arn],
            {"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in prefixes]}},
        )

    def _keys(self, *prefixes: str) -> list[str]:
        return [self._bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes]

    def _job_log_group(self) -> str:
        return self._arn("logs", f"log-group:{JOB_LOG_GROUP}")

    def _arn(self, service: str, resource: str) -> str:
        return f"arn:{self._config.partition}:{service}:{self._config.region}:{self._config.account}:{resource}"


def _topic(scope: Construct, *, config: AccountConfig, key: kms.IKey | None) -> sns.Topic:
    """TLS only. Under the deployment's own key or none: under AWS's no alarm could publish (docs/decisions.md)."""
    topic = sns.Topic(scope, "Notices", display_name=f"Holdfast {config.environment}", enforce_ssl=True, master_key=key)
    # The topic's own policy, once there is one, replaces the default that lets the account's alarms in.
    topic.add_to_resource_policy(
        iam.PolicyStatement(
            sid="AlarmsPublish",
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=["sns:Publish"],
            resources=[topic.topic_arn],
            conditions={"StringEquals": {"aws:SourceAccount": config.account}},
        )
    )
    # One subscription an address: SNS refuses a second one of the same address with another filter.
    of_teams = {address for team in config.teams.values() for address in team.notify_emails}
    for address in sorted(of_teams - set(config.operator_emails)):
        teams = sorted(name for name, team in config.teams.items() if address in team.notify_emails)
        only = {"team": sns.SubscriptionFilter.string_filter(allowlist=teams)}
        topic.add_subscription(subscriptions.EmailSubscription(address, filter_policy=only))
    # Alarms name no team, so that a filter by team would keep them from everybody.
    for address in config.operator_emails:
        topic.add_subscription(subscriptions.EmailSubscription(address))
    return topic


def _queue(scope: Construct, construct_id: str) -> sqs.Queue:
    return sqs.Queue(
        scope,
        construct_id,
        enforce_ssl=True,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        retention_period=cdk.Duration.days(14),
    )
