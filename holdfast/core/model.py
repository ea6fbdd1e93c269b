"""The words of the control plane: a run, its attempts, and what they go through.

Everything here is frozen. Times are epoch seconds on the control plane's clock, passed in as data.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

from holdfast.core.layout import run_id
from holdfast.core.manifest import Manifest

# The item in the table is bounded (DynamoDB: 400 KB); older attempts are archived to S3.
KEPT_ATTEMPTS = 10


class Phase(StrEnum):
    ACCEPTED = "accepted"
    WAITING = "waiting"
    STARTING = "starting"
    TRAINING = "training"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def terminal(self) -> bool:
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED)


class Cause(StrEnum):
    """Why an attempt ended other than by finishing. Each has its own restart budget."""

    USER_ERROR = "user_error"
    PLATFORM = "platform"
    HARDWARE = "hardware"
    CAPACITY = "capacity"
    QUOTA = "quota"
    HANG = "hang"
    MAX_RUNTIME = "max_runtime"
    SPOT_INTERRUPTION = "spot_interruption"
    STOPPED_BY_PERSON = "stopped_by_person"
    REFUSED = "refused"
    """SageMaker refused the request itself; sending it again cannot help."""
    PERMISSION = "permission"
    """The job may not be created: Holdfast or the job's role lacks a permission. Nothing ran."""
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    TIMED_OUT = "timed_out"
    NOT_CREATED = "not_created"


class JobState(StrEnum):
    """Our word for TrainingJobStatus and SecondaryStatus; the table is in `sagemaker_words.py`."""

    PENDING = "pending"
    STARTING = "starting"
    DOWNLOADING = "downloading"
    TRAINING = "training"
    INTERRUPTED = "interrupted"
    RETRYING = "retrying"
    UPLOADING = "uploading"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    MAX_RUNTIME = "max_runtime"
    MAX_WAIT = "max_wait"
    UNKNOWN = "unknown"

    @property
    def terminal(self) -> bool:
        return self in (
            JobState.COMPLETED,
            JobState.FAILED,
            JobState.STOPPED,
            JobState.MAX_RUNTIME,
            JobState.MAX_WAIT,
        )


@dataclass(frozen=True)
class Pins:
    """What a run's lineage is held to at registration, so that an upgrade of Holdfast never changes it."""

    bundle: str
    """`sha256-<hex>`: folder of the agent under templates/."""
    image_uri: str
    code_prefix: str
    """Key prefix in the bucket, with its slash, that holds source.tar.gz alone."""
    code_sha256: str
    entry_point: str


@dataclass(frozen=True)
class Described:
    """What SageMaker said of an attempt's job when it was last described.

    Kept, so that a sweep which lists only what changed knows the rest without a call for each run.
    """

    state: JobState
    modified_at: float
    """The job's LastModifiedTime: a list that shows a later one shows a job that changed."""
    described_at: float


@dataclass(frozen=True)
class Attempt:
    """One training job. Written as an intent, with its whole request, before it is created."""

    number: int
    job: str
    spec_hash: str
    request_digest: str
    intended_at: float
    request: dict[str, Any] | None = None
    """The exact CreateTrainingJob request; dropped once the job has been seen, since only a create needs it."""
    sent_at: float | None = None
    """When a create was last about to be sent; None while it certainly was not, or was refused. From here on a job of
    this name may exist, whatever a read says for a moment."""
    seen_at: float | None = None
    training_at: float | None = None
    """When a step was first seen, or the job was first seen in SageMaker's Training."""
    ended_at: float | None = None
    outcome: Outcome | None = None
    cause: Cause | None = None
    reason: str = ""
    resumed_from_step: int | None = None
    last_step: int | None = None
    last_step_at: float | None = None
    """When CloudWatch first had `last_step`; kept, since a window of metrics may no longer reach back to it."""
    sealed_step: int | None = None
    hung_at: float | None = None
    """When the verdict `hung` was stored."""
    asked_at: float | None = None
    stopped_at: float | None = None
    """When StopTrainingJob was called by us."""
    described: Described | None = None


@dataclass(frozen=True)
class Suspicion:
    """A step that did not move, and how many polls one after the other said so with two signals."""

    step: int | None
    since: float
    polls: int
    polled_at: float


@dataclass(frozen=True)
class Ledger:
    """Restarts so far. `charged` counts, a cause, those without a newer sealed checkpoint since the one before."""

    restarts: int = 0
    charged: dict[str, int] = field(default_factory=dict)
    best_sealed_step: int | None = None


@dataclass(frozen=True)
class Notice:
    """A message that is owed to people; it leaves the run once it was published (at least once).

    `teams`: where it is not about one run of `team`, all that get it, each address once.
    """

    id: str
    team: str
    kind: str
    subject: str
    body: str
    teams: tuple[str, ...] = ()


@dataclass(frozen=True)
class QuotaShortage:
    """A quota that is too small for a run beside what is in use. Instances, or seconds for the longest run."""

    name: str
    """As Service Quotas calls it."""
    code: str | None
    limit: float
    as_of: float
    """When `limit` was read, or said by SageMaker."""
    in_use: float
    users: tuple[str, ...]
    """Some of our own runs that hold it."""
    needed: float
    asked: float | None = None
    """Value of the increase that is asked for and not answered."""

    @property
    def short_by(self) -> float:
        return self.in_use + self.needed - self.limit

    @property
    def waiting_helps(self) -> bool:
        """Whether the run fits once others have ended; else only a larger quota helps."""
        return self.needed <= self.limit


@dataclass(frozen=True)
class QuotaRefusal:
    """The numbers of SageMaker's own ResourceLimitExceeded. `in_use` counts everybody's jobs."""

    name: str
    limit: float
    in_use: float
    at: float


@dataclass(frozen=True)
class Hold:
    """A run that is not submitted since a quota is known to be short. SageMaker is asked after a while all the same."""

    since: float
    looks: int
    shortages: tuple[QuotaShortage, ...]


@dataclass(frozen=True)
class Run:
    """One item in the table. `version` is the store's, for conditional writes; 0 means not stored yet."""

    team: str
    name: str
    uid: str
    manifest: Manifest
    spec_hash: str
    pins: Pins
    registered_at: float
    phase: Phase = Phase.ACCEPTED
    why: str = ""
    cause: Cause | None = None
    due_at: float | None = None
    attempts: tuple[Attempt, ...] = ()
    next_number: int = 1
    ledger: Ledger = field(default_factory=Ledger)
    suspicion: Suspicion | None = None
    notices: tuple[Notice, ...] = ()
    refused: tuple[str, ...] = ()
    """Errors of the newest manifest, where it was refused while this run goes on with the one before."""
    taken: str = ""
    """Key and ETag of the manifest object that was last taken in or refused; see `manifest_mark`."""
    note: str = ""
    """What a changed manifest applies now and what at the next attempt, in words."""
    health: str = ""
    """The newest verdict and its basis, in words."""
    withdraw_due: bool = False
    """A request to end may still lie where the agent polls; it is taken back once more at the next look."""
    denied: str = ""
    """Calls of Holdfast's own that AWS denied at the last looks, in words; empty once they are allowed again."""
    hold: Hold | None = None
    """Set while the preflight keeps the run from being submitted."""
    quota_refusal: QuotaRefusal | None = None
    """What SageMaker said when it last refused a create for a quota."""
    alerted: bool = False
    """Whether people were told of a suspicion that may not be acted on; falls with the suspicion."""
    status_due: bool = True
    """The status object is older than this record; holds the run in the active index until it is written."""
    written_at: float = 0.0
    """When the status object was last written."""
    version: int = 0

    @property
    def id(self) -> str:
        return run_id(self.team, self.name)

    @property
    def active(self) -> bool:
        """Whether a sweep has to look at the run: it lives, or something is still owed to people."""
        return not self.phase.terminal or bool(self.notices) or self.status_due

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt that belongs to this generation's story, ended or not."""
        return self.attempts[-1] if self.attempts else None


def manifest_mark(key: str, etag: str) -> str:
    """What `Run.taken` holds. With the key: a.yaml and a.json may have the same bytes and are two files of one run."""
    return f"{key} {etag}"


_RUN = TypeAdapter(Run)
_ATTEMPT = TypeAdapter(Attempt)


def dump_run(run: Run) -> str:
    """JSON for the store. `version` is the store's own and not part of it."""
    document = _RUN.dump_python(run, mode="json")
    del document["version"]
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def dump_attempt(attempt: Attempt) -> str:
    return _ATTEMPT.dump_json(attempt).decode()


def load_run(text: str, version: int) -> Run:
    return _RUN.validate_python({**json.loads(text), "version": version}, strict=False)


def digest_of(document: Any) -> str:
    """Hex SHA-256 of a JSON document in canonical form."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def spec_hash(manifest: Manifest) -> str:
    """Digest of the normalised manifest; dropping the same bytes or the same meaning again is a no-op."""
    return digest_of(manifest.model_dump(mode="json", exclude={"name"}))
