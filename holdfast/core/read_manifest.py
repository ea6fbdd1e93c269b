"""A manifest's text, from a stranger, read into the model or refused with every error at once.

Never raises, whatever the bytes. A document whose shape is partly wrong is repaired with placeholders so that the
checks against the deployment still run on the rest: the author corrects the file once, not once an error.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from holdfast.core.deployment import Deployment
from holdfast.core.field_errors import FieldError, field_path, from_problem, plain_json, read_model
from holdfast.core.manifest import Manifest
from holdfast.core.manifest_checks import check_manifest
from holdfast.core.plain_document import DocumentError, Path, PlainDocument, parse_document

_NOT_FOR_A_MANIFEST = "remove it: the deployment's config chooses it, a manifest cannot"
# Squeezed names (lower case, no hyphens or underscores) that people know from SageMaker or elsewhere: of fields that
# are called otherwise here, and of what no manifest may say.
_OTHER_NAMES = {
    "resources.instance_type": ("instance", "machinetype", "nodetype"),
    "resources.instance_count": (
        *("instances", "numinstances", "instancenumber", "count", "hosts", "numhosts", "hostcount"),
        *("nodes", "nnodes", "numnodes", "nodecount", "replicas"),
    ),
    "resources.processes_per_host": ("nprocpernode", "procspernode", "processespernode", "gpuspernode"),
    "resources.volume_size_gb": ("volumesize", "volumesizeingb", "disksize"),
    "source.entry_point": ("script", "trainingscript"),
    "limits.max_run_seconds": ("maxruntime", "maxruntimeinseconds", "timeout"),
    "environment": ("env", "envvars"),
    "hyperparameters": ("args", "arguments", "hyperparams", "parameters"),
    "data": ("channels", "inputs", "inputdataconfig"),
}
_ELSEWHERE = {
    **dict.fromkeys(
        [
            *("role", "rolearn", "executionrole", "iamrole", "account", "region", "bucket"),
            *("vpc", "vpcconfig", "network", "subnets", "subnetids", "securitygroups", "securitygroupids"),
            *("kmskey", "kmskeyid", "volumekmskeyid"),
        ],
        _NOT_FOR_A_MANIFEST,
    ),
    **{name: f"did you mean `{place}`?" for place, names in _OTHER_NAMES.items() for name in names},
    "team": "remove it: the team is the name of the folder, manifests/<team>/<run>.yaml",
    "metadata": "write name and the other fields at the top level",
    "spec": "write its fields at the top level",
    "outputpath": "remove it: the output goes to output/<team>/<run>/",
    "checkpoints3uri": "remove it: checkpoints go to checkpoints/<team>/<run>/",
}


@dataclass(frozen=True)
class ManifestErrors:
    """Everything that is wrong with the manifest."""

    errors: tuple[FieldError, ...]

    def words(self) -> tuple[str, ...]:
        return tuple(str(error) for error in self.errors)


def read_manifest(
    text: bytes, *, team: str | None, run: str | None, deployment: Deployment
) -> Manifest | ManifestErrors:
    """`team` and `run` are the folder's and the file's name (see layout.parse_manifest_key); None for one that is not
    known, for which the rest is judged all the same."""
    try:
        document = parse_document(text)
    except DocumentError as error:
        return ManifestErrors((from_problem(error.problem),))
    manifest, errors = read_model(Manifest, document, _ELSEWHERE)
    if manifest is not None:
        found = check_manifest(manifest, team=team, run=run, deployment=deployment)
        return _refused(_with_lines(found, document)) if found else manifest
    repaired = _repaired(document, {error.field for error in errors})
    if repaired is None:
        return _refused(errors)
    found = check_manifest(repaired, team=team, run=run, deployment=deployment)
    more = [error for error in found if not _covered(error.field, {error.field for error in errors})]
    return _refused((*errors, *_with_lines(more, document)))


def _refused(errors: tuple[FieldError, ...]) -> ManifestErrors:
    return ManifestErrors(tuple(sorted(errors, key=lambda error: error.line or 0)))


def _covered(field: str, known: set[str]) -> bool:
    return any(field == one or field.startswith((f"{one}.", f"{one}[")) for one in known if one)


def _with_lines(errors: Iterable[FieldError], document: PlainDocument) -> tuple[FieldError, ...]:
    lines = {field_path(path): line for path, line in document.lines.items() if path}
    return tuple(replace(error, line=lines.get(error.field)) for error in errors)


# ---------------------------------------------------------------------------------------------------------------------
# Repair

_PLACEHOLDERS: dict[str, Any] = {
    "apiVersion": "holdfast/v1",
    "kind": "TrainingRun",
    "template": "placeholder",
    "image": "placeholder",
    "resources": {"instance_type": "ml.placeholder.xlarge"},
    "resources.instance_type": "ml.placeholder.xlarge",
    "source.archive": "s3://placeholder/placeholder.tar.gz",
    "source.entry_point": "placeholder",
}


def _repaired(document: PlainDocument, bad: set[str]) -> Manifest | None:
    """The manifest with placeholders for what is required and wrong, or None where that does not help."""
    if not isinstance(document.value, dict):
        return None
    value = json.loads(plain_json(document.value))
    _mend(value, (), bad)
    try:
        return Manifest.model_validate_json(json.dumps(value), strict=True)
    except ValidationError:
        return None


def _mend(value: dict[str, Any] | list[Any], above: Path, bad: set[str]) -> None:
    """Recursive; the parser has bounded the depth."""
    if isinstance(value, list):
        value[:] = [
            {} if field_path((*above, index)) in bad and above == ("data",) else child
            for index, child in enumerate(value)
            if field_path((*above, index)) not in bad or above == ("data",)
        ]
    else:
        for name in [name for name in value if field_path((*above, name)) in bad]:
            del value[name]
        prefix = field_path(above)
        for name, placeholder in _PLACEHOLDERS.items():
            holder, _, last = name.rpartition(".")
            if holder == prefix and name in bad:
                value[last] = copy.deepcopy(placeholder)
        if above[:-1] == ("data",):
            value.setdefault("channel", f"placeholder-{above[-1]}")
            value.setdefault("s3", "s3://placeholder/placeholder")
    children: Iterable[tuple[str | int, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
    for part, child in children:
        if isinstance(child, dict | list):
            _mend(child, (*above, part), bad)
