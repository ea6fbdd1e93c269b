"""One account's configuration: the typed form of `config/<account>.yaml`.

The stacks read it at synth and the CLI reads it to work offline; both get the same document, so what `holdfast request`
prints is what the deployed Lambda would send.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from holdfast.core.layout import ENVIRONMENT_PATTERN, TEAM_PATTERN
from holdfast.core.quotas.wishes import QuotaNeeds, Quotas, type_words
from holdfast.core.storage import Storage

Environment = Annotated[str, StringConstraints(pattern=f"^({ENVIRONMENT_PATTERN})$")]
TeamName = Annotated[str, StringConstraints(pattern=f"^({TEAM_PATTERN})$")]


class _Strict(BaseModel):
    # The fields' docstrings are what docs/config.md and the errors say of them.
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Network(_Strict):
    """An existing VPC's parts for the training jobs, by their ids. Nothing is looked up."""

    subnets: tuple[str, ...] = Field(min_length=1, max_length=16)
    """Subnets' ids, `subnet-...`, with a way to S3 (an endpoint or a NAT gateway): the jobs have no other."""
    security_group_ids: tuple[str, ...] = Field(min_length=1, max_length=5)
    """Security groups' ids, `sg-...`, that let the hosts of one job reach one another on every port."""


class Team(_Strict):
    """One team: its prefix in the bucket and its job execution role are named after its key."""

    notify_emails: tuple[str, ...] = ()
    """Who gets the team's notices. SNS writes to each address once, and sends notices only after it was confirmed."""


class Functions(_Strict):
    """How the Lambda functions are built. `host` is the machine that synthesizes, for the sandbox."""

    architecture: Literal["arm64", "x86_64", "host"] = "arm64"
    """The functions' processor; the dependencies are fetched for it, whatever the machine that synthesizes."""
    python: Annotated[str, StringConstraints(pattern=r"^(3\.1[2-4]|host)$")] = "3.13"
    """Lambda's Python: 3.12, 3.13 or 3.14, in quotes; or `host`."""


class AccountConfig(_Strict):
    """One deployment: `config/<account>.yaml`. Unknown keys are refused."""

    environment: Environment
    """1 to 12 lower-case letters and digits, starting with a letter; part of every name, so that one account can hold
    more than one deployment."""
    account: Annotated[str, StringConstraints(pattern=r"^[0-9]{12}$")]
    """The AWS account's 12 digits, in quotes."""
    region: Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")]
    """An AWS Region, such as us-east-1. The images have to lie in it too."""
    kind: Literal["aws", "emulated"] = "aws"
    """`emulated` is for the sandbox: it may tick more often than EventBridge does."""
    poll_seconds: int = Field(default=60, ge=5, le=300)
    """Seconds from one tick of the watcher to the next; in an account a multiple of 60."""
    status_refresh_seconds: int = Field(default=600, ge=5, le=3600)
    """The status of a run whose state does not change is written again this often."""
    teams: dict[TeamName, Team] = Field(min_length=1)
    """Name to section, `research: {}` at least. A name is 1 to 20 lower-case letters, digits and hyphens, starting with
    a letter."""
    operator_emails: tuple[str, ...] = ()
    """Who gets the deployment's alarms, and with them every team's notices. Without one an alarm reaches nobody."""
    images: dict[str, str] = Field(default_factory=dict)
    """Catalogue: short name to ECR image URI, in addition to the listed repositories."""
    repositories: tuple[str, ...] = ()
    """ECR repositories (registry/name, without tag) that a manifest may name directly."""
    instance_types: tuple[str, ...] = Field(min_length=1)
    """SageMaker types a manifest may ask for. The account's quotas say how many of each there can be."""
    max_instances_per_run: int = Field(default=16, ge=1)
    """Most hosts that one manifest may ask for."""
    quotas: Quotas = Quotas()
    network: Network | None = None
    storage: Storage = Storage()
    volume_kms_key_arn: str | None = None
    """Key for the jobs' EBS volumes; without it one of SageMaker's own. Local NVMe is encrypted by itself."""
    output_kms_key_arn: str | None = None
    """Key for what a job writes at its end below `output/`; without it what SageMaker uses by default."""
    functions: Functions = Functions()
    retain_data: bool = True
    """Keep bucket and table when the stacks are deleted."""
    # CreateTrainingJob takes 50 tags, of which seven are Holdfast's own.
    tags: dict[str, str] = Field(default_factory=dict, max_length=40)
    """Tags of every resource and every training job."""

    @model_validator(mode="after")
    def _ticks_that_aws_can_give(self) -> AccountConfig:
        # EventBridge's shortest rate is one minute; the sandbox's ticker may invoke more often.
        if self.kind == "aws" and self.poll_seconds < 60:
            raise ValueError("poll_seconds: EventBridge ticks at most once a minute; use 60 or more")
        if self.kind == "aws" and self.poll_seconds % 60:
            raise ValueError("poll_seconds: EventBridge ticks in whole minutes; use a multiple of 60")
        return self

    @field_validator("quotas")
    @classmethod
    def _of_types_that_are_offered(cls, quotas: Quotas, info: ValidationInfo) -> Quotas:
        offered = info.data.get("instance_types", ())
        for one in quotas.instances if offered else ():
            if one.instance_type not in offered:
                raise ValueError(f"instances: {type_words(one.instance_type, offered)}")
        return quotas

    @property
    def quota_needs(self) -> QuotaNeeds:
        """What the functions are told of this config to look after its quotas."""
        return QuotaNeeds(
            quotas=self.quotas,
            instance_types=self.instance_types,
            max_instances_per_run=self.max_instances_per_run,
        )

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
