"""One execution role a team: what its training jobs may do, and nothing of another team's."""

from __future__ import annotations

import re
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from holdfast.core.config import AccountConfig, Network
from holdfast.core.layout import CHECKPOINTS, CONTROL, DATA, OUTPUT, TEMPLATES

JOB_LOG_GROUP = "/aws/sagemaker/TrainingJobs"
JOB_METRIC_NAMESPACE = "/aws/sagemaker/TrainingJobs"
_ECR_REPOSITORY = re.compile(
    r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/(?P<name>[a-z0-9][a-z0-9._/-]*)"
)


class AccessStack(cdk.Stack):
    """The roles have physical names: `holdfast request` prints them offline, and the functions may pass these alone."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        env: cdk.Environment,
        description: str,
        config: AccountConfig,
        bucket: s3.IBucket,
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, construct_id, env=env, description=description)
        self.job_roles = {
            team: _job_role(self, team=team, config=config, bucket=bucket, key=key) for team in sorted(config.teams)
        }


def _job_role(
    scope: Construct, *, team: str, config: AccountConfig, bucket: s3.IBucket, key: kms.IKey | None
) -> iam.Role:
    return iam.Role(
        scope,
        f"JobRole-{team}",
        role_name=config.job_role_name(team),
        description=f"What the training jobs of team {team} may do (Holdfast {config.environment})",
        # SageMaker gives aws:SourceAccount when it assumes a training job's role (its developer guide, "Cross-service
        # confused deputy prevention", section Training Jobs).
        assumed_by=iam.ServicePrincipal(
            "sagemaker.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": config.account}}
        ),
        inline_policies={
            "training": iam.PolicyDocument(
                statements=[
                    *_objects(team=team, bucket=bucket),
                    *_images(config),
                    *_logs_and_metrics(team=team, config=config),
                    *_keys(config, bucket_key=key),
                    *(_network(config, config.network) if config.network else ()),
                ]
            )
        },
    )


def _objects(*, team: str, bucket: s3.IBucket) -> list[iam.PolicyStatement]:
    def keys(*prefixes: str) -> list[str]:
        return [bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes]

    data, checkpoints, output, control = (f"{part}{team}/" for part in (DATA, CHECKPOINTS, OUTPUT, CONTROL))
    # A release's agent and code, and the copies of this team's own code; other teams' lie beside them.
    code = (f"{TEMPLATES}sha256-", f"{TEMPLATES}team/{team}/")
    return [
        iam.PolicyStatement(
            sid="ListOwnPrefixes",
            actions=["s3:ListBucket"],
            resources=[bucket.bucket_arn],
            # Also decides whether a missing key is a 404 or a 403: S3 judges that read by this permission, with the
            # asked-for key as s3:prefix. The agent needs the 404: "no lease yet" is not "forbidden".
            conditions={
                "StringLike": {"s3:prefix": [f"{prefix}*" for prefix in (data, checkpoints, output, control, *code)]}
            },
        ),
        iam.PolicyStatement(
            sid="Read",
            actions=["s3:GetObject"],
            resources=keys(data, checkpoints, output, control, *code),
        ),
        iam.PolicyStatement(
            sid="WriteCheckpointsAndOutput",
            actions=["s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"],
            resources=keys(checkpoints, output),
        ),
        iam.PolicyStatement(
            sid="PruneCheckpoints",
            # SageMaker's checkpoint sync copies deletions too.
            actions=["s3:DeleteObject"],
            resources=keys(checkpoints),
        ),
    ]


def _images(config: AccountConfig) -> list[iam.PolicyStatement]:
    repositories = sorted(
        {arn for image in (*config.repositories, *config.images.values()) if (arn := _repository_arn(config, image))}
    )
    token = iam.PolicyStatement(sid="RegistryToken", actions=["ecr:GetAuthorizationToken"], resources=["*"])
    if not repositories:
        return [token]
    pull = iam.PolicyStatement(
        sid="PullImages",
        actions=["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
        resources=repositories,
    )
    return [token, pull]


def _repository_arn(config: AccountConfig, image: str) -> str | None:
    """The ARN of an image's ECR repository; None for an image of elsewhere, which no IAM statement can name."""
    found = _ECR_REPOSITORY.match(image)
    if not found:
        return None
    return f"arn:{config.partition}:ecr:{found['region']}:{found['account']}:repository/{found['name']}"


def _logs_and_metrics(*, team: str, config: AccountConfig) -> list[iam.PolicyStatement]:
    group = f"arn:{config.partition}:logs:{config.region}:{config.account}:log-group:{JOB_LOG_GROUP}"
    return [
        iam.PolicyStatement(
            sid="LogGroup",
            # In most accounts the group is there already; where it is not, SageMaker makes it with the job's role.
            actions=["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams"],
            resources=[group, f"{group}:*"],
        ),
        iam.PolicyStatement(
            sid="LogLines",
            actions=["logs:PutLogEvents"],
            # Streams are named `<job>/algo-<n>-<epoch>` and jobs `<env>-<team>-...`. Team `a` reaches those of `a-b`
            # too: IAM patterns cannot tell where a name ends.
            resources=[f"{group}:log-stream:{config.environment}-{team}-*"],
        ),
        iam.PolicyStatement(
            sid="Metrics",
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],
            conditions={"StringEquals": {"cloudwatch:namespace": JOB_METRIC_NAMESPACE}},
        ),
    ]


def _keys(config: AccountConfig, *, bucket_key: kms.IKey | None) -> list[iam.PolicyStatement]:
    statements: list[iam.PolicyStatement] = []
    if bucket_key is not None:
        statements.append(
            iam.PolicyStatement(
                sid="BucketKey",
                # Decrypt also for writing: S3 reads its own parts back when it completes a multipart upload.
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=[bucket_key.key_arn],
                # For what lies in the bucket, and for nothing else that the key encrypts.
                conditions={"StringEquals": {"kms:ViaService": f"s3.{config.region}.{_dns_suffix(config)}"}},
            )
        )
    if config.output_kms_key_arn:
        statements.append(
            iam.PolicyStatement(
                sid="OutputKey",
                # Decrypt: S3 reads its own parts back when it completes a multipart upload under a key.
                actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
                resources=[config.output_kms_key_arn],
            )
        )
    if config.volume_kms_key_arn:
        statements.append(
            iam.PolicyStatement(
                sid="VolumeKey",
                actions=["kms:CreateGrant", "kms:DescribeKey"],
                resources=[config.volume_kms_key_arn],
            )
        )
    return statements


def _dns_suffix(config: AccountConfig) -> str:
    return "amazonaws.com.cn" if config.partition == "aws-cn" else "amazonaws.com"


def _network(config: AccountConfig, network: Network) -> Sequence[iam.PolicyStatement]:
    """SageMaker puts the job's network interfaces into the VPC with the job's role."""

    def ec2(kind: str, *ids: str) -> list[str]:
        return [f"arn:{config.partition}:ec2:{config.region}:{config.account}:{kind}/{one}" for one in ids]

    interfaces = ec2("network-interface", "*")
    return [
        iam.PolicyStatement(
            sid="CreateInterfaces",
            actions=["ec2:CreateNetworkInterface"],
            resources=[
                *interfaces,
                *ec2("subnet", *network.subnets),
                *ec2("security-group", *network.security_group_ids),
            ],
        ),
        iam.PolicyStatement(
            sid="OwnInterfaces",
            actions=[
                "ec2:CreateNetworkInterfacePermission",
                "ec2:DeleteNetworkInterface",
                "ec2:DeleteNetworkInterfacePermission",
            ],
            resources=interfaces,
        ),
        iam.PolicyStatement(
            sid="SeeNetwork",
            # EC2's Describe calls know no resources.
            actions=[
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
            resources=["*"],
        ),
    ]
