"""What a manifest may ask of this deployment, beyond its shape.

Each check yields every error that it finds. The limits are those of CreateTrainingJob in botocore's model, so that
SageMaker does not refuse later what is accepted here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from holdfast.core.deployment import Deployment, JobTemplate
from holdfast.core.field_errors import FieldError, did_you_mean, listed, shown
from holdfast.core.instance_types import has_local_storage, is_accelerated
from holdfast.core.layout import DATA
from holdfast.core.manifest import Manifest
from holdfast_agent.contract import JobContext

RESERVED_CHANNELS = ("agent", "code")
MAX_ENTRIES = 100
MAX_ENVIRONMENT_VALUE = 512
MAX_HYPERPARAMETER_KEY = 256
MAX_HYPERPARAMETER_VALUE = 2_500
# The run's record holds the manifest, and the request compiled from it, in one DynamoDB item of at most 400 KB.
MAX_MANIFEST_BYTES = 100_000

_RESERVED_PREFIXES = ("HOLDFAST_", "SAGEMAKER_", "SM_", "AWS_")
# Set for each process by torchrun; one from outside would break the rendezvous.
_RENDEZVOUS = frozenset(
    ("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
)
_OWN_ENVIRONMENT = frozenset(JobContext("", "", "", 0, "", "").to_env())
_ECR_IMAGE = re.compile(
    r"(?P<repository>[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?/[a-z0-9][a-z0-9._/-]*)"
    r"(?P<version>:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})?"
)
# Java's `.`, as in the API's pattern `.*`, matches none of these.
_LINE_BREAKS = re.compile("[\n\r\u0085\u2028\u2029]")
# SageMaker's own folders: input is filled before the start, model and output are packed and uploaded at the end.
_TAKEN_FOLDERS = ("/opt/ml/input", "/opt/ml/model", "/opt/ml/output", "/opt/ml/code")


def check_manifest(
    manifest: Manifest, *, team: str | None, run: str | None, deployment: Deployment
) -> tuple[FieldError, ...]:
    """Every reason why this deployment refuses the manifest; empty where it accepts it.

    None for a team or run that the manifest's place does not name: what depends on it is not judged, the rest is.
    """
    return (
        *_names(manifest, team, run, deployment),
        *_template_and_image(manifest, deployment),
        *_resources(manifest, deployment),
        *_spot(manifest),
        *_addresses(manifest, team, deployment),
        *_channels(manifest),
        *_checkpoint_folder(manifest),
        *_hyperparameters(manifest, deployment),
        *_environment(manifest, deployment),
        *_size(manifest),
    )


def advise(manifest: Manifest, deployment: Deployment) -> tuple[str, ...]:
    """What is allowed and may surprise, in words."""
    return (*_advice(manifest), *_options(manifest, deployment))


def unknown_team(team: str, deployment: Deployment) -> FieldError | None:
    """The error of a manifest in the folder of a team that the deployment does not have."""
    if team in deployment.job_roles:
        return None
    wrong = f"lies in the folder of team {shown(team)}, which this deployment does not have"
    return FieldError("", wrong, f"one of: {listed(deployment.job_roles)}")


def _names(manifest: Manifest, team: str | None, run: str | None, deployment: Deployment) -> Iterator[FieldError]:
    if team is not None and (unknown := unknown_team(team, deployment)):
        yield unknown
    if None not in (manifest.name, run) and manifest.name != run:
        yield FieldError("name", f"is {shown(manifest.name)} in a file called {run}", f"write {run}, or leave name out")


def _template_and_image(manifest: Manifest, deployment: Deployment) -> Iterator[FieldError]:
    if manifest.template not in deployment.templates:
        wrong = f"{shown(manifest.template)} is no job template of this deployment"
        yield FieldError("template", wrong, _choose(manifest.template, deployment.templates))
    if manifest.image in deployment.images:
        return
    found = _ECR_IMAGE.fullmatch(manifest.image)
    if found is None:
        wrong = f"{shown(manifest.image)} is neither an image of the catalogue nor an ECR image URI"
        yield FieldError("image", wrong, _choose(manifest.image, deployment.images))
    elif found["repository"] not in deployment.repositories:
        wrong = f"{found['repository']} is not a repository that this deployment lists"
        yield FieldError("image", wrong, _choose(found["repository"], deployment.repositories))
    elif found["version"] is None:
        yield FieldError("image", "has neither tag nor digest", "end it in :<tag>, or better in @sha256:<digest>")
    elif len(manifest.image) > 255:
        yield FieldError("image", f"has {len(manifest.image)} characters", "at most 255")


def _choose(word: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    near = did_you_mean(word, known)
    return (f"did you mean {near}? " if near else "") + f"one of: {listed(known)}"


def _resources(manifest: Manifest, deployment: Deployment) -> Iterator[FieldError]:
    asked = manifest.resources
    if asked.instance_type not in deployment.instance_types:
        wrong = f"{asked.instance_type} is not allowed in this deployment"
        yield FieldError("resources.instance_type", wrong, _choose(asked.instance_type, deployment.instance_types))
    if asked.instance_count > deployment.max_instances_per_run:
        most = f"at most {deployment.max_instances_per_run} (max_instances_per_run in the deployment's config)"
        yield FieldError("resources.instance_count", f"is {asked.instance_count:,}", most)


def _addresses(manifest: Manifest, team: str | None, deployment: Deployment) -> Iterator[FieldError]:
    for index, channel in enumerate(manifest.data):
        yield from _address(f"data[{index}].s3", channel.s3, team, deployment)
    if manifest.source is not None:
        yield from _address("source.archive", manifest.source.archive, team, deployment)
        if ".." in manifest.source.entry_point.split("/"):
            yield FieldError(
                "source.entry_point", "leads out of the tarball with ..", "a path inside, such as train.py"
            )


def _address(field: str, uri: str, team: str | None, deployment: Deployment) -> Iterator[FieldError]:
    home = f"s3://{deployment.bucket}/{DATA}{team or '<team>'}/"
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    parts = key.removesuffix("/").split("/")
    if len(uri) > 1_024:
        yield FieldError(field, f"has {len(uri):,} characters", "at most 1,024")
    elif bucket != deployment.bucket:
        yield FieldError(field, f"lies in bucket {shown(bucket)}", f"an address below {home}")
    elif any(part in ("", ".", "..") for part in parts):
        # S3 takes such a key literally, while anything that normalises paths would leave the team's prefix.
        yield FieldError(field, "has an empty part, . or .. in its path", f"a plain path below {home}")
    elif not key.startswith(DATA if team is None else f"{DATA}{team}/"):
        # The slash matters: data/vision is also the beginning of data/vision2/.
        yield FieldError(field, _whose(parts, team), f"an address below {home}")


def _whose(parts: list[str], team: str | None) -> str:
    if parts[0] != DATA.rstrip("/"):
        return f"lies below {parts[0]}/, which holds no input data"
    if len(parts) > 1 and parts[1] != team:
        return f"lies in the prefix of another team, {DATA}{parts[1]}/"
    return "is not below the team's own prefix with its slash"


def _channels(manifest: Manifest) -> Iterator[FieldError]:
    count = Counter(channel.channel for channel in manifest.data)
    for index, channel in enumerate(manifest.data):
        field = f"data[{index}].channel"
        if channel.channel in RESERVED_CHANNELS:
            yield FieldError(field, f"{channel.channel} is Holdfast's own channel", "another name, such as train")
        elif count[channel.channel] > 1:
            yield FieldError(field, f"{channel.channel} is the name of more than one channel", "a name of its own")


def _checkpoint_folder(manifest: Manifest) -> Iterator[FieldError]:
    parts = manifest.checkpoint.local_path.rstrip("/").split("/")
    plain = "/".join(parts)
    if any(part in ("", ".", "..") for part in parts[1:]):
        yield FieldError("checkpoint.local_path", "has an empty part, . or .. in it", "a plain path below /opt/ml/")
    elif any(plain == taken or plain.startswith(f"{taken}/") for taken in _TAKEN_FOLDERS):
        yield FieldError(
            "checkpoint.local_path", f"{plain} is used by SageMaker for something else", "use /opt/ml/checkpoints"
        )


def _spot(manifest: Manifest) -> Iterator[FieldError]:
    """SageMaker refuses MaxWaitTimeInSeconds without spot, and one below MaxRuntimeInSeconds (API reference)."""
    wait = manifest.limits.max_wait_seconds
    if wait is None:
        return
    if not manifest.resources.spot:
        yield FieldError("limits.max_wait_seconds", "is for spot only", "set resources.spot: true, or remove it")
    elif wait < manifest.limits.max_run_seconds:
        wrong = f"is {wait:,}, less than max_run_seconds ({manifest.limits.max_run_seconds:,})"
        yield FieldError("limits.max_wait_seconds", wrong, "at least max_run_seconds: it counts the run's own time too")


def _template_defaults(manifest: Manifest, deployment: Deployment) -> JobTemplate:
    """What the template adds; nothing where it is unknown."""
    if manifest.template in deployment.templates:
        return template_defaults(deployment, manifest)
    return JobTemplate(name=manifest.template, description="unknown", entry_point="unknown")


def template_defaults(deployment: Deployment, manifest: Manifest) -> JobTemplate:
    """What the template gives its own script. A person's own script gets nothing that its author did not write: an
    unknown `--layers 4` would end most of them in their argument parser.
    """
    template = deployment.templates[manifest.template].template
    return (
        template if manifest.source is None else template.model_copy(update={"hyperparameters": {}, "environment": {}})
    )


def _hyperparameters(manifest: Manifest, deployment: Deployment) -> Iterator[FieldError]:
    defaults = _template_defaults(manifest, deployment).hyperparameters
    total = len(defaults.keys() | manifest.hyperparameters.keys())
    if total > MAX_ENTRIES:
        yield FieldError("hyperparameters", f"come to {total} with the template's defaults", f"at most {MAX_ENTRIES}")
    for key, value in manifest.hyperparameters.items():
        field, text = f"hyperparameters.{key[:80]}", scalar_text(value)
        if len(key) > MAX_HYPERPARAMETER_KEY or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", key):
            yield FieldError(field, "is no name for an option", "at most 256 letters, digits and . _ -, as in --name")
        elif key.startswith("sagemaker_"):
            yield FieldError(field, "belongs to SageMaker's own toolkit, which is not used", "remove it")
        if len(text) > MAX_HYPERPARAMETER_VALUE:
            yield FieldError(field, f"has {len(text):,} characters", f"at most {MAX_HYPERPARAMETER_VALUE:,}")
        if _LINE_BREAKS.search(text):
            yield FieldError(field, "has a line break, which SageMaker refuses", "one line")


def scalar_text(value: str | float | bool) -> str:
    """A hyperparameter as SageMaker takes it, which knows strings only: `true`, `3`, `0.0003`, or the text itself."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _environment(manifest: Manifest, deployment: Deployment) -> Iterator[FieldError]:
    others = _OWN_ENVIRONMENT | _template_defaults(manifest, deployment).environment.keys()
    total = len(others | manifest.environment.keys())
    if total > MAX_ENTRIES:
        wrong = f"comes to {total} variables with Holdfast's and the template's"
        yield FieldError("environment", wrong, f"at most {MAX_ENTRIES - len(others)} here")
    for key, value in manifest.environment.items():
        field = f"environment.{key[:80]}"
        if len(key) > 512 or not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", key):
            yield FieldError(field, "is no name for a variable", "letters, digits and _, not starting with a digit")
        elif key.upper().startswith(_RESERVED_PREFIXES):
            reserved = ", ".join(f"{prefix}*" for prefix in _RESERVED_PREFIXES)
            yield FieldError(field, "is a reserved name", f"a name that does not begin with any of {reserved}")
        elif key in _RENDEZVOUS:
            yield FieldError(field, "is set for each process by the launcher", "remove it")
        if len(value) > MAX_ENVIRONMENT_VALUE:
            long = f"at most {MAX_ENVIRONMENT_VALUE}; put longer text into a file below data/<team>/"
            yield FieldError(field, f"has {len(value):,} characters", long)


def _size(manifest: Manifest) -> Iterator[FieldError]:
    size = len(json.dumps(manifest.model_dump(mode="json")))
    if size > MAX_MANIFEST_BYTES:
        most = f"at most {MAX_MANIFEST_BYTES:,}; put long values into a file below data/<team>/"
        yield FieldError("", f"comes to {size:,} bytes of values", most)


def _options(manifest: Manifest, deployment: Deployment) -> Iterator[str]:
    """Only advice: a script may take options that its template gives no default for."""
    known = template_defaults(deployment, manifest).hyperparameters
    if not known:
        return
    for name in sorted(manifest.hyperparameters.keys() - known.keys()):
        near = did_you_mean(name, known)
        yield f"hyperparameters.{name}: {manifest.template} has no default for it" + (
            f"; did you mean {near}?" if near else "."
        )


def _advice(manifest: Manifest) -> Iterator[str]:
    kind = manifest.resources.instance_type
    if manifest.limits.max_pending_seconds is not None and not is_accelerated(kind):
        yield f"limits.max_pending_seconds has no effect on {kind}, only on ml.p, ml.g and ml.trn types."
    if has_local_storage(kind) and "volume_size_gb" in manifest.resources.model_fields_set:
        yield f"resources.volume_size_gb has no effect on {kind}, which trains on its local NVMe."
    for channel in manifest.data:
        if channel.mode == "FastFile":
            yield (
                f"data channel {channel.channel}: FastFile streams objects as they are read; it is fast for few large "
                "objects read from front to back, slow for many small ones and for random access."
            )
        if channel.mode == "Pipe":
            yield (
                f"data channel {channel.channel}: Pipe gives a FIFO an epoch, {channel.channel}_0 and so on, "
                "instead of files; the training code has to read it so."
            )
        if channel.distribution == "ShardedByS3Key" and manifest.resources.instance_count > 1:
            yield f"data channel {channel.channel}: each host sees its own share of the objects only."
    # aws-ofi-nccl, doc/efa-env-var.md.
    if manifest.environment.get("NCCL_PROTO", "").lower() == "simple":
        yield "environment.NCCL_PROTO: from aws-ofi-nccl 1.7 on it turns the plugin's tuner off, which is slower."
    if manifest.environment.get("FI_PROVIDER", "").lower() == "efa":
        yield "environment.FI_PROVIDER: only aws-ofi-nccl 1.5.0 and older need it; newer ones choose EFA by themselves."
    if manifest.watch.mode == "enforce" and manifest.watch.stall_after_seconds is None:
        yield "watch.stall_after_seconds is not set: a step that stands still is reported, and nothing is stopped."
