"""Rules across parameters, and what the sandbox says it cannot do."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.sagemaker.rules import not_emulated, refusal


def a_request(**more: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": "job",
        "RoleArn": "arn:aws:iam::000000000000:role/job",
        "AlgorithmSpecification": {
            "TrainingImage": "000000000000.dkr.ecr.us-east-1.amazonaws.com/trainer:1",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["train"],
        },
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10},
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        **more,
    }


def a_channel(name: str = "train", **more: Any) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/data/"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, **more}


def algorithm(**more: Any) -> dict[str, Any]:
    return {**a_request()["AlgorithmSpecification"], **more}


def resources(**more: Any) -> dict[str, Any]:
    return {**a_request()["ResourceConfig"], **more}


def test_a_plain_request_is_neither_refused_nor_beyond_the_sandbox() -> None:
    assert refusal(a_request(InputDataConfig=[a_channel()])) is None
    assert not_emulated(a_request(InputDataConfig=[a_channel()])) is None


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 90}},
         "Invalid MaxWaitTimeInSeconds. It is only supported when EnableManagedSpotTraining is set to true"),
        ({"EnableManagedSpotTraining": True}, "must be present and be greater than or equal to MaxRuntimeInSeconds"),
        ({"StoppingCondition": {"MaxRuntimeInSeconds": 28 * 86400 + 1}}, "MaxRuntimeInSeconds must be at most 2419200"),
        ({"ResourceConfig": {"InstanceCount": 1, "VolumeSizeInGB": 1}}, "InstanceType must be specified"),
        ({"ResourceConfig": resources(InstanceCount=0)}, "InstanceCount must be at least 1"),
        ({"ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1}}, "VolumeSizeInGB must be specified"),
        ({"ResourceConfig": resources(InstanceType="ml.p4d.24xlarge", VolumeKmsKeyId="key")}, "VolumeKmsKeyId is not"),
        ({"ResourceConfig": resources(KeepAlivePeriodInSeconds=3601)}, "KeepAlivePeriodInSeconds must be at most 3600"),
        ({"ResourceConfig": resources(KeepAlivePeriodInSeconds=60), "EnableManagedSpotTraining": True},
         "not supported when EnableManagedSpotTraining"),
        ({"ResourceConfig": {"InstanceGroups": [], "KeepAlivePeriodInSeconds": 60, "VolumeSizeInGB": 1}},
         "not supported with InstanceGroups"),
        ({"InputDataConfig": [a_channel("a"), a_channel("b"), a_channel("a")]}, "given more than once: a."),
        ({"AlgorithmSpecification": algorithm(AlgorithmName="knn")}, "exactly one of AlgorithmName and TrainingImage"),
        ({"AlgorithmSpecification": algorithm(MetricDefinitions=[{"Name": "a", "Regex": "a=("}])}, "Invalid regex"),
        ({"AlgorithmSpecification": algorithm(MetricDefinitions=[{"Name": "a", "Regex": "a"}])}, "no capture group"),
        ({"Tags": [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]}, "Tag keys must be unique"),
        ({"Tags": [{"Key": "aws:a", "Value": "1"}]}, "reserved"),
    ],
)  # fmt: skip
def test_parameters_that_contradict_each_other_are_refused(broken: dict[str, Any], said: str) -> None:
    assert said in (refusal(a_request(**broken)) or "")


def test_a_volume_key_is_welcome_on_a_type_without_local_storage() -> None:
    assert refusal(a_request(ResourceConfig=resources(VolumeKmsKeyId="key"))) is None


def test_a_type_with_local_storage_needs_no_volume_size() -> None:
    assert refusal(a_request(ResourceConfig={"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1})) is None


@pytest.mark.parametrize(
    ("beyond", "said"),
    [
        ({"AlgorithmSpecification": {k: v for k, v in algorithm().items() if k != "ContainerEntrypoint"}},
         "images: the sandbox has none"),
        ({"ResourceConfig": resources(InstanceGroups=[])}, "heterogeneous clusters"),
        ({"InputDataConfig": [a_channel(InputMode="Pipe")]}, "input mode Pipe (channel train"),
        ({"InputDataConfig": [a_channel(CompressionType="Gzip")]}, "decompression"),
        ({"InputDataConfig": [{"ChannelName": "fs", "DataSource": {"FileSystemDataSource": {}}}]}, "file systems"),
        ({"CheckpointConfig": {"S3Uri": "s3://b/c", "LocalPath": "/opt/ml/../x"}}, "checkpoints outside /opt/ml"),
        ({"CheckpointConfig": {"S3Uri": "https://b/c"}}, "not s3:// URIs (https://b/c)"),
        ({"DebugHookConfig": {"S3OutputPath": "s3://b/d"}}, "Debugger (DebugHookConfig)"),
        ({"ProfilerConfig": {"DisableProfiler": False}}, "the profiler"),
    ],
)  # fmt: skip
def test_what_the_sandbox_cannot_run_is_named(beyond: dict[str, Any], said: str) -> None:
    assert said in (not_emulated(a_request(**beyond)) or "")


@pytest.mark.parametrize(
    "welcome",
    [
        {
            "EnableManagedSpotTraining": True,
            "StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 60},
        },
        {"ResourceConfig": resources(KeepAlivePeriodInSeconds=3600)},
        {"RetryStrategy": {"MaximumRetryAttempts": 3}},
    ],
    ids=["spot", "warm pool", "retry"],
)
def test_what_the_sandbox_can_run_is_neither_refused_nor_called_beyond_it(welcome: dict[str, Any]) -> None:
    assert refusal(a_request(**welcome)) is None
    assert not_emulated(a_request(**welcome)) is None


def test_what_would_change_nothing_here_is_accepted() -> None:
    harmless = {
        "ProfilerConfig": {"DisableProfiler": True},
        "RemoteDebugConfig": {"EnableRemoteDebug": False},
        "ResourceConfig": resources(KeepAlivePeriodInSeconds=0),
        "InputDataConfig": [a_channel(InputMode="FastFile")],
    }
    assert not_emulated(a_request(**harmless)) is None
