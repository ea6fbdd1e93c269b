"""What this deployment refuses of a well-formed manifest; beside each refusal, the twin that is accepted."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.deployment import Deployment
from holdfast.core.field_errors import FieldError
from holdfast.core.manifest import Checkpoint, DataChannel, Limits, Resources, Source
from holdfast.core.manifest_checks import advise, check_manifest
from tests.builders import BUCKET, REPOSITORY, a_deployment, a_manifest, a_template

HOME = f"s3://{BUCKET}/data/research/"


def errors_of(
    *, team: str = "research", run: str = "tiny", deployment: Deployment | None = None, **fields: Any
) -> dict[str, str]:
    found = check_manifest(a_manifest(**fields), team=team, run=run, deployment=deployment or a_deployment())
    return {error.field: f"{error.wrong}; {error.right}" for error in found}


def a_channel(s3: str = f"{HOME}x/", channel: str = "train", **fields: Any) -> DataChannel:
    return DataChannel(channel=channel, s3=s3, **fields)


def test_a_sound_manifest_has_no_errors() -> None:
    assert errors_of() == {}


def test_a_team_that_the_deployment_does_not_have_is_refused() -> None:
    assert "research, vision" in errors_of(team="reserch")[""]


def test_an_unknown_template_is_answered_with_the_near_one_and_the_list() -> None:
    deployment = a_deployment(templates={"tiny_gpt": a_template(), "llama": a_template("llama")})
    assert errors_of(template="tinygpt", deployment=deployment)["template"].endswith(
        "did you mean tiny_gpt? one of: llama, tiny_gpt"
    )


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("pytorch-cp", "did you mean pytorch-cpu?"),
        ("docker.io/library/python:3.12", "neither"),
        (REPOSITORY, "neither tag nor digest"),
        (f"{REPOSITORY}-evil:1", "not a repository that this deployment lists"),
        (REPOSITORY.replace("763104351884", "111122223333") + ":1", "not a repository that this deployment lists"),
        (f"{REPOSITORY}:1 --privileged", "neither"),
        (f"{REPOSITORY}@sha256:abc", "neither"),
    ],
)
def test_an_image_outside_the_catalogue_and_the_listed_repositories_is_refused(image: str, said: str) -> None:
    assert said in errors_of(image=image)["image"]


@pytest.mark.parametrize("image", ["pytorch-cpu", f"{REPOSITORY}:2.8.0", f"{REPOSITORY}@sha256:{'a' * 64}"])
def test_an_image_of_the_catalogue_or_of_a_listed_repository_is_accepted(image: str) -> None:
    assert errors_of(image=image) == {}


def test_an_instance_type_and_a_count_that_the_config_does_not_allow_are_refused() -> None:
    found = errors_of(instance_type="ml.m5.large", instance_count=5)
    assert "did you mean ml.m5.xlarge?" in found["resources.instance_type"]
    assert "at most 4" in found["resources.instance_count"]
    assert errors_of(instance_type="ml.p5.48xlarge", instance_count=4) == {}


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("s3://other-bucket/data/research/x/", "bucket 'other-bucket'"),
        (f"s3://{BUCKET}/data/vision/x/", "another team, data/vision/"),
        (f"s3://{BUCKET}/data/research2/x/", "another team, data/research2/"),
        (f"s3://{BUCKET}/data/research", "with its slash"),
        (f"s3://{BUCKET}/data/research/../vision/", ".. in its path"),
        (f"s3://{BUCKET}/data//research/x/", "empty part"),
        (f"s3://{BUCKET}/data/research/x//", "empty part"),
        (f"s3://{BUCKET}/data/./research/x", ". or .."),
        (f"s3://{BUCKET}/checkpoints/research/x/", "below checkpoints/"),
        (f"s3://{BUCKET}/templates/", "below templates/"),
        (f"s3://{BUCKET}/" + "data/research/" + "x" * 1100, "at most 1,024"),
    ],
)
def test_an_address_outside_the_teams_own_data_is_refused(address: str, said: str) -> None:
    assert said in errors_of(data=(a_channel(address),))["data[0].s3"]
    archive = f"{address.rstrip('/')}/code.tar.gz"
    if address.count("//") == 1 and "with its slash" not in said:
        assert said in errors_of(source=Source(archive=archive, entry_point="train.py"))["source.archive"]


@pytest.mark.parametrize("address", [HOME, f"{HOME}corpus", f"{HOME}corpus/", f"{HOME}a/b/c.parquet", f"{HOME}..x/"])
def test_an_address_below_the_teams_own_data_is_accepted(address: str) -> None:
    assert errors_of(data=(a_channel(address),)) == {}


def test_an_entry_point_that_leads_out_of_the_tarball_is_refused() -> None:
    archive = f"{HOME}code.tar.gz"
    assert "source.entry_point" in errors_of(source=Source(archive=archive, entry_point="a/../../x.py"))
    assert errors_of(source=Source(archive=archive, entry_point="a/train.py")) == {}


def test_channels_with_reserved_or_equal_names_are_refused() -> None:
    found = errors_of(data=(a_channel(channel="agent"), a_channel(), a_channel(), a_channel(channel="code")))
    assert sorted(found) == [f"data[{index}].channel" for index in range(4)]
    assert errors_of(data=(a_channel(), a_channel(channel="valid"))) == {}


@pytest.mark.parametrize(
    "folder", ["/opt/ml/model", "/opt/ml/model/ckpt", "/opt/ml/input/data", "/opt/ml/x/../model", "/opt/ml/a//b"]
)
def test_a_checkpoint_folder_that_sagemaker_uses_is_refused(folder: str) -> None:
    assert "checkpoint.local_path" in errors_of(checkpoint=Checkpoint(local_path=folder))


@pytest.mark.parametrize("folder", ["/opt/ml/checkpoints", "/opt/ml/checkpoints/", "/opt/ml/models"])
def test_a_checkpoint_folder_of_its_own_is_accepted(folder: str) -> None:
    assert errors_of(checkpoint=Checkpoint(local_path=folder)) == {}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("lr", "a\nb", "line break"),
        ("lr", "a\u2028b", "line break"),
        ("lr", "x" * 2_501, "at most 2,500"),
        ("x" * 257, 1, "at most 256"),
        ("--lr", 1, "as in --name"),
        ("a b", 1, "as in --name"),
        ("", 1, "as in --name"),
        ("sagemaker_program", "x.py", "toolkit"),
    ],
)
def test_a_hyperparameter_that_the_api_would_refuse_is_refused(name: str, value: object, said: str) -> None:
    found = errors_of(hyperparameters={name: value})
    assert said in found[f"hyperparameters.{name[:80]}"]


def test_hyperparameters_at_the_limits_are_accepted() -> None:
    assert errors_of(hyperparameters={"x" * 256: "y" * 2_500, "lr": 3e-4, "a.b-c": True}) == {}


def test_hyperparameters_are_counted_with_the_templates() -> None:
    deployment = a_deployment(templates={"tiny_gpt": a_template(hyperparameters={"steps": 1, "lr": 2})})
    many = {f"h{index}": index for index in range(98)}
    assert errors_of(deployment=deployment, hyperparameters=many) == {}
    assert "at most 100" in errors_of(deployment=deployment, hyperparameters={**many, "one": 1})["hyperparameters"]
    assert errors_of(deployment=deployment, hyperparameters={**many, "steps": 9}) == {}


@pytest.mark.parametrize(
    "name",
    [
        "HOLDFAST_RUN",
        "SAGEMAKER_BASE_DIR",
        "AWS_PROFILE",
        "aws_profile",
        "SM_HOSTS",
        "MASTER_ADDR",
        "RANK",
        "1X",
        "A-B",
        "",
    ],
)
def test_a_reserved_or_impossible_variable_is_refused(name: str) -> None:
    assert f"environment.{name}" in errors_of(environment={name: "x"})


def test_variables_at_the_limits_are_accepted_and_beyond_them_refused() -> None:
    assert errors_of(environment={"NCCL_DEBUG": "x" * 512, "_x": "a\nb", "AWESOME": "1"}) == {}
    assert "at most 512" in errors_of(environment={"NCCL_DEBUG": "x" * 513})["environment.NCCL_DEBUG"]


def test_variables_are_counted_with_ours() -> None:
    ours = 14
    assert errors_of(environment={f"E{index}": "x" for index in range(100 - ours)}) == {}
    assert (
        f"at most {100 - ours} here"
        in errors_of(environment={f"E{index}": "x" for index in range(101 - ours)})["environment"]
    )


def test_a_manifest_that_would_not_fit_its_record_is_refused() -> None:
    assert "at most 100,000" in errors_of(hyperparameters={f"h{index}": "x" * 2_400 for index in range(50)})[""]
    assert errors_of(hyperparameters={f"h{index}": "x" * 2_400 for index in range(30)}) == {}


def test_what_is_allowed_and_may_surprise_is_said() -> None:
    said = " ".join(
        advise(
            a_manifest(
                limits=Limits(max_pending_seconds=3_600),
                data=(a_channel(mode="FastFile"), a_channel(mode="Pipe", channel="p")),
                environment={"NCCL_PROTO": "simple"},
            ),
            a_deployment(),
        )
    )
    for words in (
        "max_pending_seconds has no effect on ml.m5.xlarge",
        "FastFile",
        "FIFO",
        "NCCL_PROTO",
        "stall_after_seconds",
    ):
        assert words in said


def test_a_pending_limit_on_an_accelerated_type_needs_no_advice() -> None:
    manifest = a_manifest(instance_type="ml.p5.48xlarge", limits=Limits(max_pending_seconds=3_600))
    said = " ".join(advise(manifest, a_deployment()))
    assert "max_pending_seconds" not in said


def test_a_hyperparameter_that_the_template_does_not_know_is_accepted_with_a_word() -> None:
    deployment = a_deployment(templates={"tiny_gpt": a_template(hyperparameters={"learning_rate": 0.1})})
    manifest = a_manifest(hyperparameters={"lerning_rate": 0.2})
    assert check_manifest(manifest, team="research", run="tiny", deployment=deployment) == ()
    assert "did you mean learning_rate?" in " ".join(advise(manifest, deployment))
    known = a_manifest(hyperparameters={"learning_rate": 0.2})
    assert "learning_rate" not in " ".join(advise(known, deployment))


def test_a_longest_wait_is_for_spot_alone_and_not_below_the_longest_run() -> None:
    field = "limits.max_wait_seconds"
    spot = Resources(instance_type="ml.m5.xlarge", spot=True)
    plain = Resources(instance_type="ml.m5.xlarge")

    def found(resources: Resources, wait: int) -> tuple[FieldError, ...]:
        manifest = a_manifest(limits=Limits(max_run_seconds=600, max_wait_seconds=wait))
        manifest = manifest.model_copy(update={"resources": resources})
        return check_manifest(manifest, team="research", run="tiny", deployment=a_deployment())

    assert [error.field for error in found(plain, 900)] == [field]
    assert [error.field for error in found(spot, 599)] == [field]
    assert found(spot, 600) == ()
