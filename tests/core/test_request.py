"""The CreateTrainingJob request, checked against botocore's own model: shape, enums, lengths and patterns."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.model import ListShape, MapShape, Shape, StringShape, StructureShape
from botocore.validate import ParamValidator

from holdfast.core.config import Network
from holdfast.core.deployment import Deployment
from holdfast.core.instance_types import has_local_storage, is_accelerated
from holdfast.core.manifest import Checkpoint, DataChannel, Limits, Manifest, Resources, Source
from holdfast.core.model import Pins, spec_hash
from holdfast.core.request import ENTRYPOINT, build_request, pin, request_digest
from holdfast_agent.contract import EXIT_BAD_LAUNCH, JobContext, parse_heartbeat
from tests.builders import BUCKET, REPOSITORY, a_deployment, a_manifest, a_template

BUNDLE = "sha256-" + "ab" * 32


def request_for(
    manifest: Manifest | None = None,
    *,
    deployment: Deployment | None = None,
    attempt: int = 2,
    pins: Pins | None = None,
) -> dict[str, Any]:
    spec, place = manifest or a_manifest(), deployment or a_deployment()
    return build_request(
        deployment=place,
        team="research",
        run="tiny",
        uid="0191-uid",
        manifest=spec,
        pins=pins or pin(spec, place, bundle=BUNDLE, team="research"),
        attempt_number=attempt,
        spec_hash=spec_hash(spec),
    )


def shape() -> StructureShape:
    model = botocore.session.get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob")
    assert isinstance(model.input_shape, StructureShape)
    return model.input_shape


def breaches(value: Any, model: Shape, path: str = "") -> list[str]:
    """What botocore does not check itself: enums, patterns and the lengths of strings, lists and maps."""
    found = []
    limits = model.metadata
    if isinstance(model, StructureShape):
        for name, child in value.items():
            found += breaches(child, model.members[name], f"{path}.{name}")
    elif isinstance(model, ListShape):
        for child in value:
            found += breaches(child, model.member, f"{path}[]")
    elif isinstance(model, MapShape):
        for key, child in value.items():
            found += breaches(key, model.key, f"{path}.key") + breaches(child, model.value, f"{path}.{key}")
    if isinstance(model, StringShape):
        if model.enum and value not in model.enum:
            found.append(f"{path}: {value} is not of the enum")
        pattern = limits.get("pattern", "").replace(r"\p{L}", "a-zA-Z").replace(r"\p{Z}", " ").replace(r"\p{N}", "0-9")
        if pattern and not re.fullmatch(pattern, value):
            found.append(f"{path}: {value!r} does not match {pattern}")
    if isinstance(value, str | list | dict) and not limits.get("min", 0) <= len(value) <= limits.get("max", 10**9):
        found.append(f"{path}: length {len(value)}")
    if isinstance(value, int) and not limits.get("min", 0) <= value <= limits.get("max", 10**9):
        found.append(f"{path}: {value}")
    return found


def full_manifest() -> Manifest:
    return a_manifest(
        instance_type="ml.p5.48xlarge",
        instance_count=4,
        limits=Limits(max_run_seconds=28 * 86_400, max_pending_seconds=1_800),
        data=(
            DataChannel(
                channel="train", s3=f"s3://{BUCKET}/data/research/x/", mode="FastFile", distribution="ShardedByS3Key"
            ),
        ),
        hyperparameters={"lr": 3e-4, "compile": True, "x" * 256: "y" * 2_500},
        environment={f"E{index}": "x" * 512 for index in range(86)},
    )


@pytest.mark.parametrize("which", ["smallest", "full", "all of the deployment"])
def test_the_request_satisfies_botocores_model_and_its_patterns_and_limits(which: str) -> None:
    deployment = a_deployment()
    if which == "all of the deployment":
        key = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
        network = Network(subnets=("subnet-0a",), security_group_ids=("sg-0a",))
        deployment = a_deployment(
            network=network, volume_kms_key_arn=key, output_kms_key_arn=key, tags={"cost centre": "a/b"}
        )
    request = request_for(a_manifest() if which == "smallest" else full_manifest(), deployment=deployment)
    assert not ParamValidator().validate(request, shape()).has_errors()
    assert breaches(request, shape()) == []


def test_the_check_of_patterns_and_limits_sees_what_is_wrong() -> None:
    wrong = {**request_for(), "TrainingJobName": "no_underscore", "RoleArn": "x", "Environment": {"a-b": "x" * 513}}
    assert len(breaches(wrong, shape())) == 5


def test_the_longest_names_make_a_job_name_of_at_most_63_characters() -> None:
    deployment = a_deployment(environment="e" * 12, job_roles={"t" * 20: "arn:aws:iam::123456789012:role/x"})
    spec = a_manifest()
    pins = pin(spec, deployment, bundle=BUNDLE, team="t" * 20)
    request = build_request(
        deployment=deployment,
        team="t" * 20,
        run="r" * 48,
        uid="u",
        manifest=spec,
        pins=pins,
        attempt_number=99_999,
        spec_hash="s",
    )
    assert breaches(request, shape()) == []


def test_the_same_inputs_give_the_same_request_and_another_attempt_another() -> None:
    assert request_for() == request_for()
    assert request_digest(request_for()) != request_digest(request_for(attempt=3))


def test_tags_come_last_and_name_run_uid_attempt_spec_and_the_digest_of_all_the_rest() -> None:
    request = request_for(deployment=a_deployment(tags={"owner": "ml", "holdfast:run": "forged"}))
    assert list(request)[-1] == "Tags"
    tags = {tag["Key"]: tag["Value"] for tag in request["Tags"]}
    assert tags == {
        "owner": "ml",
        "holdfast:environment": "test",
        "holdfast:team": "research",
        "holdfast:run": "research/tiny",
        "holdfast:uid": "0191-uid",
        "holdfast:attempt": "2",
        "holdfast:spec": spec_hash(a_manifest()),
        "holdfast:request": request_digest(request),
    }


def test_the_agent_is_told_what_it_needs_by_the_environment() -> None:
    request = request_for(a_manifest(checkpoint=Checkpoint(keep=5), generation=3, environment={"NCCL_DEBUG": "INFO"}))
    context = JobContext.from_env(request["Environment"])
    assert context.run == "research/tiny"
    assert context.job == request["TrainingJobName"]
    assert (context.attempt, context.checkpoint_keep) == (2, 5)
    assert context.lease_uri == f"s3://{BUCKET}/checkpoints/research/tiny/lease-g003.json"
    assert context.control_uri == f"s3://{BUCKET}/control/research/tiny.json"
    assert context.checkpoint_path == request["CheckpointConfig"]["LocalPath"]
    assert request["CheckpointConfig"]["S3Uri"] == f"s3://{BUCKET}/checkpoints/research/tiny/g003/"
    assert request["Environment"]["NCCL_DEBUG"] == "INFO"


def test_agent_and_code_are_whole_on_every_host_whatever_the_manifests_channels_are() -> None:
    channels = {channel["ChannelName"]: channel for channel in request_for(full_manifest())["InputDataConfig"]}
    assert list(channels) == ["agent", "code", "train"]
    for name, folder in (("agent", "agent/"), ("code", "code/tiny_gpt/")):
        source = channels[name]["DataSource"]["S3DataSource"]
        assert source["S3Uri"] == f"s3://{BUCKET}/templates/{BUNDLE}/{folder}"
        assert (channels[name]["InputMode"], source["S3DataDistributionType"]) == ("File", "FullyReplicated")
    assert channels["train"]["InputMode"] == "FastFile"
    assert channels["train"]["DataSource"]["S3DataSource"]["S3DataDistributionType"] == "ShardedByS3Key"


def test_a_teams_own_code_comes_from_its_pinned_copy() -> None:
    source = Source(archive=f"s3://{BUCKET}/data/research/code.tgz", entry_point="src/train.py")
    spec = a_manifest(source=source)
    pins = pin(spec, a_deployment(), bundle=BUNDLE, team="research", source_sha256="ef" * 32)
    request = request_for(spec, pins=pins)
    code = request["InputDataConfig"][1]["DataSource"]["S3DataSource"]["S3Uri"]
    assert code == f"s3://{BUCKET}/templates/team/research/sha256-{'ef' * 32}/"
    context = JobContext.from_env(request["Environment"])
    assert (context.entry_point, context.code_sha256) == ("src/train.py", "ef" * 32)


def test_a_source_without_its_digest_cannot_be_pinned() -> None:
    source = Source(archive=f"s3://{BUCKET}/data/research/code.tgz", entry_point="train.py")
    with pytest.raises(ValueError, match="digest"):
        pin(a_manifest(source=source), a_deployment(), bundle=BUNDLE, team="research")


def test_hyperparameters_are_text_and_the_manifests_win_over_the_templates() -> None:
    deployment = a_deployment(
        templates={"tiny_gpt": a_template(hyperparameters={"steps": 100, "lr": 0.1}, environment={"A": "1"})}
    )
    request = request_for(a_manifest(hyperparameters={"lr": 3e-4, "compile": False}), deployment=deployment)
    assert request["HyperParameters"] == {"steps": "100", "lr": "0.0003", "compile": "false"}
    assert request["Environment"]["A"] == "1"


def test_a_template_cannot_tell_the_agent_something_else() -> None:
    deployment = a_deployment(templates={"tiny_gpt": a_template(environment={"HOLDFAST_RUN": "vision/x"})})
    assert request_for(deployment=deployment)["Environment"]["HOLDFAST_RUN"] == "research/tiny"


def test_the_image_is_the_pinned_one_and_not_todays_catalogue() -> None:
    pins = pin(a_manifest(), a_deployment(), bundle=BUNDLE, team="research")
    moved = a_deployment(images={"pytorch-cpu": f"{REPOSITORY}:9.9"})
    assert request_for(pins=pins, deployment=moved)["AlgorithmSpecification"]["TrainingImage"].endswith(
        ":2.8.0-cpu-py312-ubuntu22.04-sagemaker"
    )


def test_the_longest_run_is_always_sent() -> None:
    assert request_for()["StoppingCondition"] == {"MaxRuntimeInSeconds": 432_000}
    pending = request_for(a_manifest(limits=Limits(max_pending_seconds=1_800)))
    assert pending["StoppingCondition"]["MaxPendingTimeInSeconds"] == 1_800


@pytest.mark.parametrize(
    ("instance_type", "sent"), [("ml.m5.xlarge", True), ("ml.p5.48xlarge", False), ("ml.g5.12xlarge", False)]
)
def test_the_volume_key_is_sent_only_where_sagemaker_takes_it(instance_type: str, sent: bool) -> None:
    deployment = a_deployment(volume_kms_key_arn="arn:aws:kms:us-east-1:123456789012:key/x")
    request = request_for(a_manifest(instance_type=instance_type), deployment=deployment)
    assert ("VolumeKmsKeyId" in request["ResourceConfig"]) is sent


def test_the_network_is_the_deployments_or_none() -> None:
    network = Network(subnets=("subnet-0a", "subnet-0b"), security_group_ids=("sg-0a",))
    assert request_for(deployment=a_deployment(network=network))["VpcConfig"] == {
        "SecurityGroupIds": ["sg-0a"],
        "Subnets": ["subnet-0a", "subnet-0b"],
    }
    assert "VpcConfig" not in request_for()


def test_each_metric_definition_reads_the_agents_own_line() -> None:
    line = "[holdfast/1] phase=step attempt=2 step=120 loss=2.41315 tokens_per_second=812.4"
    assert parse_heartbeat(line) is not None
    read = {}
    for definition in request_for()["AlgorithmSpecification"]["MetricDefinitions"]:
        if found := re.search(definition["Regex"], line):
            read[definition["Name"]] = found.group(1)
    assert read == {"holdfast:step": "120", "holdfast:loss": "2.41315", "holdfast:tokens_per_second": "812.4"}


def test_the_entry_point_starts_the_agent_with_the_images_python3(tmp_path: Path) -> None:
    _fake_python3(tmp_path / "bin")
    done = _start(tmp_path, path=str(tmp_path / "bin"))
    assert (done.returncode, done.stdout.strip()) == (0, f"started {tmp_path}/opt/ml/input/data/agent")


def test_an_image_without_python3_is_told_so_in_the_failure_file_and_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "opt/ml/output").mkdir(parents=True)
    done = _start(tmp_path, path=str(tmp_path / "nothing"))
    assert done.returncode == EXIT_BAD_LAUNCH
    assert "no python3" in (tmp_path / "opt/ml/output/failure").read_text()
    assert "no python3" in done.stderr


def _fake_python3(folder: Path) -> None:
    folder.mkdir()
    (folder / "python3").write_text('#!/bin/sh\necho "started $1"\n')
    (folder / "python3").chmod(0o755)


def _start(base: Path, *, path: str) -> subprocess.CompletedProcess[str]:
    """The entry point as sent, with /opt/ml below `base`."""
    command = [part.replace("/opt/ml", f"{base}/opt/ml") for part in ENTRYPOINT]
    return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False, timeout=20)


def test_names_of_types_tell_local_storage_and_acceleration() -> None:
    local = [
        "ml.p4d.24xlarge",
        "ml.p4de.24xlarge",
        "ml.p3dn.24xlarge",
        "ml.g4dn.xlarge",
        "ml.r5d.large",
        "ml.p6-b200.48xlarge",
        "ml.trn1.2xlarge",
    ]
    other = ["ml.m5.xlarge", "ml.c5n.18xlarge", "ml.p3.2xlarge", "ml.m7i-flex.large", "ml.r5.large", "ml.p2.xlarge"]
    assert all(map(has_local_storage, local))
    assert not any(map(has_local_storage, other))
    assert is_accelerated("ml.trn2.48xlarge")
    assert is_accelerated("ml.g6e.xlarge")
    assert not is_accelerated("ml.r5d.large")


def test_a_persons_own_script_gets_only_what_its_author_wrote() -> None:
    deployment = a_deployment(templates={"tiny_gpt": a_template(hyperparameters={"layers": 4}, environment={"A": "1"})})
    own = a_manifest(
        hyperparameters={"steps": 3},
        source=Source(archive=f"s3://{BUCKET}/data/research/code.tar.gz", entry_point="main.py"),
    )
    pins = pin(own, deployment, bundle=BUNDLE, team="research", source_sha256="ef" * 32)
    request = request_for(own, deployment=deployment, pins=pins)
    assert request["HyperParameters"] == {"steps": "3"}
    assert "A" not in request["Environment"]
    templates = request_for(a_manifest(hyperparameters={"steps": 3}), deployment=deployment)
    assert templates["HyperParameters"] == {"layers": "4", "steps": "3"}
    assert templates["Environment"]["A"] == "1"


def test_spot_is_sent_with_its_longest_wait_and_neither_without_it() -> None:
    plain = request_for(a_manifest())
    assert plain["EnableManagedSpotTraining"] is False
    assert "MaxWaitTimeInSeconds" not in plain["StoppingCondition"]
    resources = Resources(instance_type="ml.m5.xlarge", spot=True)
    spot = request_for(a_manifest().model_copy(update={"resources": resources}))
    assert spot["EnableManagedSpotTraining"] is True
    assert spot["StoppingCondition"] == {"MaxRuntimeInSeconds": 432_000, "MaxWaitTimeInSeconds": 518_400}
