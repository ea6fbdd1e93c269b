"""What one deployment offers: the document that the stacks publish and the Lambdas read.

Built from the account's config and the job templates; the same bytes give the same document, so it lies in the bundle
beside the agent and the code, under the bundle's digest.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.config import AccountConfig, Network
from holdfast.core.manifest import Scalar


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class JobTemplate(_Part):
    """`job_templates/<name>/job.yaml`: one family of training jobs and the defaults of its script."""

    name: str
    description: str
    entry_point: str
    hyperparameters: dict[str, Scalar] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)


class PublishedTemplate(_Part):
    """A template as the bundle holds it: `code/<name>/source.tar.gz` below the bundle's prefix."""

    template: JobTemplate
    code_sha256: str


class Deployment(_Part):
    """Everything the control plane may choose from when it turns a manifest into a request."""

    environment: str
    account: str
    region: str
    partition: str
    bucket: str
    job_roles: dict[str, str]
    """Team to execution role ARN. A team that is not here has no runs."""
    images: dict[str, str]
    repositories: tuple[str, ...]
    instance_types: tuple[str, ...]
    max_instances_per_run: int
    network: Network | None
    volume_kms_key_arn: str | None
    output_kms_key_arn: str | None
    tags: dict[str, str]
    templates: dict[str, PublishedTemplate]


def build_deployment(config: AccountConfig, templates: Mapping[str, PublishedTemplate]) -> Deployment:
    return Deployment(
        environment=config.environment,
        account=config.account,
        region=config.region,
        partition=config.partition,
        bucket=config.bucket,
        job_roles={team: config.job_role_arn(team) for team in sorted(config.teams)},
        images=dict(sorted(config.images.items())),
        repositories=config.repositories,
        instance_types=config.instance_types,
        max_instances_per_run=config.max_instances_per_run,
        network=config.network,
        volume_kms_key_arn=config.volume_kms_key_arn,
        output_kms_key_arn=config.output_kms_key_arn,
        tags=dict(sorted(config.tags.items())),
        templates=dict(sorted(templates.items())),
    )
