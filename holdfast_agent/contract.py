"""What the agent inside the container and the control plane outside agree on.

One definition for both sides: the heartbeat line, the checkpoint seal, the lease, the control request and the job's
environment. Standard library only and Python 3.9, because it runs in whatever image a person brings; it does no I/O,
because the control plane's pure core imports it.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from typing import Any, Dict, List, Mapping, Optional, Tuple

HEARTBEAT_VERSION = 1
SEAL_FORMAT = "holdfast-seal/1"
LEASE_FORMAT = "holdfast-lease/1"
CONTROL_FORMAT = "holdfast-control/1"
SEAL_NAME = "seal.json"

# Any exit code but 0 makes SageMaker mark the job Failed; these three let the log say which of ours it was.
EXIT_ENDED_ON_REQUEST = 85
EXIT_FENCED = 86
EXIT_BAD_LAUNCH = 87

PHASES = ("start", "resume", "step", "checkpoint", "sealed", "eval", "finish", "end")


class ContractError(ValueError):
    """A heartbeat, seal, lease or control object that does not say what the contract requires, in words."""


# ---------------------------------------------------------------------------------------------------------------------
# The heartbeat line. Example: [holdfast/1] phase=step attempt=2 step=120 loss=2.41315 tokens_per_second=812.4
# The first field is always `phase`; values hold no blanks. SageMaker's MetricDefinitions and the watcher read the same
# line, so a change of its form is a change of HEARTBEAT_VERSION.

_LINE = re.compile(r"\[holdfast/([0-9]{1,4})\] (phase=[a-z]+(?: [a-z_]{1,40}=[^ ]{1,200}){0,20})")

# Regexes for AlgorithmSpecification.MetricDefinitions: at most 40 of them, 500 characters each (botocore's model).
METRIC_REGEXES: Dict[str, str] = {
    "holdfast:step": r"\[holdfast/[0-9]+\] phase=step .*step=([0-9]+)",
    "holdfast:loss": r"\[holdfast/[0-9]+\] phase=step .*loss=([0-9.eE+-]+|nan|inf)",
    "holdfast:tokens_per_second": r"\[holdfast/[0-9]+\] phase=step .*tokens_per_second=([0-9.eE+-]+)",
    "holdfast:resumed_step": r"\[holdfast/[0-9]+\] phase=resume .*step=([0-9]+)",
    "holdfast:sealed_step": r"\[holdfast/[0-9]+\] phase=sealed .*step=([0-9]+)",
}


@dataclass(frozen=True)
class Heartbeat:
    """One heartbeat line. `step` counts optimizer steps from the run's first; throughput is in tokens a second."""

    phase: str
    attempt: int
    step: Optional[int] = None
    loss: Optional[float] = None
    tokens_per_second: Optional[float] = None
    detail: Optional[str] = None


def render_heartbeat(beat: Heartbeat) -> str:
    """The line, without its newline. Raises ContractError for an unknown phase or a detail with a blank."""
    if beat.phase not in PHASES:
        raise ContractError(f"phase {beat.phase!r} is not one of {', '.join(PHASES)}")
    if beat.detail is not None and not re.fullmatch(r"[^\s]{1,200}", beat.detail):
        raise ContractError(f"detail {beat.detail!r} must be 1 to 200 characters without blanks")
    words = [f"phase={beat.phase}", f"attempt={beat.attempt}"]
    if beat.step is not None:
        words.append(f"step={beat.step}")
    if beat.loss is not None:
        words.append(f"loss={beat.loss:.6g}")
    if beat.tokens_per_second is not None:
        words.append(f"tokens_per_second={beat.tokens_per_second:.6g}")
    if beat.detail is not None:
        words.append(f"detail={beat.detail}")
    return f"[holdfast/{HEARTBEAT_VERSION}] " + " ".join(words)


def parse_heartbeat(line: str) -> Optional[Heartbeat]:
    """The heartbeat in a log line (anywhere in it: launchers prefix lines), or None where there is no whole one."""
    found = _LINE.search(line[:4096])
    if found is None:
        return None
    words = dict(word.split("=", 1) for word in found.group(2).split(" "))
    try:
        return Heartbeat(
            phase=words["phase"],
            attempt=int(words.get("attempt", "0")),
            step=int(words["step"]) if "step" in words else None,
            loss=float(words["loss"]) if "loss" in words else None,
            tokens_per_second=float(words["tokens_per_second"]) if "tokens_per_second" in words else None,
            detail=words.get("detail"),
        )
    except ValueError:
        return None


# ---------------------------------------------------------------------------------------------------------------------
# The seal: the last file written into a checkpoint's folder. A folder without a valid seal is never restored.


def step_folder(step: int) -> str:
    """Folder of one checkpoint below the checkpoint root; zero-padded so that names sort by step."""
    return f"step-{step:010d}"


def step_of_folder(name: str) -> Optional[int]:
    found = re.fullmatch(r"step-([0-9]{10,})", name)
    return int(found.group(1)) if found else None


@dataclass(frozen=True)
class SealedFile:
    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Seal:
    """Says that a checkpoint is whole. `run` is `<team>/<run>`; `sealed_at` is epoch seconds on the writer's clock."""

    run: str
    uid: str
    attempt: int
    incarnation: int
    step: int
    world_size: int
    files: Tuple[SealedFile, ...]
    loss_finite: bool
    sealed_at: float


def render_seal(seal: Seal) -> str:
    return json.dumps({"format": SEAL_FORMAT, **asdict(seal)}, sort_keys=True, indent=1)


def parse_seal(text: str) -> Seal:
    """Raises ContractError, in words, for anything that is not a seal or that names a file outside its folder."""
    document = _document(text, SEAL_FORMAT, "seal")
    files = document.get("files")
    if not isinstance(files, list) or not files:
        raise ContractError("seal: 'files' must be a list of at least one file")
    listed: List[SealedFile] = []
    for entry in files:
        if not isinstance(entry, dict):
            raise ContractError("seal: each of 'files' must be an object with path, bytes and sha256")
        path = _field(entry, "path", str, "seal file")
        if path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in path.split("/")):
            raise ContractError(f"seal: file {path!r} lies outside the checkpoint's folder")
        digest = _field(entry, "sha256", str, "seal file")
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise ContractError(f"seal: sha256 of {path!r} is not 64 hex digits")
        listed.append(SealedFile(path, _natural(entry, "bytes", "seal file"), digest))
    if len({entry.path for entry in listed}) != len(listed):
        raise ContractError("seal: a file is listed twice")
    return Seal(
        run=_field(document, "run", str, "seal"),
        uid=_field(document, "uid", str, "seal"),
        attempt=_natural(document, "attempt", "seal"),
        incarnation=_natural(document, "incarnation", "seal"),
        step=_natural(document, "step", "seal"),
        world_size=_natural(document, "world_size", "seal"),
        files=tuple(listed),
        loss_finite=_field(document, "loss_finite", bool, "seal"),
        sealed_at=float(_field(document, "sealed_at", (int, float), "seal")),
    )


# ---------------------------------------------------------------------------------------------------------------------
# The lease: names the newest writer of a lineage. (attempt, incarnation) only ever rises.


@dataclass(frozen=True, order=True)
class Lease:
    """`incarnation` tells apart SageMaker's own in-job retries, which keep the attempt and the job's name."""

    attempt: int
    incarnation: int


def render_lease(lease: Lease) -> str:
    return json.dumps({"format": LEASE_FORMAT, **asdict(lease)}, sort_keys=True)


def parse_lease(text: str) -> Lease:
    document = _document(text, LEASE_FORMAT, "lease")
    return Lease(_natural(document, "attempt", "lease"), _natural(document, "incarnation", "lease"))


# ---------------------------------------------------------------------------------------------------------------------
# The control request: the watcher asks the agent to end itself, so that the job *fails* and node repair can start.


@dataclass(frozen=True)
class EndRequest:
    """Valid for one job only: an agent of another attempt that reads it does nothing."""

    job: str
    attempt: int
    reason: str
    requested_at: float


def render_end_request(request: EndRequest) -> str:
    return json.dumps({"format": CONTROL_FORMAT, "action": "end", **asdict(request)}, sort_keys=True)


def parse_end_request(text: str) -> EndRequest:
    document = _document(text, CONTROL_FORMAT, "control request")
    if document.get("action") != "end":
        raise ContractError(f"control request: action {document.get('action')!r} is not 'end'")
    return EndRequest(
        job=_field(document, "job", str, "control request"),
        attempt=_natural(document, "attempt", "control request"),
        reason=_field(document, "reason", str, "control request")[:500],
        requested_at=float(_field(document, "requested_at", (int, float), "control request")),
    )


# ---------------------------------------------------------------------------------------------------------------------
# The job's environment: what CreateTrainingJob's Environment carries, read back by the agent.


@dataclass(frozen=True)
class JobContext:
    """Everything the agent is told. URIs are s3://; an empty string means "not in use".

    `launch` is `torchrun` (one rendezvous over all hosts) or `python` (the script once a host). `processes_per_host` 0
    means one a GPU, or one where there is none. `code_sha256` is the digest pinned at registration of the tarball in
    the `code` channel; the agent refuses another one. `checkpoint_uri` is the S3Uri of the job's CheckpointConfig: with
    the store `sync` an older checkpoint is deleted only once a newer one is whole there.
    """

    run: str
    uid: str
    job: str
    attempt: int
    entry_point: str
    code_sha256: str
    launch: str = "torchrun"
    processes_per_host: int = 0
    checkpoint_store: str = "sync"
    checkpoint_path: str = "/opt/ml/checkpoints"
    checkpoint_keep: int = 3
    lease_uri: str = ""
    control_uri: str = ""
    checkpoint_uri: str = ""

    def to_env(self) -> Dict[str, str]:
        return {_env_name(field.name): str(getattr(self, field.name)) for field in fields(self)}

    @staticmethod
    def from_env(env: Mapping[str, str]) -> JobContext:
        """Raises ContractError that names each variable that is missing or malformed."""
        values: Dict[str, Any] = {}
        wrong: List[str] = []
        for field in fields(JobContext):
            name = _env_name(field.name)
            text = env.get(name)
            if text is None:
                if field.name in _REQUIRED:
                    wrong.append(f"{name} is missing")
                continue
            if field.name in _NUMBERS:
                if not re.fullmatch(r"[0-9]{1,9}", text):
                    wrong.append(f"{name}={text!r} is not a whole number")
                    continue
                values[field.name] = int(text)
            else:
                values[field.name] = text
        if wrong:
            raise ContractError("the job's environment is not Holdfast's: " + "; ".join(wrong))
        return JobContext(**values)


_REQUIRED = ("run", "uid", "job", "attempt", "entry_point", "code_sha256")
_NUMBERS = ("attempt", "processes_per_host", "checkpoint_keep")


def _env_name(field: str) -> str:
    return "HOLDFAST_" + field.upper()


# ---------------------------------------------------------------------------------------------------------------------


def _document(text: str, form: str, what: str) -> Dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ContractError(f"{what}: not JSON ({error})") from None
    except RecursionError:
        raise ContractError(f"{what}: nested too deeply") from None
    if not isinstance(document, dict):
        raise ContractError(f"{what}: not a JSON object")
    said = document.get("format")
    family, _, version = form.rpartition("/")
    if not isinstance(said, str) or said.rpartition("/")[0] != family:
        raise ContractError(f"{what}: format {said!r} is not {form!r}")
    # The newer reads the older; an older reader must refuse what it cannot know.
    if not said.rpartition("/")[2].isdigit() or int(said.rpartition("/")[2]) > int(version):
        raise ContractError(f"{what}: format {said!r} is newer than this Holdfast reads ({form!r})")
    return document


def _field(document: Mapping[str, Any], name: str, kind: Any, what: str) -> Any:
    value = document.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ContractError(f"{what}: {name!r} is missing or of the wrong type")
    return value


def _natural(document: Mapping[str, Any], name: str, what: str) -> int:
    value = _field(document, name, int, what)
    if value < 0:
        raise ContractError(f"{what}: {name!r} is negative")
    return int(value)
