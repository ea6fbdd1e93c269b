"""Where a checkpoint is written before it is put in place, and how it gets there.

The staging folder lies *beside* the checkpoint root, because SageMaker's sync uploads whatever it sees below the root,
half-written files too. Where root and sibling are different mounts (rename says EXDEV), it is a hidden one in the root:
the sync then copies some bytes in vain, but no folder named as a step is ever seen half-written.

Each lease has a staging folder of its own. Two writers can see one file system (a frozen attempt that wakes up, two
starts of one attempt), and the one that is about to be fenced must not empty the other's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from pathlib import Path

from holdfast_agent.contract import Lease, Seal
from holdfast_agent.lines import say
from holdfast_agent.sealing import sync_folder, write_seal


class Staging:
    """The staging folder of one writer below or beside `root`. Raises OSError for what the disk refuses."""

    def __init__(self, root: Path, lease: Lease) -> None:
        self._root = root
        self._lease = lease
        self._folder: Path | None = None

    def fresh(self) -> Path:
        """An empty folder. What ended writers left goes: this one's own, and those of leases that it is newer than."""
        if not self._root.is_dir():
            if self._folder is not None:
                say(f"the checkpoint folder {self._root} was gone; it is made again")
            self._root.mkdir(parents=True)
        if self._folder is None:
            self._folder = _place_for(self._root, _name_of(self._lease))
            for found in self._folder.parent.iterdir():
                lease = _lease_of(found.name)
                if lease is not None and lease < self._lease:
                    shutil.rmtree(found, ignore_errors=True)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        return self._folder

    def clear(self) -> None:
        if self._folder is None:
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # another writer's is in it
            self._folder.parent.rmdir()

    def put_in_place(self, staged: Path, seal: Seal) -> bool:
        """Renames the folder into the root and then its seal into the folder; whether it replaced another one.

        A folder of that step which is there already is moved aside and stays until its replacement is in place.
        """
        place, aside = self._root / staged.name, staged.parent / "replaced"
        replaces = os.path.lexists(place)
        if replaces:
            place.rename(aside)
        try:
            staged.rename(place)
        except BaseException:
            if replaces:
                aside.rename(place)
            raise
        sync_folder(self._root)
        write_seal(place, seal, staged.parent)
        return replaces


def _name_of(lease: Lease) -> str:
    return f"a{lease.attempt:03d}-i{lease.incarnation:03d}"


def _lease_of(name: str) -> Lease | None:
    found = re.fullmatch(r"a([0-9]{3,9})-i([0-9]{3,9})", name)
    return Lease(int(found.group(1)), int(found.group(2))) if found else None


def _place_for(root: Path, name: str) -> Path:
    """Beside the root if a folder can be renamed from there into it, else hidden in it. Exists afterwards."""
    beside = root.parent / f".holdfast-staging-{root.name}" / name
    probe, landed = beside / "probe", root / f".holdfast-probe-{name}"
    try:
        probe.mkdir(parents=True, exist_ok=True)
        probe.rename(landed)
        landed.rmdir()
        return beside
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS):
            raise
    shutil.rmtree(beside, ignore_errors=True)
    with contextlib.suppress(OSError):
        beside.parent.rmdir()
    hidden = root / ".holdfast-staging" / name
    hidden.mkdir(parents=True, exist_ok=True)
    return hidden
