"""What is left of a job in S3: model.tar.gz and output.tar.gz below <S3OutputPath>/<job>/output/.

Source: developer guide, "Amazon SageMaker AI Algorithms' Outputs" (your-algorithms-training-algo-output). Assumed: with
several hosts their model folders become one, and their output folders lie side by side under the hosts' names; an empty
folder gives no archive.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sandbox.sagemaker.host import Host
from sandbox.sagemaker.record import TrainingJob
from sandbox.sagemaker.storage import Clients, Location, location, upload

Member = tuple[str, Path]
"""Name in the archive, and the file."""


def upload_artifacts(clients: Clients, job: TrainingJob, hosts: Sequence[Host]) -> None:
    """Raises StorageError."""
    config: dict[str, Any] = job.request["OutputDataConfig"]
    archives = {"model.tar.gz": list(_model(hosts)), "output.tar.gz": list(_output(hosts))}
    for name, members in archives.items():
        if not members:
            continue
        if config.get("CompressionType", "GZIP") == "NONE":
            _upload_files(clients, members, location(job.artifact_uri(name.partition(".")[0])), config)
        else:
            _upload_archive(clients, members, location(job.artifact_uri(name)), config)


def _model(hosts: Sequence[Host]) -> Iterator[Member]:
    seen = set()
    for host in hosts:
        for name, path in _files(host.tree / "model"):
            if name not in seen:
                seen.add(name)
                yield name, path


def _output(hosts: Sequence[Host]) -> Iterator[Member]:
    for host in hosts:
        prefix = f"{host.name}/" if len(hosts) > 1 else ""
        yield from ((prefix + name, path) for name, path in _files(host.tree / "output"))


def _files(folder: Path) -> Iterator[Member]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path.relative_to(folder).as_posix(), path


def _upload_archive(clients: Clients, members: Sequence[Member], at: Location, config: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        archive = Path(folder, "archive.tar.gz")
        with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
            for name, path in members:
                tar.add(path, arcname=name)
        upload(clients, archive, at.bucket, at.prefix, config.get("KmsKeyId"))


def _upload_files(clients: Clients, members: Sequence[Member], at: Location, config: dict[str, Any]) -> None:
    for name, path in members:
        upload(clients, path, at.bucket, f"{at.prefix.rstrip('/')}/{name}", config.get("KmsKeyId"))
