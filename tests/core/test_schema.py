"""What is generated from the models is current, and names every field."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.config import AccountConfig
from holdfast.core.manifest import Manifest
from holdfast.core.schema import generated_files, manifest_schema, render_config_reference, render_reference

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("path", "text"), generated_files().items(), ids=generated_files())
def test_the_generated_file_is_current(path: str, text: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == text, (
        "out of date; write it anew with: .venv/bin/holdfast schema"
    )


def test_the_schema_refuses_unknown_fields_everywhere() -> None:
    schema = manifest_schema()
    parts = [schema, *schema["$defs"].values()]
    assert all(part["additionalProperties"] is False for part in parts)


def test_the_reference_names_every_field() -> None:
    reference = render_reference()
    assert all(f"| `{name}` |" in reference for name in Manifest.model_fields)
    for part in manifest_schema()["$defs"].values():
        assert all(f"| `{name}` |" in reference for name in part["properties"])


def test_the_configs_reference_names_every_field_with_its_meaning() -> None:
    reference = render_config_reference()
    schema = AccountConfig.model_json_schema()
    for part in (schema, *schema["$defs"].values()):
        for name in part["properties"]:
            row = next(line for line in reference.splitlines() if line.startswith(f"| `{name}` |"))
            assert not row.endswith("|  |"), f"{name} has no meaning"


@pytest.mark.parametrize("page", [render_reference(), render_config_reference()], ids=["manifest", "config"])
def test_an_angle_bracket_is_escaped_outside_of_code_and_nowhere_else(page: str) -> None:
    tables = "\n".join(line for line in page.splitlines() if line.startswith("|"))
    outside, inside = tables.split("`")[::2], tables.split("`")[1::2]
    assert not any("<" in part for part in outside)
    assert not any("&lt;" in part for part in inside)


def test_the_brackets_that_the_test_above_speaks_of_are_there() -> None:
    assert "`data/<team>/`" in render_reference()
    assert "/opt/ml/input/data/&lt;channel>" in render_reference()
