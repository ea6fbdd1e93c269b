"""One checkpoint's folder: its files written with their checksums, its seal written last, and both verified.

torch loads a file with a flipped bit without a word, and a folder that is half copied looks like a folder. So a
checkpoint counts only if its seal is there, names this run, and every file has the sealed size and sha256.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast_agent.contract import SEAL_NAME, ContractError, Seal, SealedFile, parse_seal, render_seal, step_of_folder

_BLOCK_BYTES = 1 << 20


class NotRestorableError(Exception):
    """Why a checkpoint's folder is not restored, in words."""


class _HashedFile:
    """A file being written whose sha256 is taken from the stream: no second read, and what is hashed is what was
    handed over, not what a disk gave back. torch.save writes in order only and never seeks in it."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("xb")
        self._digest = hashlib.sha256()
        self.bytes = 0

    def write(self, data: Any) -> int:
        self._digest.update(data)
        written = self._stream.write(data)
        self.bytes += written
        return written

    def flush(self) -> None:
        self._stream.flush()

    def sync(self) -> None:
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def write_files(folder: Path, files: Mapping[str, Any]) -> tuple[SealedFile, ...]:
    """Writes each file durably: bytes as they are, any other object through torch.save. Raises ValueError for a name
    that leads out of the folder or is the seal's."""
    if not files:
        raise ValueError("a checkpoint needs at least one file")
    for name in files:
        if name == SEAL_NAME or name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
            raise ValueError(f"checkpoint file {name!r} must be a relative path within the folder, not {SEAL_NAME}")
    sealed = tuple(_write_file(folder, name, files[name]) for name in sorted(files))
    for inner, _, _ in os.walk(folder):
        sync_folder(Path(inner))
    return sealed


def _write_file(folder: Path, name: str, content: Any) -> SealedFile:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    out = _HashedFile(path)
    try:
        if isinstance(content, (bytes, bytearray, memoryview)):
            out.write(content)
        else:
            importlib.import_module("torch").save(content, out)
        out.sync()
    finally:
        out.close()
    return SealedFile(name, out.bytes, out.hexdigest())


def write_seal(folder: Path, seal: Seal, staging: Path) -> None:
    """The seal appears whole or not at all: written in `staging` (same file system), then renamed into the folder."""
    fresh = staging / SEAL_NAME
    with fresh.open("w", encoding="utf-8") as out:
        out.write(render_seal(seal))
        out.flush()
        os.fsync(out.fileno())
    fresh.rename(folder / SEAL_NAME)
    sync_folder(folder)


def read_seal(folder: Path) -> Seal:
    """The folder's seal, with nothing else looked at. Raises NotRestorableError."""
    try:
        seal = parse_seal((folder / SEAL_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotRestorableError("it has no seal: its writer ended before it was whole") from None
    except (OSError, UnicodeDecodeError, ContractError) as error:
        raise NotRestorableError(f"its seal cannot be read ({error})") from None
    if seal.step != step_of_folder(folder.name):
        raise NotRestorableError(f"its seal is of step {seal.step}: it was moved here from another checkpoint")
    return seal


def inspect_folder(folder: Path, run: str) -> Seal:
    """What can be said without reading the files: seal, run, finite loss, sizes. Raises NotRestorableError."""
    seal = read_seal(folder)
    if seal.run != run:
        raise NotRestorableError(f"it belongs to run {seal.run}, not {run}")
    if not seal.loss_finite:
        raise NotRestorableError("its loss was not a finite number")
    for entry in seal.files:
        path = folder / entry.path
        if path.is_symlink() or not path.is_file():
            raise NotRestorableError(f"{entry.path} is missing")
        size = path.stat().st_size
        if size != entry.bytes:
            raise NotRestorableError(f"{entry.path} has {size} bytes, its seal says {entry.bytes}")
    return seal


def verify_files(folder: Path, seal: Seal) -> None:
    """Reads every file and compares its checksum. Raises NotRestorableError."""
    for entry in seal.files:
        digest = hashlib.sha256()
        try:
            with (folder / entry.path).open("rb") as stream:
                for block in iter(lambda: stream.read(_BLOCK_BYTES), b""):
                    digest.update(block)
        except OSError as error:
            raise NotRestorableError(f"{entry.path} cannot be read ({error})") from None
        if digest.hexdigest() != entry.sha256:
            raise NotRestorableError(f"{entry.path} differs from its sealed checksum: it is damaged or of another save")


def unseal_and_remove(folder: Path) -> None:
    """Seal first, then the files: a crash in between leaves an unsealed folder and not a sealed one with files
    missing."""
    try:
        (folder / SEAL_NAME).unlink()
        sync_folder(folder)
    except FileNotFoundError:
        pass
    shutil.rmtree(folder, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Makes names in the folder durable (renames and creations are lost in a power cut without it)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
