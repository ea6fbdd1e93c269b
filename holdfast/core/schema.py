"""The manifest's JSON Schema, its reference page and the config's: generated from the models, so never behind them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from holdfast.core.config import AccountConfig
from holdfast.core.manifest import Manifest

SCHEMA_PATH = "job_templates/manifest.schema.json"
REFERENCE_PATH = "docs/manifest.md"
CONFIG_REFERENCE_PATH = "docs/config.md"


def generated_files() -> dict[str, str]:
    """Path below the source tree to text."""
    return {
        SCHEMA_PATH: render_schema(),
        REFERENCE_PATH: render_reference(),
        CONFIG_REFERENCE_PATH: render_config_reference(),
    }


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
    return _page(_MANIFEST_HEAD, "The manifest", manifest_schema(), _MANIFEST_TAIL)


def render_config_reference() -> str:
    """The text of docs/config.md."""
    return _page(_CONFIG_HEAD, "The config", AccountConfig.model_json_schema(mode="validation"), _CONFIG_TAIL)


def _page(head: str, title: str, schema: dict[str, Any], tail: str) -> str:
    lines = [head]
    for heading, definition in _sections(title, schema):
        lines.append(f"## {heading}\n")
        lines.append(_prose(definition.get("description", "")) + "\n")
        lines.append("| Field | Type | Default | Meaning |\n|---|---|---|---|")
        required = definition.get("required", [])
        lines.extend(_row(name, field, name in required, schema) for name, field in definition["properties"].items())
        lines.append("")
    return "\n".join([*lines, tail])


def _sections(title: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield title, schema
    yield from _sections_below("", schema, schema["$defs"])


def _sections_below(
    above: str, section: dict[str, Any], defined: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, field in section["properties"].items():
        for target in _references(field):
            path = f"{above}{name}" if field.get("type") != "object" else f"{above}{name}.<name>"
            yield f"`{path}`", defined[target]
            yield from _sections_below(f"{path}.", defined[target], defined)


def _prose(text: str) -> str:
    """One line of Markdown. A `<` outside of a code span would begin an HTML tag; inside one it is shown as it is."""
    parts = " ".join(text.split()).split("`")
    return "`".join(part if index % 2 else part.replace("<", "&lt;") for index, part in enumerate(parts))


def _references(field: dict[str, Any]) -> list[str]:
    named = (*field.get("patternProperties", {}).values(), field.get("additionalProperties", {}))
    branches = [field, field.get("items", {}), *field.get("anyOf", []), *(one for one in named if one)]
    return [branch["$ref"].rpartition("/")[2] for branch in branches if "$ref" in branch]


def _row(name: str, field: dict[str, Any], required: bool, schema: dict[str, Any]) -> str:
    default = "required" if required else _default(field)
    meaning = field.get("description", "") or _section_meaning(field, schema)
    return f"| `{name}` | {_type(field)} | {default} | {_prose(meaning)} |"


def _section_meaning(field: dict[str, Any], schema: dict[str, Any]) -> str:
    targets = _references(field)
    return str(schema["$defs"][targets[0]].get("description", "")) if targets else ""


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
        kind = _type(field["items"])
        return f"list of {kind}s" if kind in ("section", "string") else f"list of {kind}"
    if field.get("type") == "object":
        return f"mapping of names to {'sections' if _references(field) else 'values'}"
    return str(field.get("type", "value")) + _bounds(field.get("minimum"), field.get("maximum"))


def _bounds(low: int | None, high: int | None) -> str:
    if low is None:
        return ""
    return f", at least {low:,}" if high is None else f", {low:,} to {high:,}"


_MANIFEST_HEAD = """# The manifest

Generated from `holdfast/core/manifest.py`; do not edit it here. `job_templates/manifest.schema.json` is the same as a
JSON Schema, for completion in an editor.

A manifest is a YAML or JSON file at `manifests/<team>/<run>.yaml` (or `.yml`, `.json`) in the deployment's bucket. The
folder is the team and the file's name the run; neither can be chosen in the body. Try one without AWS:

    .venv/bin/holdfast validate job_templates/tiny_gpt/manifest.example.yaml --team research --run tiny
    .venv/bin/holdfast request job_templates/tiny_gpt/manifest.example.yaml --team research --run tiny

Both judge by `config/sandbox.yaml`, or by another account's with `--config config/<account>.yaml`. How to train with
one's own script: [your-own-code.md](your-own-code.md).

The text is read by JSON's rules: `no`, `on`, `12:30` and `2026-01-31` are strings, `true`, `false` and `null` are what
they are in JSON. Anchors, aliases, tags, a second document and a name given twice are refused, as are files of more
than 256 KiB. Fields that count seconds or gigabytes end in `_seconds` and `_gb` and take plain numbers.
"""

_MANIFEST_TAIL = """## What happens when it is dropped again

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

_CONFIG_HEAD = """# The config

Generated from `holdfast/core/config.py`; do not edit it here.

`config/<account>.yaml` describes one deployment: the stacks are synthesized from it, and `holdfast validate` and
`holdfast request` judge by it (`--config`). Copy `config/example.yaml`, change it, and look at the templates before
anything is deployed:

    make synth ACCOUNT=<account>

It is read by the rules of [manifest.md](manifest.md): every error at once, each with its line.
"""

_CONFIG_TAIL = """## What has to be changed together

- `account` and `region`, for another account or Region: they are part of the bucket's name, so the `s3://` addresses in
  manifests change with them.
- `region` and every address in `images` and `repositories`: a job pulls from its own Region, and AWS's registry has
  another account in some Regions (763104351884 in most).
- `environment`, for a second deployment beside the first. A changed one is a new deployment, with an empty bucket.

## What a change does

- It takes effect with `make deploy ACCOUNT=<account>`. Runs that are registered keep the deployment that they were
  pinned to, image and code included; see [manifest.md](manifest.md).
- A new address in `notify_emails` gets an e-mail from SNS, and notices only once its owner has followed the link in it.
- A higher count in `quotas` is asked for by the deployment, and AWS decides; a lower one changes nothing in the account
  ([quotas.md](quotas.md)).
- A removed team's job role goes with the deployment. Stop its runs before.
"""
