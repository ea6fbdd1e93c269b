"""Everything that outlives a function: the one bucket and the table of runs."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct

from holdfast.aws.store import ACTIVE_INDEX
from holdfast.core.config import AccountConfig
from holdfast.core.layout import CHECKPOINTS, CONTROL, STATUS


class StorageStack(cdk.Stack):
    """Bucket and table. Both stay when the stack is deleted, unless the config's `retain_data` is false.

    `retain_data: false` is for accounts whose data may go: the table is deleted with the stack, the bucket too once it
    is empty. There is no function that empties it: whoever deletes such a stack empties the bucket first.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, env: cdk.Environment, description: str, config: AccountConfig
    ) -> None:
        super().__init__(scope, construct_id, env=env, description=description)
        keep = cdk.RemovalPolicy.RETAIN if config.retain_data else cdk.RemovalPolicy.DESTROY
        self.bucket = _bucket(self, config=config, removal_policy=keep)
        self.table = _table(self, removal_policy=keep, protect=config.retain_data)
        cdk.CfnOutput(self, "BucketName", value=self.bucket.bucket_name, description="Drop manifests here")
        cdk.CfnOutput(self, "TableName", value=self.table.table_name, description="The runs")


def _bucket(scope: Construct, *, config: AccountConfig, removal_policy: cdk.RemovalPolicy) -> s3.Bucket:
    bucket = s3.Bucket(
        scope,
        "Bucket",
        bucket_name=config.bucket,
        versioned=True,
        enforce_ssl=True,
        encryption=s3.BucketEncryption.S3_MANAGED,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        removal_policy=removal_policy,
        lifecycle_rules=_lifecycle_rules(),
    )
    # Not event_bridge_enabled=True: CDK would add a custom resource with a function and a role of its own for a setting
    # that CloudFormation has had since 2021.
    plain = cast("s3.CfnBucket", bucket.node.default_child)
    plain.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
        event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
    )
    return bucket


def _lifecycle_rules() -> list[s3.LifecycleRule]:
    return [
        s3.LifecycleRule(
            id="abandoned-uploads",
            # A killed job leaves the parts of its checkpoint behind: invisible in listings, and billed.
            abort_incomplete_multipart_upload_after=cdk.Duration.days(3),
        ),
        *(
            s3.LifecycleRule(
                id=f"old-versions-of-{prefix.rstrip('/')}",
                prefix=prefix,
                # The agent prunes checkpoints and status objects are rewritten at every change; versioning would keep
                # all of it for good. Long enough to undo a mistake over a weekend.
                noncurrent_version_expiration=cdk.Duration.days(4),
                expired_object_delete_marker=True,
            )
            for prefix in (CHECKPOINTS, CONTROL, STATUS)
        ),
    ]


def _table(scope: Construct, *, removal_policy: cdk.RemovalPolicy, protect: bool) -> dynamodb.Table:
    table = dynamodb.Table(
        scope,
        "Runs",
        partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=True
        ),
        # Only the records of notices already sent carry it; a run never expires.
        time_to_live_attribute="expires_at",
        deletion_protection=protect,
        removal_policy=removal_policy,
    )
    table.add_global_secondary_index(
        index_name=ACTIVE_INDEX,
        partition_key=dynamodb.Attribute(name="active", type=dynamodb.AttributeType.STRING),
        sort_key=dynamodb.Attribute(name="due", type=dynamodb.AttributeType.NUMBER),
        projection_type=dynamodb.ProjectionType.ALL,
    )
    return table
