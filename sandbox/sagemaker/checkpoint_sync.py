"""SageMaker's checkpoint sync: S3 to every host before the start, then each host's changes to S3 until the end.

What is documented (developer guide, model-checkpoints and model-checkpoints-enable): the content of the S3 location is
written into the container at the start; local files are copied to S3 while the job trains; a local deletion is
propagated; there is one S3 location for all hosts; what is added to S3 later is not pulled. Period, order and atomicity
are not documented, so none is given here: a file may be uploaded half written, and is uploaded again when it changed.

Assumed: a host uploads and deletes only what changed *on it* since it last looked, so that a host's old copy of a file
cannot come back over another host's newer one.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.sagemaker.host import Host
from sandbox.sagemaker.storage import Clients, Location, delete, download, inside, keys, upload

Stamp = tuple[int, int]
"""Modification time in nanoseconds, and size."""


@dataclass(frozen=True)
class _Copy:
    """One host's folder, and what of it is known to be in S3."""

    host: Host
    folder: Path
    known: dict[str, Stamp]


class CheckpointSync:
    """`local_path` is CheckpointConfig.LocalPath; `at` its S3Uri as a folder."""

    def __init__(self, clients: Clients, at: Location, hosts: Sequence[Host], local_path: str) -> None:
        self._clients = clients
        self._at = at
        self._copies = [_Copy(host, host.local_path(local_path), {}) for host in hosts]
        self._pass = threading.Lock()

    def download(self) -> None:
        """Everything under the prefix to every host. Raises StorageError."""
        first, *others = self._copies
        for copy in self._copies:
            copy.folder.mkdir(parents=True, exist_ok=True)
        for key in keys(self._clients, self._at):
            name = key[len(self._at.prefix) :]
            if not name or name.endswith("/"):
                continue
            fetched = inside(first.folder, name)
            download(self._clients, self._at.bucket, key, fetched)
            for copy in others:
                target = inside(copy.folder, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(fetched, target)
        for copy in self._copies:
            copy.known.update(_stamps(copy.folder))

    def upload_changes(self) -> None:
        """One pass over all hosts, in no order of files that anybody may rely on.

        Raises StorageError when S3 refuses a call; what failed is tried again in the next pass.
        """
        with self._pass:
            for copy in self._copies:
                self._upload(copy)

    def _upload(self, copy: _Copy) -> None:
        found = _stamps(copy.folder)
        for name, stamp in found.items():
            if copy.known.get(name) == stamp:
                continue
            try:
                upload(self._clients, copy.folder / name, self._at.bucket, self._at.prefix + name)
            except FileNotFoundError:
                continue  # deleted since the listing; the next pass sees that
            # The stamp from before the reading: a write meanwhile makes the next pass upload it again.
            copy.known[name] = stamp
        for name in copy.known.keys() - found.keys():
            delete(self._clients, self._at.bucket, self._at.prefix + name)
            del copy.known[name]


def as_folder(at: Location) -> Location:
    """SageMaker treats the S3Uri of a CheckpointConfig as a folder, with or without its slash (assumed)."""
    return at if not at.prefix or at.prefix.endswith("/") else Location(at.bucket, at.prefix + "/")


def _stamps(folder: Path) -> dict[str, Stamp]:
    found: dict[str, Stamp] = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            try:
                status = path.stat()
            except OSError:
                continue  # deleted or renamed since the listing
            found[path.relative_to(folder).as_posix()] = (status.st_mtime_ns, status.st_size)
    return found
