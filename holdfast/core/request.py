"""The exact CreateTrainingJob request of one attempt: from manifest, pins and deployment, and from nothing else.

Pure, so that the request written down as an intent, the one that is sent, and the one that `holdfast request` prints
are the same document. Every field is there for a reason; so is every field that is not:

- RetryStrategy: SageMaker's own retries would share MaxRuntimeInSeconds and keep the job's name; restarts are ours.
- InfraCheckConfig: which types have the check, and what it costs, is not documented.
- KeepAlivePeriodInSeconds: warm pools exclude spot, and are not offered by a manifest yet.
- DebugHookConfig and rules: rules run on processing instances that nobody asked for.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.deployment import Deployment
from holdfast.core.instance_types import has_local_storage
from holdfast.core.layout import (
    bundle_prefix,
    checkpoint_prefix,
    control_key,
    job_name,
    lease_key,
    output_prefix,
    run_id,
    source_prefix,
)
from holdfast.core.manifest import DataChannel, Manifest
from holdfast.core.manifest_checks import scalar_text, template_defaults
from holdfast.core.model import Pins, digest_of
from holdfast_agent.contract import METRIC_REGEXES, JobContext

# `python3` on a directory runs its __main__.py. Exit code 87 is contract.EXIT_BAD_LAUNCH. SageMaker makes the text of
# the failure file the job's FailureReason. The API takes at most 256 characters an element.
_START = (
    'm="Holdfast: the image has no python3 on its PATH; Python 3.9 or newer is needed";'
    'command -v python3 >/dev/null||{ echo "$m" >&2;echo "$m" >/opt/ml/output/failure;exit 87;};'
    "exec python3 /opt/ml/input/data/agent"
)
ENTRYPOINT = ("/bin/sh", "-c", _START)


def pin(
    manifest: Manifest, deployment: Deployment, *, bundle: str, team: str, source_sha256: str | None = None
) -> Pins:
    """What a newly registered run is held to. `bundle`, `sha256-<hex>`, is the bundle that holds `deployment`.

    `source_sha256` is the hex digest of the team's tarball as it was copied. Raises ValueError where the manifest has a
    source and the digest is missing: that is the caller's mistake, not the author's.
    """
    image = deployment.images.get(manifest.image, manifest.image)
    if manifest.source is None:
        published = deployment.templates[manifest.template]
        return Pins(
            bundle=bundle,
            image_uri=image,
            code_prefix=f"{bundle_prefix(bundle)}code/{manifest.template}/",
            code_sha256=published.code_sha256,
            entry_point=published.template.entry_point,
        )
    if source_sha256 is None:
        raise ValueError("a manifest with a source is pinned by the digest of its tarball")
    return Pins(
        bundle=bundle,
        image_uri=image,
        code_prefix=source_prefix(team, f"sha256-{source_sha256}"),
        code_sha256=source_sha256,
        entry_point=manifest.source.entry_point,
    )


def build_request(
    *,
    deployment: Deployment,
    team: str,
    run: str,
    uid: str,
    manifest: Manifest,
    pins: Pins,
    attempt_number: int,
    spec_hash: str,
) -> dict[str, Any]:
    """CreateTrainingJob's parameters, Tags last. `deployment` is the one in the bundle that `pins` names."""
    job = job_name(deployment.environment, team, run, attempt_number)
    context = _context(deployment, team, run, uid, job, manifest, pins, attempt_number)
    request = {
        "TrainingJobName": job,
        "AlgorithmSpecification": {
            "TrainingImage": pins.image_uri,
            # The mode of channels that do not say theirs; ours and the manifest's all do.
            "TrainingInputMode": "File",
            "ContainerEntrypoint": list(ENTRYPOINT),
            "MetricDefinitions": [{"Name": name, "Regex": regex} for name, regex in sorted(METRIC_REGEXES.items())],
        },
        "RoleArn": deployment.job_roles[team],
        "HyperParameters": _hyperparameters(deployment, manifest),
        "Environment": _environment(deployment, manifest, context),
        "InputDataConfig": _channels(deployment, manifest, pins),
        "OutputDataConfig": _output(deployment, team, run),
        "ResourceConfig": _resources(deployment, manifest),
        "CheckpointConfig": {
            "S3Uri": _uri(deployment, checkpoint_prefix(team, run, manifest.generation)),
            "LocalPath": manifest.checkpoint.local_path,
        },
        "StoppingCondition": _stopping(manifest),
        # The agent reads its lease and the request to end itself from S3, which isolation would cut off.
        "EnableNetworkIsolation": False,
        # Encrypting the collectives costs much of their bandwidth; the deployment's network is private or AWS's own.
        "EnableInterContainerTrafficEncryption": False,
        "EnableManagedSpotTraining": manifest.resources.spot,
        # What an absent ProfilerConfig means has changed over time; this turns Debugger's monitoring off for certain.
        "ProfilerConfig": {"DisableProfiler": True},
    }
    if deployment.network is not None:
        request["VpcConfig"] = {
            "SecurityGroupIds": list(deployment.network.security_group_ids),
            "Subnets": list(deployment.network.subnets),
        }
    return {**request, "Tags": _tags(deployment, team, run, uid, attempt_number, spec_hash, request_digest(request))}


def request_digest(request: dict[str, Any]) -> str:
    """Hex SHA-256 of the request without its Tags, which hold the digest itself."""
    return digest_of({name: value for name, value in request.items() if name != "Tags"})


def _context(
    deployment: Deployment, team: str, run: str, uid: str, job: str, manifest: Manifest, pins: Pins, attempt_number: int
) -> JobContext:
    return JobContext(
        run=run_id(team, run),
        uid=uid,
        job=job,
        attempt=attempt_number,
        entry_point=pins.entry_point,
        code_sha256=pins.code_sha256,
        launch=manifest.resources.launch,
        processes_per_host=manifest.resources.processes_per_host,
        checkpoint_store=manifest.checkpoint.store,
        checkpoint_path=manifest.checkpoint.local_path,
        checkpoint_keep=manifest.checkpoint.keep,
        checkpoint_uri=_uri(deployment, checkpoint_prefix(team, run, manifest.generation)),
        lease_uri=_uri(deployment, lease_key(team, run, manifest.generation)),
        control_uri=_uri(deployment, control_key(team, run)),
    )


def _hyperparameters(deployment: Deployment, manifest: Manifest) -> dict[str, str]:
    merged = {**template_defaults(deployment, manifest).hyperparameters, **manifest.hyperparameters}
    return {name: scalar_text(value) for name, value in sorted(merged.items())}


def _environment(deployment: Deployment, manifest: Manifest, context: JobContext) -> dict[str, str]:
    # Ours last: whatever the others say, the agent is told the truth.
    return dict(
        sorted(
            {**template_defaults(deployment, manifest).environment, **manifest.environment, **context.to_env()}.items()
        )
    )


def _channels(deployment: Deployment, manifest: Manifest, pins: Pins) -> list[dict[str, Any]]:
    # File mode and fully replicated whatever the manifest's channels are: each host runs the agent and the code.
    own = (
        DataChannel(channel="agent", s3=_uri(deployment, f"{bundle_prefix(pins.bundle)}agent/")),
        DataChannel(channel="code", s3=_uri(deployment, pins.code_prefix)),
    )
    return [_channel(channel) for channel in (*own, *manifest.data)]


def _channel(channel: DataChannel) -> dict[str, Any]:
    return {
        "ChannelName": channel.channel,
        "DataSource": {
            "S3DataSource": {
                "S3DataType": "S3Prefix",
                "S3Uri": channel.s3,
                "S3DataDistributionType": channel.distribution,
            }
        },
        "InputMode": channel.mode,
    }


def _output(deployment: Deployment, team: str, run: str) -> dict[str, Any]:
    output = {"S3OutputPath": _uri(deployment, output_prefix(team, run))}
    if deployment.output_kms_key_arn is not None:
        output["KmsKeyId"] = deployment.output_kms_key_arn
    return output


def _resources(deployment: Deployment, manifest: Manifest) -> dict[str, Any]:
    asked = manifest.resources
    resources: dict[str, Any] = {
        "InstanceType": asked.instance_type,
        "InstanceCount": asked.instance_count,
        # Required on types without local storage; not looked at on the others.
        "VolumeSizeInGB": asked.volume_size_gb,
    }
    if deployment.volume_kms_key_arn is not None and not has_local_storage(asked.instance_type):
        resources["VolumeKmsKeyId"] = deployment.volume_kms_key_arn
    return resources


def _stopping(manifest: Manifest) -> dict[str, int]:
    # Always sent: SageMaker's own default is one day.
    stopping = {"MaxRuntimeInSeconds": manifest.limits.max_run_seconds}
    if manifest.limits.max_pending_seconds is not None:
        stopping["MaxPendingTimeInSeconds"] = manifest.limits.max_pending_seconds
    if manifest.resources.spot:
        # Required with spot, refused without; it counts the run's own time too.
        default = min(manifest.limits.max_run_seconds + 86_400, 28 * 86_400)
        stopping["MaxWaitTimeInSeconds"] = manifest.limits.max_wait_seconds or default
    return stopping


def _tags(
    deployment: Deployment, team: str, run: str, uid: str, attempt_number: int, spec_hash: str, digest: str
) -> list[dict[str, str]]:
    tags = {
        **deployment.tags,
        "holdfast:environment": deployment.environment,
        "holdfast:team": team,
        "holdfast:run": run_id(team, run),
        "holdfast:uid": uid,
        "holdfast:attempt": str(attempt_number),
        "holdfast:spec": spec_hash,
        "holdfast:request": digest,
    }
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def _uri(deployment: Deployment, key: str) -> str:
    return f"s3://{deployment.bucket}/{key}"
