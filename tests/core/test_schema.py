"""What is generated from the manifest's model is current."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.manifest import Manifest
from holdfast.core.schema import REFERENCE_PATH, SCHEMA_PATH, manifest_schema, render_reference, render_schema

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("path", "text"), [(SCHEMA_PATH, render_schema()), (REFERENCE_PATH, render_reference())])
def test_the_generated_file_is_current(path: str, text: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == text, "out of date; write it anew with: holdfast schema"


def test_the_schema_refuses_unknown_fields_everywhere() -> None:
    schema = manifest_schema()
    parts = [schema, *schema["$defs"].values()]
    assert all(part["additionalProperties"] is False for part in parts)


def test_the_reference_names_every_field() -> None:
    reference = render_reference()
    assert all(f"| `{name}` |" in reference for name in Manifest.model_fields)
    for part in manifest_schema()["$defs"].values():
        assert all(f"| `{name}` |" in reference for name in part["properties"])
