"""Everything that outlives a function: the one bucket and the table of runs."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from holdfast.aws.store import ACTIVE_INDEX
from holdfast.core.config import AccountConfig
from holdfast.core.layout import CHECKPOINTS, CONTROL, DATA, OUTPUT, STATUS, TEMPLATES
from holdfast.core.storage import Lifetime

# Request metrics' filters: name to prefix. A series has the filter's name as its dimension FilterId.
METRIC_FILTERS = {"all": None, "data": DATA, "checkpoints": CHECKPOINTS}
# How long an overwritten or deleted version stays. Manifests keep every version: they say who asked for what.
_OLD_VERSIONS_DAYS = {
    # The agent prunes checkpoints and status objects are rewritten at every change; versioning would keep all of it for
    # good. Long enough to undo a mistake over a weekend.
    CHECKPOINTS: 4,
    CONTROL: 4,
    STATUS: 4,
    # What people and jobs put there once. Long enough to notice that a data set was overwritten.
    DATA: 30,
    OUTPUT: 30,
    f"{TEMPLATES}team/": 30,
}


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
        self.key = _key(self, config=config, removal_policy=keep) if config.storage.key == "own" else None
        self.bucket = _bucket(self, config=config, key=self.key, removal_policy=keep)
        self.table = _table(self, removal_policy=keep, protect=config.retain_data)
        cdk.CfnOutput(self, "BucketName", value=self.bucket.bucket_name, description="Drop manifests here")
        cdk.CfnOutput(self, "TableName", value=self.table.table_name, description="The runs")


def _key(scope: Construct, *, config: AccountConfig, removal_policy: cdk.RemovalPolicy) -> kms.Key:
    """One key for the bucket and the notices. Deleting it would lose every checkpoint, so it goes where they go."""
    key = kms.Key(
        scope,
        "Key",
        description=f"Holdfast {config.environment}: data, checkpoints, notices",
        enable_key_rotation=True,
        removal_policy=removal_policy,
    )
    # An encrypted topic takes no message from a service that may not use its key, and nothing says so (SNS developer
    # guide, "Enable compatibility between event sources from AWS services and encrypted topics").
    use = ["kms:Decrypt", "kms:GenerateDataKey*"]
    key.add_to_resource_policy(
        iam.PolicyStatement(
            sid="AlarmsIntoTheTopic",
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=use,
            resources=["*"],  # A key's own policy can name nothing but itself
            conditions={"StringEquals": {"aws:SourceAccount": config.account}},
        )
    )
    key.add_to_resource_policy(
        iam.PolicyStatement(
            sid="EventsIntoTheTopic",
            # EventBridge's call carries neither aws:SourceAccount nor aws:SourceArn: under such a condition every
            # message would be dropped (the same page of the guide).
            principals=[iam.ServicePrincipal("events.amazonaws.com")],
            actions=use,
            resources=["*"],
        )
    )
    return key


def _bucket(
    scope: Construct, *, config: AccountConfig, key: kms.IKey | None, removal_policy: cdk.RemovalPolicy
) -> s3.Bucket:
    bucket = s3.Bucket(
        scope,
        "Bucket",
        bucket_name=config.bucket,
        versioned=True,
        enforce_ssl=True,
        encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=key,
        # One KMS call for many objects: a fleet's restore would run into KMS's own rate limit otherwise.
        bucket_key_enabled=key is not None,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        removal_policy=removal_policy,
        lifecycle_rules=[*_lifecycle_rules(), *_lifetimes(config)],
        metrics=[
            s3.BucketMetrics(id=name, prefix=prefix)
            for name, prefix in METRIC_FILTERS.items()
            if config.storage.request_metrics
        ],
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
                id=f"old-versions-of-{prefix.rstrip('/').replace('/', '-')}",
                prefix=prefix,
                noncurrent_version_expiration=cdk.Duration.days(days),
                expired_object_delete_marker=True,
            )
            for prefix, days in _OLD_VERSIONS_DAYS.items()
        ),
    ]


def _lifetimes(config: AccountConfig) -> list[s3.LifecycleRule]:
    prefixes = {"data": DATA, "checkpoints": CHECKPOINTS, "output": OUTPUT}
    return [
        s3.LifecycleRule(
            id=f"lifetime-of-{name}",
            prefix=prefixes[name],
            transitions=_transitions(lifetime) or None,
            expiration=None if lifetime.delete_after_days is None else cdk.Duration.days(lifetime.delete_after_days),
        )
        for name, lifetime in sorted(config.storage.lifetimes.items())
        if lifetime != Lifetime()
    ]


def _transitions(lifetime: Lifetime) -> list[s3.Transition]:
    moves = (
        (s3.StorageClass.INFREQUENT_ACCESS, lifetime.infrequent_after_days),
        (s3.StorageClass.GLACIER_INSTANT_RETRIEVAL, lifetime.archive_after_days),
    )
    return [
        s3.Transition(storage_class=storage_class, transition_after=cdk.Duration.days(days))
        for storage_class, days in moves
        if days is not None
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
