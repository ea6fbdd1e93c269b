"""One release of agent, job templates and deployment document, as the files that lie under `templates/<digest>/`.

    agent/__main__.py               so that `python3 /opt/ml/input/data/agent` starts the agent
    agent/holdfast_agent/*.py
    code/<template>/source.tar.gz   the training code of each folder of job_templates/ that has a job.yaml
    deployment.json                 holdfast.core.deployment.Deployment

The same source tree and config give the same bytes on every machine, so the digest names the content: `cdk synth`,
`holdfast request` and the deployed function all speak of the same bundle. Reads files below `root`, nothing else.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.config import AccountConfig
from holdfast.core.deployment import Deployment, PublishedTemplate, build_deployment
from holdfast.core.read_config import read_template

_LEFT_OUT_FOLDERS = ("__pycache__", "tests")
_LEFT_OUT_FILES = ("README.md", "manifest.example.yaml")


class BundleError(ValueError):
    """The source tree cannot be bundled, in words."""


@dataclass(frozen=True)
class Bundle:
    """`files`: path below the bundle's prefix to content. `digest`: `sha256-<hex>` over all paths and contents."""

    files: dict[str, bytes]
    digest: str
    deployment: Deployment


def build_bundle(root: Path, config: AccountConfig) -> Bundle:
    """Raises BundleError or ConfigError, in words, for a tree that has no agent or a template that is not whole."""
    files = _agent(root / "holdfast_agent")
    templates: dict[str, PublishedTemplate] = {}
    for folder in _template_folders(root / "job_templates"):
        published, archive = _template(folder)
        templates[folder.name] = published
        files[f"code/{folder.name}/source.tar.gz"] = archive
    deployment = build_deployment(config, templates)
    files["deployment.json"] = render_deployment(deployment)
    return Bundle(dict(sorted(files.items())), bundle_digest(files), deployment)


def render_deployment(deployment: Deployment) -> bytes:
    """JSON with sorted keys: the same deployment is the same bytes."""
    return (json.dumps(deployment.model_dump(mode="json"), sort_keys=True, indent=1) + "\n").encode()


def bundle_digest(files: dict[str, bytes]) -> str:
    """`sha256-<hex>` of the list of (path, SHA-256 of the content), sorted by path."""
    lines = [f"{hashlib.sha256(content).hexdigest()}  {path}\n" for path, content in sorted(files.items())]
    return "sha256-" + hashlib.sha256("".join(lines).encode()).hexdigest()


def _agent(package: Path) -> dict[str, bytes]:
    main = package / "channel_main.py"
    if not main.is_file():
        raise BundleError(f"{main} is missing: it becomes the agent channel's __main__.py")
    files = {"agent/__main__.py": main.read_bytes()}
    for path in sorted(package.rglob("*.py")):
        if path != main:
            files[f"agent/holdfast_agent/{path.relative_to(package).as_posix()}"] = path.read_bytes()
    return files


def _template_folders(templates: Path) -> list[Path]:
    return sorted(path.parent for path in templates.glob("*/job.yaml"))


def _template(folder: Path) -> tuple[PublishedTemplate, bytes]:
    template = read_template((folder / "job.yaml").read_bytes(), folder.name)
    members = _code(folder)
    if template.entry_point not in members:
        raise BundleError(f"{folder / 'job.yaml'}: entry_point {template.entry_point!r} is not a file of the folder")
    archive = stored_gzip(_tar(members))
    return PublishedTemplate(template=template, code_sha256=hashlib.sha256(archive).hexdigest()), archive


def _code(folder: Path) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        hidden = any(part.startswith(".") or part in _LEFT_OUT_FOLDERS for part in inside.parts)
        if hidden or path.suffix == ".pyc" or inside.as_posix() in _LEFT_OUT_FILES or path.is_dir():
            continue
        if path.is_symlink():
            raise BundleError(f"{path} is a symbolic link; a template's code is plain files of its own folder")
        members[inside.as_posix()] = path.read_bytes()
    return members


def _tar(members: dict[str, bytes]) -> bytes:
    """A tar whose bytes depend on names and contents alone: no times, owners or modes of this machine."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(members.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), 0o644, 0
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def stored_gzip(content: bytes) -> bytes:
    """A gzip file (RFC 1952) of stored deflate blocks (RFC 1951, 3.2.4).

    Written by hand because compressed bytes differ between zlib, zlib-ng and their versions, and the digest must not.
    The header has no time and no name, and its operating system is 255, unknown. Training code is small.
    """
    most = 0xFFFF
    blocks = [content[at : at + most] for at in range(0, len(content), most)] or [b""]
    body = b"".join(
        struct.pack("<BHH", number == len(blocks) - 1, len(block), len(block) ^ 0xFFFF) + block
        for number, block in enumerate(blocks)
    )
    header = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    return header + body + struct.pack("<II", zlib.crc32(content), len(content) & 0xFFFFFFFF)
