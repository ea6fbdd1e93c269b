# ruff: noqa: INP001 - a script of its own, run by the CDK's command line
"""Two small stacks with each kind of resource that Holdfast's own use. `-c fail=1` breaks the custom resource."""

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_ssm as ssm

ACCOUNT, REGION = "000000000000", "us-east-1"


class Storage(cdk.Stack):
    def __init__(self, app: cdk.App) -> None:
        super().__init__(app, "tiny-storage", env=cdk.Environment(account=ACCOUNT, region=REGION))
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=f"tiny-{ACCOUNT}",
            event_bridge_enabled=True,
            enforce_ssl=True,
            versioned=True,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.table = dynamodb.Table(
            self,
            "Table",
            table_name="tiny-runs",
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute="expires_at",
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.table.add_global_secondary_index(
            index_name="active",
            partition_key=dynamodb.Attribute(name="active", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="due", type=dynamodb.AttributeType.NUMBER),
        )
        self._add_roles()

    def _add_roles(self) -> None:
        from_this_account = {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
        job = iam.Role(
            self,
            "Job",
            role_name="tiny-job",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com", conditions=from_this_account),
        )
        self.bucket.grant_read(job, "data/*")
        pull = iam.PolicyStatement(
            actions=["ecr:BatchGetImage"], resources=[f"arn:aws:ecr:{REGION}:763104351884:repository/pytorch-training"]
        )
        job.add_to_policy(pull)
        iam.Role(
            self, "NotForJobs", role_name="tiny-lambda-only", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")
        )


class ControlPlane(cdk.Stack):
    def __init__(self, app: cdk.App, storage: Storage) -> None:
        super().__init__(app, "tiny-control-plane", env=cdk.Environment(account=ACCOUNT, region=REGION))
        self.code = lambda_.Code.from_asset("function")
        self.topic = sns.Topic(self, "Topic", topic_name="tiny-topic")
        self.dead_letters = sqs.Queue(self, "DeadLetters", queue_name="tiny-dead-letters", enforce_ssl=True)
        worker = self._worker(storage)
        self._rules(worker, storage)
        self._published_asset()

    def _worker(self, storage: Storage) -> lambda_.Function:
        worker = lambda_.Function(
            self,
            "Worker",
            function_name="tiny-worker",
            runtime=lambda_.Runtime.PYTHON_3_11,
            handler="handler.work",
            code=self.code,
            timeout=cdk.Duration.seconds(2),
            retry_attempts=0,
            reserved_concurrent_executions=5,
            dead_letter_queue=self.dead_letters,
            environment={"TABLE": storage.table.table_name, "BUCKET": storage.bucket.bucket_name},
        )
        storage.table.grant_read_write_data(worker)
        create = iam.PolicyStatement(
            actions=["sagemaker:CreateTrainingJob"],
            resources=[f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-job/tiny-*"],
        )
        pass_role = iam.PolicyStatement(
            actions=["iam:PassRole"],
            resources=[f"arn:aws:iam::{ACCOUNT}:role/tiny-job"],
            conditions={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        )
        worker.add_to_role_policy(create)
        worker.add_to_role_policy(pass_role)
        return worker

    def _rules(self, worker: lambda_.Function, storage: Storage) -> None:
        dropped = events.EventPattern(
            source=["aws.s3"],
            detail_type=["Object Created"],
            detail={"bucket": {"name": [storage.bucket.bucket_name]}, "object": {"key": [{"prefix": "manifests/"}]}},
        )
        job_changed = events.EventPattern(source=["aws.sagemaker"], detail_type=["SageMaker Training Job State Change"])
        target = targets.LambdaFunction(worker, dead_letter_queue=self.dead_letters)
        events.Rule(self, "Dropped", event_pattern=dropped, targets=[target])
        events.Rule(self, "JobChanged", event_pattern=job_changed, targets=[target])
        events.Rule(self, "Tick", schedule=events.Schedule.rate(cdk.Duration.minutes(1)), targets=[target])

    def _published_asset(self) -> None:
        asset = assets.Asset(self, "Asset", path="asset")
        publisher = lambda_.Function(
            self, "Publisher", runtime=lambda_.Runtime.PYTHON_3_11, handler="handler.publish", code=self.code
        )
        asset.grant_read(publisher)
        published = cdk.CustomResource(
            self,
            "Published",
            resource_type="Custom::Published",
            service_token=publisher.function_arn,
            properties={
                "Bucket": asset.s3_bucket_name,
                "Key": asset.s3_object_key,
                "Fail": self.node.try_get_context("fail") or "no",
            },
        )
        ssm.StringParameter(
            self, "Parameter", parameter_name="/tiny/bundle", string_value=published.get_att_string("Digest")
        )
        cdk.CfnOutput(self, "Digest", value=published.get_att_string("Digest"))


app = cdk.App()
ControlPlane(app, Storage(app))
app.synth()
