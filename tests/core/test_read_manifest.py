"""A manifest from a stranger: accepted, or refused with every error at once, in plain words."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.config import AccountConfig
from holdfast.core.field_errors import pattern_words
from holdfast.core.manifest import Manifest
from holdfast.core.read_manifest import ManifestErrors, read_manifest
from tests.builders import BUCKET, a_deployment

SOUND = """
apiVersion: holdfast/v1
kind: TrainingRun
template: tiny_gpt
image: pytorch-cpu
resources:
  instance_type: ml.m5.xlarge
"""


def read(text: str | bytes, *, run: str = "tiny") -> Manifest | ManifestErrors:
    encoded = text.encode() if isinstance(text, str) else text
    return read_manifest(encoded, team="research", run=run, deployment=a_deployment())


def errors_of(text: str | bytes) -> dict[str, str]:
    """Field to the whole sentence."""
    found = read(text)
    assert isinstance(found, ManifestErrors), "accepted"
    return {error.field: str(error) for error in found.errors}


def accepted(text: str | bytes) -> Manifest:
    found = read(text)
    assert isinstance(found, Manifest), found
    return found


def test_the_smallest_manifest_is_accepted_with_its_defaults() -> None:
    manifest = accepted(SOUND)
    assert (manifest.resources.instance_count, manifest.generation, manifest.state) == (1, 1, "running")


def test_json_is_accepted_as_yaml_is() -> None:
    document = accepted(SOUND).model_dump(mode="json")
    assert accepted(json.dumps(document)) == accepted(SOUND)


def test_no_is_text_where_text_is_wanted() -> None:
    manifest = accepted(SOUND + "environment: {FLAG: no}\nhyperparameters: {country: NO, lr: 1e-4, deep: true}\n")
    assert manifest.environment == {"FLAG": "no"}
    assert manifest.hyperparameters == {"country": "NO", "lr": 1e-4, "deep": True}


def test_every_error_is_reported_at_once_those_of_shape_and_those_against_the_deployment() -> None:
    found = errors_of(
        SOUND.replace("tiny_gpt", "tiny-gpt")
        + "  instance_count: two\ndata:\n  - channel: agent\n  - {channel: a, s3: 's3://elsewhere/x/'}\n  - 7\n"
        + "limits: {max_run_seconds: 4h}\nhyperparams: {}\nhyperparameters: {bad: [1]}\nenvironment: {AWS_REGION: x}\n"
    )
    assert set(found) == {
        "template",
        "resources.instance_count",
        "data[0].s3",
        "data[0].channel",
        "data[1].s3",
        "data[2]",
        "limits.max_run_seconds",
        "hyperparams",
        "hyperparameters.bad",
        "environment.AWS_REGION",
    }


def test_a_wrong_required_section_does_not_hide_the_errors_of_the_others() -> None:
    found = errors_of(SOUND.replace("pytorch-cpu", "pytorch-gpu") + "source: {}\n".replace("{}", "{archive: 3}"))
    assert set(found) == {"image", "source.archive", "source.entry_point"}


def test_no_placeholder_of_the_repair_shows_in_an_error() -> None:
    found = read("resources: 3\nsource: {}\ndata: [{}, 7]\n")
    assert isinstance(found, ManifestErrors)
    assert "placeholder" not in " ".join(found.words())


def test_errors_come_in_the_order_of_the_file_with_their_lines() -> None:
    found = read(SOUND.replace("tiny_gpt", "other") + "generation: 0\n")
    assert isinstance(found, ManifestErrors)
    assert [(error.field, error.line) for error in found.errors] == [("template", 4), ("generation", 8)]


@pytest.mark.parametrize(
    ("field", "value", "right"),
    [
        ("limits.max_run_seconds", "4h", "write 14400"),
        ("limits.max_run_seconds", "2h30m", "write 9000"),
        ("limits.max_run_seconds", "1.5 days", "write 129600"),
        ("limits.max_run_seconds", "04:00:00", "write 14400"),
        ("limits.max_run_seconds", "90min", "write 5400"),
        ("limits.max_run_seconds", "'14400'", "write 14400 without quotes"),
        ("resources.volume_size_gb", "50GB", "write 50"),
        ("resources.volume_size_gb", "1 TiB", "write 1024"),
        ("resources.volume_size_gb", "1500MB", "write 2"),
    ],
)
def test_a_value_with_a_unit_is_answered_with_the_number_to_write(field: str, value: str, right: str) -> None:
    section, _, name = field.partition(".")
    text = SOUND + (f"  {name}: {value}\n" if section == "resources" else f"{section}: {{{name}: {value}}}\n")
    assert errors_of(text)[field].endswith(right)


def test_the_number_that_the_unit_stood_for_is_accepted() -> None:
    assert accepted(SOUND + "limits: {max_run_seconds: 14400}\n").limits.max_run_seconds == 14_400


@pytest.mark.parametrize(
    ("line", "field", "right"),
    [
        ("genration: 2", "genration", "did you mean `generation`?"),
        ("hyperParameters: {}", "hyperParameters", "did you mean `hyperparameters`?"),
        ("limits: {max_run: 3}", "limits.max_run", "did you mean `max_run_seconds`?"),
        ("nodes: 2", "nodes", "did you mean `resources.instance_count`?"),
        ("env: {A: b}", "env", "did you mean `environment`?"),
        ("instance_type: ml.m5.xlarge", "instance_type", "it belongs at `resources.instance_type`"),
        ("role: arn:aws:iam::1:role/x", "role", "a manifest cannot"),
        ("vpc_config: {}", "vpc_config", "a manifest cannot"),
        ("team: vision", "team", "the team is the name of the folder"),
        ("xyzzy: 1", "xyzzy", "fields here: apiVersion"),
    ],
)
def test_an_unknown_field_is_answered_with_the_right_one(line: str, field: str, right: str) -> None:
    assert right in errors_of(SOUND + line)[field]


@pytest.mark.parametrize("name", ["instances", "num_instances", "nodes", "hosts", "count"])
def test_the_number_of_hosts_is_found_under_its_other_names_and_not_taken_for_their_type(name: str) -> None:
    found = errors_of(SOUND.rstrip("\n") + f"\n  {name}: 2\n")
    assert found[f"resources.{name}"].endswith("did you mean `resources.instance_count`?")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("generation: true", "whole number"),
        ("generation: 1.0", "whole number"),
        ("generation: '2'", "write 2 without quotes"),
    ],
)
def test_nothing_but_a_whole_number_counts_as_one(text: str, right: str) -> None:
    assert right in errors_of(SOUND + text)["generation"]
    assert accepted(SOUND + "generation: 2").generation == 2


def test_a_choice_misspelt_is_answered_with_the_near_one() -> None:
    assert "did you mean 'shadow'?" in errors_of(SOUND + "watch: {mode: Shadow}")["watch.mode"]


def test_a_number_in_the_environment_is_answered_with_quotes() -> None:
    assert "in quotes" in errors_of(SOUND + "environment: {N: 1}")["environment.N"]
    assert accepted(SOUND + "environment: {N: '1'}").environment == {"N": "1"}


def test_a_name_that_is_not_the_files_is_refused_and_the_same_one_is_accepted() -> None:
    assert errors_of(SOUND + "name: other")["name"].endswith("write tiny, or leave name out")
    assert accepted(SOUND + "name: tiny").name == "tiny"


def test_a_name_that_sagemaker_would_refuse_is_refused_in_words() -> None:
    assert "lower-case letters" in errors_of(SOUND + "name: My_Run")["name"]


@pytest.mark.parametrize("text", ["- a\n- b\n", "just words", "42", "null"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    assert "not a mapping" in errors_of(text)[""]


def test_a_problem_of_the_text_stands_beside_the_others() -> None:
    found = errors_of(SOUND + "generation: &x 0\nstate: *x\nimage: other\n")
    assert set(found) == {"generation", "state", "image"}


def test_a_thousand_errors_are_cut_and_take_no_time() -> None:
    before = time.perf_counter()
    found = read(SOUND + "\n".join(f"zz{n}: 1" for n in range(9_000)))
    assert isinstance(found, ManifestErrors)
    assert len(found.errors) < 150
    assert "more than 100 errors" in " ".join(found.words())
    assert time.perf_counter() - before < 10


def test_each_pattern_of_manifest_and_config_is_explained_in_words() -> None:
    missing = [
        name
        for model in (Manifest, AccountConfig)
        for name in _patterned(model.model_json_schema())
        if not pattern_words(name)
    ]
    assert missing == []


def _patterned(schema: dict[str, Any]) -> list[str]:
    found: list[str] = []
    for part in (schema, *schema.get("$defs", {}).values()):
        for name, field in part.get("properties", {}).items():
            branches = [field, *field.get("anyOf", [])]
            found.extend(name for branch in branches if "pattern" in branch)
            # Names that are listed one by one (`enum`) are told as such and need no words.
            found.extend(
                f"{name}.*"
                for branch in branches
                if "patternProperties" in branch or "pattern" in branch.get("propertyNames", {})
            )
    assert len(found) > 3
    return found


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_fields = st.sampled_from(
    ["name", "source", "resources", "data", "checkpoint", "hyperparameters", "notify", "limits", "image"]
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(_fields, _json, max_size=4))
def test_any_values_in_the_fields_are_accepted_or_refused_and_never_raise(fields: dict[str, Any]) -> None:
    sound = accepted(SOUND).model_dump(mode="json", exclude={"name", "source"})
    found = read(json.dumps({**sound, **fields}))
    assert isinstance(found, Manifest) or all(error.wrong and error.right for error in found.errors)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=100) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_never_raise(tail: bytes) -> None:
    for text in (tail, SOUND.encode() + tail):
        found = read(text)
        assert isinstance(found, Manifest) or found.errors


def test_another_teams_prefix_is_refused_by_name_and_the_own_one_is_accepted() -> None:
    other = errors_of(SOUND + f"data: [{{channel: train, s3: 's3://{BUCKET}/data/vision/x/'}}]")
    assert "another team, data/vision/" in other["data[0].s3"]
    assert accepted(SOUND + f"data: [{{channel: train, s3: 's3://{BUCKET}/data/research/x/'}}]").data
