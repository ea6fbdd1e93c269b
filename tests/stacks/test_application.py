from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.read_config import ConfigError
from stacks.application import ContextError, config_of_context
from tests.stacks.synthesis import ROOT


def test_a_config_in_the_repository_is_read() -> None:
    assert config_of_context("config/example.yaml", ROOT).environment == "dev"


@pytest.mark.parametrize("value", [None, "", 7, {"config": "x"}])
def test_a_synth_that_does_not_say_which_account_is_told_which_there_are(value: object) -> None:
    with pytest.raises(ContextError, match=r"-c config=config/<account>\.yaml .*config/sandbox\.yaml"):
        config_of_context(value, ROOT)


def test_a_config_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ContextError, match=r"config/prod\.yaml: there is no such file .*config/example\.yaml"):
        config_of_context("config/prod.yaml", ROOT)


def test_every_error_of_a_config_is_told_at_once_with_its_field(tmp_path: Path) -> None:
    sound = (ROOT / "config/example.yaml").read_text()
    bad = sound.replace("environment: dev", "environment: Dev-EU").replace("region: us-east-1", "region: mars")
    (tmp_path / "bad.yaml").write_text(bad + "instance_typos: []\n")
    with pytest.raises(ConfigError) as refused:
        config_of_context("bad.yaml", tmp_path)
    words = str(refused.value)
    assert words.startswith("bad.yaml has 3 errors:")
    for field in ("environment", "region", "instance_typos"):
        assert f"\n  {field}" in words
