"""What CreateTrainingJob refuses beyond the shapes of its model, and what the sandbox refuses because it cannot do it.

The two are kept apart: a rule of AWS answers as AWS does; what is not emulated says "not emulated" and nothing else, so
that nobody takes the sandbox's limits for SageMaker's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from sandbox.sagemaker.warm_pools import LONGEST_SECONDS

JsonObject = dict[str, Any]

NVME_FAMILIES = frozenset(
    {"p3dn", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300", "p6e-gb200"}
    | {"g4dn", "g5", "g6", "g6e", "g7", "g7e", "trn1", "trn1n", "trn2", "m5d", "c5d", "r5d"}
)
"""Families with local NVMe, on which VolumeKmsKeyId is refused (API reference, ResourceConfig.VolumeKmsKeyId, names p4d
and g5 and "certain Nitro-based instances"; the list is AWS's of instance types with an instance store)."""

MAX_RUNTIME_SECONDS = 28 * 24 * 3600
"""API reference, StoppingCondition."""

DEFAULT_MAX_RUNTIME_SECONDS = 24 * 3600


def refusal(request: JsonObject) -> str | None:
    """The first rule of AWS that the request breaks, in words; None when it breaks none. The shapes hold already."""
    return next((text for rule in _RULES for text in rule(request)), None)


def not_emulated(request: JsonObject) -> str | None:
    """What of the request the sandbox cannot run, in words; None when it can run all of it."""
    reasons = list(_beyond_the_sandbox(request))
    return "; ".join(reasons) or None


def _algorithm(request: JsonObject) -> Iterator[str]:
    algorithm = request.get("AlgorithmSpecification")
    if algorithm is None:
        yield "AlgorithmSpecification must be specified."  # assumed wording
        return
    if ("TrainingImage" in algorithm) == ("AlgorithmName" in algorithm):
        yield "You must specify exactly one of AlgorithmName and TrainingImage."  # assumed wording
    for definition in algorithm.get("MetricDefinitions", []):
        try:
            compiled = re.compile(definition["Regex"])
        except re.error as error:
            yield f"Invalid regex {definition['Regex']!r} for metric {definition['Name']!r}: {error}"  # assumed wording
            return
        if compiled.groups == 0:
            yield f"The regex of metric {definition['Name']!r} has no capture group."  # assumed wording


def _resources(request: JsonObject) -> Iterator[str]:
    resources = request.get("ResourceConfig")
    if resources is None:
        yield "ResourceConfig must be specified."  # assumed wording
        return
    single = {"InstanceType", "InstanceCount"} & resources.keys()
    several = [name for name in ("InstanceGroups", "InstancePreferences") if name in resources]
    if several and "InstanceType" in single:
        yield f"InstanceType and {several[0]} cannot both be specified."  # assumed wording
    if not several:
        if "InstanceType" not in resources:
            yield "InstanceType must be specified in ResourceConfig."  # assumed wording
        if resources.get("InstanceCount", 0) < 1:
            yield "InstanceCount must be at least 1 in ResourceConfig."  # assumed wording
    if "VolumeSizeInGB" not in resources and not _has_nvme(resources.get("InstanceType", "")):
        yield "VolumeSizeInGB must be specified for an instance type without local storage."  # assumed wording
    if "VolumeKmsKeyId" in resources and _has_nvme(resources.get("InstanceType", "")):
        yield (  # assumed wording
            f"VolumeKmsKeyId is not supported for instance type {resources['InstanceType']}: "
            "its local storage is encrypted with a hardware key."
        )


def _warm_pool(request: JsonObject) -> Iterator[str]:
    """Limits and exclusions: developer guide, train-warm-pools, Considerations. The wording of all is assumed."""
    resources = request.get("ResourceConfig", {})
    seconds = resources.get("KeepAlivePeriodInSeconds", 0)
    if not seconds:
        return
    if seconds > LONGEST_SECONDS:
        yield f"KeepAlivePeriodInSeconds must be at most {LONGEST_SECONDS}."
    if request.get("EnableManagedSpotTraining"):
        yield "KeepAlivePeriodInSeconds is not supported when EnableManagedSpotTraining is set to true."
    if "InstanceGroups" in resources:
        yield "KeepAlivePeriodInSeconds is not supported with InstanceGroups."


def _stopping(request: JsonObject) -> Iterator[str]:
    condition = request.get("StoppingCondition", {})
    spot = request.get("EnableManagedSpotTraining", False)
    longest = condition.get("MaxRuntimeInSeconds", DEFAULT_MAX_RUNTIME_SECONDS)
    if longest > MAX_RUNTIME_SECONDS:
        yield f"MaxRuntimeInSeconds must be at most {MAX_RUNTIME_SECONDS}."  # assumed wording
    if "MaxWaitTimeInSeconds" in condition and not spot:
        # Kenza-AI/sagify#111
        yield "Invalid MaxWaitTimeInSeconds. It is only supported when EnableManagedSpotTraining is set to true"
    if spot and condition.get("MaxWaitTimeInSeconds", 0) < longest:
        yield (  # assumed wording
            "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to MaxRuntimeInSeconds"
        )


def _channels(request: JsonObject) -> Iterator[str]:
    names = [channel["ChannelName"] for channel in request.get("InputDataConfig", [])]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield f"Channel names must be unique; given more than once: {', '.join(twice)}."  # assumed wording
    for channel in request.get("InputDataConfig", []):
        if len(channel["DataSource"]) != 1:
            yield f"Channel {channel['ChannelName']} must have exactly one data source."  # assumed wording


def _tags(request: JsonObject) -> Iterator[str]:
    keys = [tag["Key"] for tag in request.get("Tags", [])]
    if len(keys) != len(set(keys)):
        yield "Tag keys must be unique."  # assumed wording
    if any(key.lower().startswith("aws:") for key in keys):
        yield "Tag keys that start with aws: are reserved."  # assumed wording


_RULES: tuple[Callable[[JsonObject], Iterator[str]], ...] = (
    _algorithm,
    _resources,
    _warm_pool,
    _stopping,
    _channels,
    _tags,
)

_WHOLE_FIELDS = {
    "DebugHookConfig": "Debugger",
    "DebugRuleConfigurations": "Debugger rules",
    "ProfilerRuleConfigurations": "Profiler rules",
    "TensorBoardOutputConfig": "TensorBoard output",
    "ExperimentConfig": "Experiments",
    "ServerlessJobConfig": "serverless jobs",
    "MlflowConfig": "MLflow",
    "ModelPackageConfig": "model packages",
}


def _beyond_the_sandbox(request: JsonObject) -> Iterator[str]:
    for field, feature in _WHOLE_FIELDS.items():
        if field in request:
            yield f"{feature} ({field})"
    if not request.get("ProfilerConfig", {}).get("DisableProfiler", True):
        yield "the profiler (ProfilerConfig); send DisableProfiler: true"
    if request.get("RemoteDebugConfig", {}).get("EnableRemoteDebug"):
        yield "remote debugging (RemoteDebugConfig)"
    if request.get("InfraCheckConfig", {}).get("EnableInfraCheck"):
        yield "the infrastructure check (InfraCheckConfig)"
    yield from _unsupported_places(request)
    yield from _unsupported_algorithm(request["AlgorithmSpecification"])
    yield from _unsupported_resources(request["ResourceConfig"])
    for channel in request.get("InputDataConfig", []):
        yield from _unsupported_channel(channel, request["AlgorithmSpecification"])


def _unsupported_places(request: JsonObject) -> Iterator[str]:
    checkpoints = request.get("CheckpointConfig", {})
    path = checkpoints.get("LocalPath", "/opt/ml/checkpoints")
    if not f"{path}/".startswith("/opt/ml/") or ".." in path.split("/"):
        yield f"checkpoints outside /opt/ml (CheckpointConfig.LocalPath: {path})"
    sources = [channel["DataSource"].get("S3DataSource", {}) for channel in request.get("InputDataConfig", [])]
    uris = [checkpoints.get("S3Uri"), request["OutputDataConfig"]["S3OutputPath"]]
    for uri in (*uris, *(source.get("S3Uri") for source in sources)):
        if uri is not None and not uri.startswith("s3://"):
            yield f"S3 locations that are not s3:// URIs ({uri})"


def _unsupported_algorithm(algorithm: JsonObject) -> Iterator[str]:
    if "AlgorithmName" in algorithm:
        yield "algorithm resources (AlgorithmSpecification.AlgorithmName)"
    elif "ContainerEntrypoint" not in algorithm:
        yield (
            "images: the sandbox has none, so it cannot know an image's own entry point "
            "(send AlgorithmSpecification.ContainerEntrypoint)"
        )
    if "TrainingImageConfig" in algorithm:
        yield "private registries (AlgorithmSpecification.TrainingImageConfig)"


def _unsupported_resources(resources: JsonObject) -> Iterator[str]:
    for field, feature in (
        ("InstanceGroups", "heterogeneous clusters"),
        ("InstancePreferences", "instance preferences"),
        ("TrainingPlanArn", "training plans"),
        ("InstancePlacementConfig", "placement"),
    ):
        if field in resources:
            yield f"{feature} (ResourceConfig.{field})"


def _unsupported_channel(channel: JsonObject, algorithm: JsonObject) -> Iterator[str]:
    name = channel["ChannelName"]
    source = channel["DataSource"].get("S3DataSource")
    if source is None:
        yield f"file systems (channel {name}: only an S3DataSource)"
    elif source["S3DataType"] != "S3Prefix":
        yield f"S3DataType {source['S3DataType']} (channel {name}: only S3Prefix)"
    if channel.get("InputMode", algorithm["TrainingInputMode"]) == "Pipe":
        yield f"input mode Pipe (channel {name}: File and FastFile)"
    if channel.get("CompressionType", "None") != "None":
        yield f"decompression of channels (channel {name})"
    if "ShuffleConfig" in channel:
        yield f"shuffling (channel {name})"


def is_accelerated(instance_type: str) -> bool:
    """The types for which MaxPendingTimeInSeconds takes effect (API reference, StoppingCondition)."""
    return instance_type.startswith(("ml.p", "ml.g", "ml.trn"))


def _has_nvme(instance_type: str) -> bool:
    return instance_type.removeprefix("ml.").partition(".")[0] in NVME_FAMILIES
