"""What the commands that need no AWS read from this machine: the manifest, the account's config and the source tree."""

from __future__ import annotations

import hashlib
import posixpath
import tarfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import holdfast
from holdfast.bundle import Bundle, BundleError, build_bundle
from holdfast.core.config import AccountConfig
from holdfast.core.deployment import Deployment
from holdfast.core.field_errors import FieldError, listed
from holdfast.core.layout import ManifestKeyError, manifest_key, parse_manifest_key
from holdfast.core.manifest import Manifest
from holdfast.core.manifest_checks import unknown_team
from holdfast.core.plain_document import MAX_BYTES
from holdfast.core.read_config import ConfigError, read_config
from holdfast.core.read_manifest import ManifestErrors, read_manifest


class CannotBeginError(Exception):
    """A file that is missing, a config that is wrong: in words; exit code 2."""


@dataclass(frozen=True)
class Reading:
    """One manifest, read against one deployment. `manifest` is None where there are errors."""

    team: str
    run: str
    bundle: Bundle
    manifest: Manifest | None
    errors: tuple[FieldError, ...]


def source_tree() -> Path:
    """The tree that this package runs from; it holds job_templates/, holdfast_agent/ and config/."""
    return Path(holdfast.__file__).resolve().parent.parent


def read(manifest: Path, *, config: Path | None, team: str | None, run: str | None, root: Path) -> Reading:
    """Default are the sandbox's config, and the folder's and the file's name. Raises CannotBeginError."""
    text = _bytes(manifest)
    bundle = _bundle(config or root / "config" / "sandbox.yaml", root)
    folder = team or manifest.resolve().parent.name
    key = manifest_key(folder, run) if run else f"manifests/{folder}/{manifest.name}"
    known_team, known_run, misplaced = _place(key, bundle.deployment)
    found = read_manifest(text, team=known_team, run=known_run, deployment=bundle.deployment)
    errors = (*misplaced, *(found.errors if isinstance(found, ManifestErrors) else ()))
    accepted = None if errors or isinstance(found, ManifestErrors) else found
    return Reading(known_team or folder, known_run or run or manifest.stem, bundle, accepted, errors)


def _place(key: str, deployment: Deployment) -> tuple[str | None, str | None, tuple[FieldError, ...]]:
    """(team, run, errors) of where the manifest lies. What is wrong is None, so that the text is read all the same."""
    team: str | None
    run: str | None
    errors: list[FieldError] = []
    try:
        team, run = parse_manifest_key(key)
    except ManifestKeyError as error:
        hint = "rename it, or give --team and --run, the names that it will have in the bucket"
        team, run = error.team, error.run
        errors.append(FieldError("", str(error), hint))
    if team is not None and (unknown := unknown_team(team, deployment)):
        hint = (
            f"{unknown.right}; or give the folder that it will have in the bucket: --team {min(deployment.job_roles)}"
        )
        team = None
        errors.append(replace(unknown, right=hint))
    return team, run, tuple(errors)


def archive_sha256(archive: Path, entry_point: str) -> str:
    """Hex digest of a tarball on this machine. Raises CannotBeginError for one that the agent could not start from."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            files = {posixpath.normpath(member.name) for member in tar if member.isfile() or member.issym()}
        with archive.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise CannotBeginError(
            f"{archive}: is no gzipped tarball ({error}); make one with: tar czf code.tar.gz -C <folder> ."
        ) from None
    except OSError as error:
        raise CannotBeginError(f"{archive}: cannot be read ({error.strerror or error})") from None
    if posixpath.normpath(entry_point) not in files:
        raise CannotBeginError(
            f"{archive}: holds no file {entry_point}, the source's entry_point; it holds: {listed(files)}"
        )
    return digest


def account_config(account: str, root: Path) -> AccountConfig:
    """config/<account>.yaml. Raises CannotBeginError."""
    path = root / "config" / f"{account}.yaml"
    try:
        return read_config(path.read_bytes(), str(path))
    except OSError as error:
        there = listed(one.stem for one in (root / "config").glob("*.yaml"))
        raise CannotBeginError(f"{path}: cannot be read ({error.strerror}); there are {there}") from None
    except ConfigError as error:
        raise CannotBeginError(str(error)) from None


def templates(root: Path, config: AccountConfig) -> set[str]:
    """Names of the job templates that a deployment of this tree has. Raises CannotBeginError."""
    try:
        return set(build_bundle(root, config).deployment.templates)
    except (OSError, BundleError) as error:
        raise CannotBeginError(str(error)) from None


def _bundle(config: Path, root: Path) -> Bundle:
    try:
        return build_bundle(root, read_config(config.read_bytes(), str(config)))
    except OSError as error:
        raise CannotBeginError(f"{error.filename}: cannot be read ({error.strerror})") from None
    except (ConfigError, BundleError) as error:
        raise CannotBeginError(str(error)) from None


def _bytes(manifest: Path) -> bytes:
    try:
        with manifest.open("rb") as file:
            # One byte more than is allowed tells "too long" from "just fits", whatever the file's size.
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CannotBeginError(f"{manifest}: cannot be read ({error.strerror})") from None
