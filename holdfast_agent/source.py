"""The code channel's tarball: checked against its pinned digest and unpacked beside the channel, never into it.

The archive is a stranger's. Every member is written by this module and not by tarfile's extraction, whose filters
differ from one Python to the next (there is none in early 3.9), so all images behave alike.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tarfile
import zlib
from pathlib import Path

LARGEST_UNPACKED_BYTES = 2 * 1024**3
MOST_MEMBERS = 50_000


class SourceError(ValueError):
    """The code cannot be used, in words."""


def sha256_of_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def unpack_source(archive: Path, expected_sha256: str, target: Path) -> None:
    """Replaces `target` by the archive's tree. Raises SourceError for another digest, an unsafe member (absolute or
    upward path, link that leads out, hard link, device), or more than the bounds of this module."""
    if not archive.is_file():
        raise SourceError(f"the code channel holds no {archive.name} (looked at {archive})")
    found = sha256_of_file(archive)
    if found != expected_sha256:
        raise SourceError(
            f"{archive.name} has sha256 {found} and the run pinned {expected_sha256 or 'none'}: the code was changed "
            "after registration, or the channel points elsewhere"
        )
    fresh = target.with_name(target.name + ".unpacking")
    _remove(fresh)
    fresh.mkdir(parents=True)
    fresh = Path(os.path.realpath(fresh))
    try:
        _unpack(archive, fresh)
        _refuse_links_out(fresh)
    except SourceError:
        _remove(fresh)
        raise
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        _remove(fresh)
        raise SourceError(f"{archive.name} cannot be unpacked: {error}") from None
    _remove(target)
    fresh.rename(target)


def _unpack(archive: Path, root: Path) -> None:
    members = total = 0
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            members += 1
            total += max(member.size, 0)
            if members > MOST_MEMBERS:
                raise SourceError(f"{archive.name} has more than {MOST_MEMBERS} members")
            if total > LARGEST_UNPACKED_BYTES:
                raise SourceError(f"{archive.name} unpacks to more than {LARGEST_UNPACKED_BYTES} bytes")
            _write_member(tar, member, root)


def _write_member(tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    path = _place_of(member, root)
    if path == root:
        return
    if member.isdir():
        if path.is_symlink():
            raise SourceError(f"member {member.name!r} is both a link and a folder")
        path.mkdir(parents=True, exist_ok=True)
        return
    if os.path.lexists(path):
        raise SourceError(f"member {member.name!r} comes twice")
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.issym():
        _write_link(member, path)
    elif member.isreg():
        _write_file(tar, member, path)
    elif member.islnk():
        raise SourceError(f"member {member.name!r} is a hard link; pack with `tar --hard-dereference`")
    else:
        raise SourceError(f"member {member.name!r} is neither a file, a folder nor a link")


def _place_of(member: tarfile.TarInfo, root: Path) -> Path:
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    if member.name.startswith("/") or ".." in parts or "\x00" in member.name:
        raise SourceError(f"member {member.name!r} lies outside the archive's folder")
    path = root.joinpath(*parts)
    # The parent may run through a link that an earlier member made; it counts where it leads in truth.
    parent = Path(os.path.realpath(path.parent if parts else path))
    if parent != root and root not in parent.parents:
        raise SourceError(f"member {member.name!r} is written through a link that leads out")
    return path


def _write_link(member: tarfile.TarInfo, path: Path) -> None:
    # `a/../b` is refused although it may stay inside: `a` could become a link later, and `..` then starts from there.
    if member.linkname.startswith("/") or os.path.normpath(member.linkname) != member.linkname:
        raise SourceError(f"link {member.name!r} -> {member.linkname!r} must be a plain relative path")
    path.symlink_to(member.linkname)


def _write_file(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content = tar.extractfile(member)
    if content is None:
        raise SourceError(f"member {member.name!r} has no content")
    with path.open("xb") as out:
        shutil.copyfileobj(content, out, 1 << 20)
    # Owner's bits and nobody's special ones: no set-user-id, nothing that others may write.
    path.chmod((stat.S_IMODE(member.mode) & 0o755) | 0o600)


def _refuse_links_out(root: Path) -> None:
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = Path(folder, name)
            if not path.is_symlink():
                continue
            led = Path(os.path.realpath(path))
            if led != root and root not in led.parents:
                raise SourceError(f"link {os.path.relpath(path, root)!r} -> {str(path.readlink())!r} leads out")


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
