"""What a person drops into the bucket: `apiVersion: holdfast/v1`, `kind: TrainingRun`.

A manifest is input from a stranger: it names what to train and how to watch it, never a role, a network or a place
outside its team's own prefixes. Reading text into this model, with every error at once, is `read_manifest.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from holdfast.core.layout import RUN_PATTERN

Scalar = str | int | float | bool
Name64 = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
RelativePath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]{0,255}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Source(_Part):
    """A person's own code instead of the template's."""

    archive: Annotated[str, StringConstraints(pattern=r"^s3://[^/]+/.+\.(tar\.gz|tgz)$")]
    """s3:// address of a gzipped tarball in the team's own prefix, `data/<team>/`."""
    entry_point: RelativePath
    """The script inside the tarball that is started, such as train.py."""


class Resources(_Part):
    """The hosts of one attempt."""

    instance_type: Annotated[str, StringConstraints(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9]+$")]
    """SageMaker instance type, one that the deployment's config allows."""
    instance_count: int = Field(default=1, ge=1, le=10_000)
    """Hosts."""
    volume_size_gb: int = Field(default=50, ge=1, le=16_384)
    """EBS volume of each host; ignored by SageMaker on types with local NVMe."""
    processes_per_host: int = Field(default=0, ge=0, le=64)
    """Training processes a host; 0: one a GPU, or one where there is none."""
    spot: bool = False
    """Managed spot: cheaper hosts that AWS may take away; SageMaker gets others and the run goes on from its seal."""
    launch: Literal["torchrun", "python"] = "torchrun"
    """torchrun: one rendezvous over all hosts. python: the entry point once on each host."""


class DataChannel(_Part):
    """One input channel, mounted at /opt/ml/input/data/<channel>."""

    channel: Name64
    """Channel name; `agent` and `code` are Holdfast's own."""
    s3: Annotated[str, StringConstraints(pattern=r"^s3://[^/]+/.+$")]
    """s3:// prefix in the team's own prefix, `data/<team>/`."""
    mode: Literal["File", "FastFile", "Pipe"] = "File"
    """SageMaker's input mode."""
    distribution: Literal["FullyReplicated", "ShardedByS3Key"] = "FullyReplicated"
    """Whether each host gets everything or its share of the objects."""


class Checkpoint(_Part):
    """Where checkpoints lie and how many stay."""

    store: Literal["sync"] = "sync"
    """sync: SageMaker copies the local folder to S3 and back."""
    local_path: Annotated[str, StringConstraints(pattern=r"^/opt/ml/[A-Za-z0-9_./-]{1,200}$")] = "/opt/ml/checkpoints"
    """The folder inside the container."""
    keep: int = Field(default=3, ge=2, le=100)
    """Sealed checkpoints that stay; older ones are deleted. At least two: the newest may still be on its way to S3."""


class Limits(_Part):
    """Bounds on what Holdfast may spend on the run."""

    max_run_seconds: int = Field(default=5 * 86_400, ge=60, le=28 * 86_400)
    """Longest run of one attempt. SageMaker's own default is one day, its most 28 days."""
    max_pending_seconds: int | None = Field(default=None, ge=1_800, le=2_419_200)
    """Longest wait for capacity inside SageMaker; effective on ml.p, ml.g and ml.trn types only."""
    max_wait_seconds: int | None = Field(default=None, ge=60, le=28 * 86_400)
    """With spot: longest time of one attempt, waiting included. Without it: max_run_seconds and a day."""
    max_restarts: int = Field(default=5, ge=0, le=1_000)
    """Restarts without a newer sealed checkpoint in between, for each cause on its own. Waiting for capacity or for a
    quota is not counted: it costs nothing, and ends when AWS or the account's owner ends it."""
    backoff_seconds: int = Field(default=60, ge=0, le=3_600)
    """First wait before a restart that brought no progress; doubles each time, up to an hour."""


class Watch(_Part):
    """What counts as hung, and what may be done about it (docs/hangs.md). Where more than two runs, and more than 5 %,
    look hung within a quarter of an hour, no bound set here ends one of them: the watcher itself is suspect then."""

    mode: Literal["enforce", "shadow"] = "enforce"
    """shadow: every verdict is logged and reported, none is acted on."""
    stall_after_seconds: int | None = Field(default=None, ge=10, le=86_400)
    """A step this old is stale. Without it a step that is half an hour old is reported and not stopped: enforcement
    is earned, or asked for."""
    start_after_seconds: int | None = Field(default=None, ge=60, le=86_400)
    """Longest time from the start of training to the first step. Without it a run that has no step after an hour is
    reported and not stopped."""
    ask_seconds: int = Field(default=120, ge=5, le=3_600)
    """How long the agent may take to end itself, once asked, before StopTrainingJob is called."""


class Notify(_Part):
    """Which happenings are sent to the team's topic."""

    on: tuple[Literal["refused", "restarted", "waiting", "gave_up", "succeeded", "stopped", "hung", "denied"], ...] = (
        "refused",
        "restarted",
        "waiting",
        "gave_up",
        "succeeded",
        "stopped",
        "hung",
        "denied",
    )


class Manifest(_Part):
    """A training run. Its name is the file's name and its team the folder's, whatever the body says."""

    apiVersion: Literal["holdfast/v1"]  # noqa: N815 - the field's spelling is the format's
    kind: Literal["TrainingRun"]
    name: Annotated[str, StringConstraints(pattern=f"^({RUN_PATTERN})$")] | None = None
    """Optional; where present it must equal the file's name."""
    template: Name64
    """A job template of this deployment, such as tiny_gpt."""
    image: str
    """A key of the deployment's image catalogue, or an ECR image URI of a listed repository."""
    source: Source | None = None
    resources: Resources
    data: tuple[DataChannel, ...] = Field(default=(), max_length=18)
    checkpoint: Checkpoint = Checkpoint()
    hyperparameters: dict[str, Scalar] = Field(default_factory=dict)
    """Passed to the script as --key value; at most 100, 2,500 characters each."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the container; values of at most 512 characters."""
    limits: Limits = Limits()
    watch: Watch = Watch()
    notify: Notify = Notify()
    generation: int = Field(default=1, ge=1, le=999)
    """Raise it to run a finished run again, from nothing."""
    state: Literal["running", "stopped"] = "running"
    """The person's wish: `stopped` ends the run and keeps its checkpoints; `running` resumes it."""
