"""The manifest's JSON Schema and its reference page, both generated from the model so that they cannot fall behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from holdfast.core.manifest import Manifest

SCHEMA_PATH = "job_templates/manifest.schema.json"
REFERENCE_PATH = "docs/manifest.md"


def manifest_schema() -> dict[str, Any]:
    schema = Manifest.model_json_schema(mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Holdfast training run",
        "required": schema["required"],
    }


def render_schema() -> str:
    """The text of job_templates/manifest.schema.json."""
    return json.dumps(manifest_schema(), indent=2, sort_keys=True) + "\n"


def render_reference() -> str:
    """The text of docs/manifest.md."""
    schema = manifest_schema()
    lines = [_HEAD]
    for title, definition in _sections(schema):
        lines.append(f"## {title}\n")
        lines.append(" ".join(definition.get("description", "").split()) + "\n")
        lines.append("| Field | Type | Default | Meaning |\n|---|---|---|---|")
        required = definition.get("required", [])
        lines.extend(_row(name, field, name in required, schema) for name, field in definition["properties"].items())
        lines.append("")
    return "\n".join([*lines, _TAIL])


def _sections(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "The manifest", schema
    for name, field in schema["properties"].items():
        for target in _references(field):
            yield f"`{name}`", schema["$defs"][target]


def _references(field: dict[str, Any]) -> list[str]:
    branches = [field, field.get("items", {}), *field.get("anyOf", [])]
    return [branch["$ref"].rpartition("/")[2] for branch in branches if "$ref" in branch]


def _row(name: str, field: dict[str, Any], required: bool, schema: dict[str, Any]) -> str:
    default = "required" if required else _default(field)
    meaning = " ".join(field.get("description", "").split()) or _section_meaning(field, schema)
    return f"| `{name}` | {_type(field)} | {default} | {meaning.replace('<', '&lt;')} |"


def _section_meaning(field: dict[str, Any], schema: dict[str, Any]) -> str:
    targets = _references(field)
    return " ".join(schema["$defs"][targets[0]].get("description", "").split()) if targets else ""


def _default(field: dict[str, Any]) -> str:
    value = field.get("default")
    if _references(field) and value not in (None, []):
        return "see below"
    if value is None:
        return "none"
    return ", ".join(value) or "none" if isinstance(value, list) else f"`{json.dumps(value)}`"


def _type(field: dict[str, Any]) -> str:
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{choice}`" for choice in field["enum"])
    branches = [branch for branch in field.get("anyOf", []) if branch.get("type") != "null"]
    if len(branches) == 1:
        return _type(branches[0])
    if branches:
        return " or ".join(_type(branch) for branch in branches)
    if "$ref" in field:
        return "section"
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}".replace("list of section", "list of sections")
    if field.get("type") == "object":
        return "mapping of names to values"
    low, high = field.get("minimum"), field.get("maximum")
    return f"{field.get('type', 'value')}" + (f", {low:,} to {high:,}" if low is not None and high is not None else "")


_HEAD = """# The manifest

Generated from `holdfast/core/manifest.py`; do not edit it here. `job_templates/manifest.schema.json` is the same as a
JSON Schema, for completion in an editor.

A manifest is a YAML or JSON file at `manifests/<team>/<run>.yaml` (or `.yml`, `.json`) in the deployment's bucket. The
folder is the team and the file's name the run; neither can be chosen in the body. Try one without AWS:

    holdfast validate manifests/research/my-run.yaml --config config/sandbox.yaml
    holdfast request manifests/research/my-run.yaml --config config/sandbox.yaml

The text is read by JSON's rules: `no`, `on`, `12:30` and `2026-01-31` are strings, `true`, `false` and `null` are what
they are in JSON. Anchors, aliases, tags, a second document and a name given twice are refused, as are files of more
than 256 KiB. Fields that count seconds or gigabytes end in `_seconds` and `_gb` and take plain numbers.
"""

_TAIL = """## What happens when it is dropped again

- The same content again changes nothing.
- While the run is active or stopped, a changed manifest replaces the one before. `watch`, `notify`, `state`,
  `limits.max_restarts` and `limits.backoff_seconds` are applied at the next look; everything else is part of the
  training job and is applied at the next attempt. The run's status says which is which, field by field.
- `state: stopped` ends the run and keeps its checkpoints; `state: running` afterwards resumes it from the last sealed
  one, in the same generation.
- A run that succeeded or failed runs again only when `generation` rises, from nothing; attempt numbers go on.
- Image, code and agent are pinned when the run is registered: a moved catalogue entry, an overwritten tarball or an
  upgrade of Holdfast changes nothing until the field that names it changes, or a new generation begins.
- A manifest that is refused changes nothing. Its errors are in `status/<team>/<run>.json`, all of them at once, each
  with its field, what is wrong and what would be right.
- Deleting the file does nothing to the run.
"""
