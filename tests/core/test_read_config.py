"""An account's config and a template's description: every error at once, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.read_config import ConfigError, read_config, read_template

SOUND = """
environment: dev
account: "123456789012"
region: us-east-1
teams:
  research: {}
instance_types: [ml.m5.xlarge]
"""
CONFIGS = sorted((Path(__file__).parents[2] / "config").glob("*.yaml"))


def errors_of(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config(text, "config/dev.yaml")
    return str(caught.value)


def test_a_sound_config_is_read() -> None:
    assert read_config(SOUND).bucket == "holdfast-dev-123456789012-us-east-1"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_each_config_of_the_repository_is_read(path: Path) -> None:
    assert read_config(path.read_bytes()).teams


def test_every_error_is_reported_at_once_with_the_files_name() -> None:
    said = errors_of(
        SOUND.replace('"123456789012"', "123456789012").replace("dev", "my-dev") + "poll_seconds: 2m\nregin: x\n"
    )
    assert said.startswith("config/dev.yaml has 4 errors:")
    for words in (
        "environment (line 2): is 'my-dev'; 1 to 12 lower-case letters",
        "account (line 3): is 123456789012; write it as a string, in quotes",
        "poll_seconds (line 8): is '2m', with a unit; the field counts seconds: write 120",
        "regin (line 9): is not a field that exists here; did you mean `region`?",
    ):
        assert words in said


def test_a_team_with_an_impossible_name_is_refused_in_words() -> None:
    said = errors_of(SOUND.replace("research", "Research"))
    assert "teams.Research (line 6): is not a name that may stand here; a team is 1 to 20 lower-case letters" in said


def test_a_rule_over_several_fields_is_told_in_its_own_words() -> None:
    assert "EventBridge ticks at most once a minute" in errors_of(SOUND + "poll_seconds: 10\n")
    assert read_config(SOUND + "poll_seconds: 10\nkind: emulated\n").poll_seconds == 10


def test_broken_yaml_is_told_with_its_place() -> None:
    assert "not YAML" in errors_of("a: [")


def test_a_template_is_read_and_has_to_bear_its_folders_name() -> None:
    text = "name: tiny\ndescription: A model.\nentry_point: train.py\nhyperparameters: {lr: 1e-3}\n"
    assert read_template(text, "tiny").hyperparameters == {"lr": 1e-3}
    with pytest.raises(
        ConfigError, match=r"job_templates/other/job.yaml has 1 error:\n  name: is 'tiny'; the folder's name, other"
    ):
        read_template(text, "other")


def test_more_tags_than_a_training_job_can_bear_are_refused() -> None:
    tags = "tags:\n" + "".join(f"  t{index}: x\n" for index in range(40))
    assert len(read_config(SOUND + tags).tags) == 40
    assert "tags (line 9): has 41 entries; at most 40 entries" in errors_of(SOUND + tags + "  more: x\n")
