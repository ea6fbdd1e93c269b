"""The sync, pass by pass, against the emulated S3."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.sagemaker import storage
from sandbox.sagemaker.checkpoint_sync import CheckpointSync, as_folder
from sandbox.sagemaker.host import Host
from sandbox.sagemaker.storage import Location, StorageError, location
from tests.sandbox.sagemaker.conftest import BUCKET, Lab


class Bench:
    """Two hosts and a prefix of their own; `clients` as the sync wants them."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._lab = lab
        self.prefix = f"sync/{uuid.uuid4().hex}/"
        self.hosts = [Host("job", number, f"127.0.0.{number}", folder / f"algo-{number}") for number in (1, 2)]
        for host in self.hosts:
            host.prepare()
        self.sync = CheckpointSync(self, Location(BUCKET, self.prefix), self.hosts, "/opt/ml/checkpoints")

    def client(self, service: str) -> Any:
        return self._lab.client(service)

    def local(self, host: int, name: str) -> Path:
        return self.hosts[host - 1].tree / "checkpoints" / name

    def put(self, name: str, text: str) -> None:
        self._lab.put(self.prefix + name, text)

    def remote(self) -> dict[str, str]:
        found = self._lab.keys(self.prefix)
        return {key[len(self.prefix) :]: self._lab.get(key).decode() for key in found}


@pytest.fixture
def bench(lab: Lab, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(lab, tmp_path)
    yield bench
    for host in bench.hosts:
        host.discard(keep_tree=False)


def test_a_host_s_old_copy_does_not_come_back_over_another_host_s_newer_one(bench: Bench) -> None:
    bench.put("weights", "old")
    bench.sync.download()
    bench.local(1, "weights").write_text("newer")
    bench.sync.upload_changes()
    bench.sync.upload_changes()
    assert bench.remote() == {"weights": "newer"}
    assert bench.local(2, "weights").read_text() == "old"  # what is added to S3 later is not pulled


def test_what_did_not_change_is_not_uploaded_again(bench: Bench) -> None:
    bench.local(1, "weights").write_text("one")
    bench.sync.upload_changes()
    bench.put("weights", "put by somebody else")
    bench.sync.upload_changes()
    assert bench.remote() == {"weights": "put by somebody else"}
    bench.local(1, "weights").write_text("two, longer")
    bench.sync.upload_changes()
    assert bench.remote() == {"weights": "two, longer"}


def test_a_half_written_file_is_uploaded_half_and_whole_later(bench: Bench) -> None:
    with bench.local(1, "weights").open("w") as file:
        file.write("first half, ")
        file.flush()
        bench.sync.upload_changes()
        assert bench.remote() == {"weights": "first half, "}
        file.write("second half")
    bench.sync.upload_changes()
    assert bench.remote() == {"weights": "first half, second half"}


def test_a_rename_is_a_new_file_and_a_deletion(bench: Bench) -> None:
    bench.local(2, "seal.tmp").write_text("sealed")
    bench.sync.upload_changes()
    bench.local(2, "seal.tmp").rename(bench.local(2, "seal.json"))
    bench.sync.upload_changes()
    assert bench.remote() == {"seal.json": "sealed"}


def test_a_deletion_on_one_host_deletes_in_s3_although_another_host_has_its_copy(bench: Bench) -> None:
    bench.put("step-1/weights", "one")
    bench.sync.download()
    bench.local(1, "step-1/weights").unlink()
    bench.sync.upload_changes()
    bench.sync.upload_changes()
    assert bench.remote() == {}
    assert bench.local(2, "step-1/weights").exists()


def _cut(path: Path) -> None:
    path.write_text("x")


def _grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"y" * 9_000_000)


@pytest.mark.parametrize("change", [_cut, _grow])
def test_a_file_that_changes_while_it_is_read_ends_up_whole(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    """Above the size of a part, so that the file is read several times; it is changed after the first."""
    weights = bench.local(1, "weights")
    weights.write_bytes(b"x" * 20_000_000)
    real_read = storage._Stream.read
    reads: list[int] = []

    def read(stream: Any, size: int = -1) -> bytes:
        data: bytes = real_read(stream, size)
        reads.append(len(data))
        if len(reads) == 1:
            change(weights)
        return data

    monkeypatch.setattr(storage._Stream, "read", read)
    bench.sync.upload_changes()
    assert len(reads) > 1
    bench.sync.upload_changes()
    assert bench.remote() == {"weights": weights.read_text()}


def test_a_bucket_that_is_not_there_is_said(bench: Bench) -> None:
    sync = CheckpointSync(bench, Location("no-such-bucket", "x/"), bench.hosts, "/opt/ml/checkpoints")
    with pytest.raises(StorageError, match="NoSuchBucket"):
        sync.download()


def test_a_checkpoint_uri_is_a_folder_with_or_without_its_slash() -> None:
    assert as_folder(location("s3://bucket/a")) == as_folder(location("s3://bucket/a/")) == Location("bucket", "a/")
    assert as_folder(location("s3://bucket")) == Location("bucket", "")
