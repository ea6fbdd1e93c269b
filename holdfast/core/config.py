"""One account's configuration: the typed form of `config/<account>.yaml`.

The stacks read it at synth and the CLI reads it to work offline; both get the same document, so what `holdfast request`
prints is what the deployed Lambda would send.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from holdfast.core.layout import ENVIRONMENT_PATTERN, TEAM_PATTERN

Environment = Annotated[str, StringConstraints(pattern=f"^({ENVIRONMENT_PATTERN})$")]
TeamName = Annotated[str, StringConstraints(pattern=f"^({TEAM_PATTERN})$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Network(_Strict):
    """An existing VPC's parts for the training jobs, by their ids. Nothing is looked up."""

    subnets: tuple[str, ...] = Field(min_length=1, max_length=16)
    security_group_ids: tuple[str, ...] = Field(min_length=1, max_length=5)


class Team(_Strict):
    """One team: its prefix in the bucket and its job execution role are named after its key."""

    notify_emails: tuple[str, ...] = ()


class Functions(_Strict):
    """How the Lambda functions are built. `host` is the machine that synthesizes, for the sandbox."""

    architecture: Literal["arm64", "x86_64", "host"] = "arm64"
    python: Annotated[str, StringConstraints(pattern=r"^(3\.1[2-4]|host)$")] = "3.13"


class AccountConfig(_Strict):
    """`config/<account>.yaml`. Unknown keys are refused."""

    environment: Environment
    account: Annotated[str, StringConstraints(pattern=r"^[0-9]{12}$")]
    region: Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")]
    kind: Literal["aws", "emulated"] = "aws"
    poll_seconds: int = Field(default=60, ge=5, le=300, description="Seconds from one tick of the watcher to the next.")
    status_refresh_seconds: int = Field(
        default=600, ge=5, le=3600, description="A run whose state does not change is written again this often."
    )
    teams: dict[TeamName, Team] = Field(min_length=1)
    images: dict[str, str] = Field(
        default_factory=dict,
        description="Catalogue: short name to ECR image URI, in addition to the listed repositories.",
    )
    repositories: tuple[str, ...] = Field(
        default=(), description="ECR repositories (registry/name, without tag) that a manifest may name directly."
    )
    instance_types: tuple[str, ...] = Field(min_length=1, description="SageMaker types a manifest may ask for.")
    max_instances_per_run: int = Field(default=16, ge=1)
    network: Network | None = None
    volume_kms_key_arn: str | None = None
    output_kms_key_arn: str | None = None
    functions: Functions = Functions()
    retain_data: bool = Field(default=True, description="Keep bucket and table when the stacks are deleted.")
    # CreateTrainingJob takes 50 tags, of which seven are Holdfast's own.
    tags: dict[str, str] = Field(default_factory=dict, max_length=40)

    @model_validator(mode="after")
    def _ticks_that_aws_can_give(self) -> AccountConfig:
        # EventBridge's shortest rate is one minute; the sandbox's ticker may invoke more often.
        if self.kind == "aws" and self.poll_seconds < 60:
            raise ValueError("poll_seconds: EventBridge ticks at most once a minute; use 60 or more")
        if self.kind == "aws" and self.poll_seconds % 60:
            raise ValueError("poll_seconds: EventBridge ticks in whole minutes; use a multiple of 60")
        return self

    @property
    def partition(self) -> str:
        if self.region.startswith("cn-"):
            return "aws-cn"
        return "aws-us-gov" if self.region.startswith("us-gov-") else "aws"

    @property
    def bucket(self) -> str:
        """A physical name, since people outside the stack have to know where to drop a manifest."""
        return f"holdfast-{self.environment}-{self.account}-{self.region}"

    def job_role_name(self, team: str) -> str:
        """A physical name, since `holdfast request` must print the exact role offline. At most 57 of 64 characters."""
        return f"holdfast-{self.environment}-{self.region}-{team}"

    def job_role_arn(self, team: str) -> str:
        return f"arn:{self.partition}:iam::{self.account}:role/{self.job_role_name(team)}"
