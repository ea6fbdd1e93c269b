"""How a save gets into its place: over another one, beside another writer, in a folder that is not left alone."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast_agent.contract import Lease, render_lease, step_folder
from holdfast_agent.lease import FencedError
from tests.agent.checkpoint_store import (
    LEASE_URI,
    Store,
    flip_a_bit,
    lose_a_file,
    save,
    tear_the_seal,
    truncate,
    unseal,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "checkpoints")


def fingerprint(store: Store) -> list[tuple[str, int, bytes]]:
    """Every file with its modification time: what was written again shows."""
    return sorted(
        (str(path), path.stat().st_mtime_ns, path.read_bytes()) for path in store.root.rglob("*") if path.is_file()
    )


def test_a_step_that_is_sealed_and_whole_is_not_written_again(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    writer = store.writer()
    seal = writer.save(10, {"state.bin": b"first"})
    before = fingerprint(store)
    assert writer.save(10, {"state.bin": b"second"}) == seal
    assert fingerprint(store) == before
    assert store.phases() == [("checkpoint", 10), ("sealed", 10)]
    assert "sealed and whole already" in capfd.readouterr().err


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, lose_a_file, unseal, tear_the_seal])
def test_a_step_that_is_sealed_and_not_whole_is_written_again(store: Store, damage: Callable[[Store], None]) -> None:
    save(store, 20, 30)
    damage(store)
    store.writer().save(30, {"state.bin": b"again"})
    restored = store.writer(attempt=2).restore()
    assert restored is not None
    assert (restored.step, restored.read("state.bin")) == (30, b"again")
    assert list(store.root.parent.iterdir()) == [store.root]


def test_what_is_written_over_stays_until_its_replacement_is_in_place(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, 30)
    flip_a_bit(store)
    before = fingerprint(store)
    rename = Path.rename

    def cut(source: Path, target: Path) -> Path:
        if target.name == step_folder(30) and source.name == step_folder(30):
            raise OSError(errno.EIO, "the disk")
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", cut)
    with pytest.raises(OSError, match="the disk"):
        store.writer().save(30, {"state.bin": b"again"})
    assert fingerprint(store) == before


def test_a_writer_that_is_fenced_is_told_so_even_where_it_has_nothing_to_write(store: Store) -> None:
    store.objects.put(LEASE_URI, render_lease(Lease(1, 1)))
    old = store.writer(fenced=True)
    old.save(10, {"state.bin": b"x"})
    store.objects.put(LEASE_URI, render_lease(Lease(2, 1)))
    with pytest.raises(FencedError):
        old.save(10, {"state.bin": b"x"})


def test_a_checkpoint_folder_that_was_deleted_is_made_again_in_words(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    writer = store.writer()
    writer.save(10, {"state.bin": b"x"})
    shutil.rmtree(store.root)
    assert "was gone" not in capfd.readouterr().err
    assert writer.save(20, {"state.bin": b"x"}) is not None
    assert store.steps() == [20]
    assert f"{store.root} was gone; it is made again" in capfd.readouterr().err


@pytest.mark.parametrize("tidied", ["root", "staging", "step"])
def test_a_folder_that_is_deleted_under_a_save_costs_a_second_write(
    store: Store, tidied: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    rename, done = Path.rename, []

    def tidy_first(source: Path, target: Path) -> Path:
        into_place = source.name == step_folder(10)
        if not done and (into_place if tidied != "step" else target.name == "seal.json"):
            done.append(tidied)
            shutil.rmtree({"root": store.root, "staging": source.parent, "step": target.parent}[tidied])
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", tidy_first)
    assert store.writer().save(10, {"state.bin": b"x"}) is not None
    restored = store.writer(attempt=2).restore()
    assert restored is not None
    assert restored.step == 10
    assert "is written again" in capfd.readouterr().err


def test_a_folder_that_is_deleted_under_every_save_is_an_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def tidy_always(source: Path, target: Path) -> Path:
        if source.name == step_folder(10):
            shutil.rmtree(source)
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", tidy_always)
    with pytest.raises(FileNotFoundError):
        store.writer().save(10, {"state.bin": b"x"})


def test_a_writer_does_not_empty_the_staging_folder_of_a_newer_one(store: Store) -> None:
    staging = store.root.parent / ".holdfast-staging-checkpoints"
    older, newer = staging / "a001-i001", staging / "a003-i001"
    for folder in (older, newer):
        folder.mkdir(parents=True)
        (folder / "half.bin").write_bytes(b"half")
    assert store.writer(attempt=2).save(10, {"state.bin": b"x"}) is not None
    assert [path.name for path in staging.iterdir()] == ["a003-i001"]  # what an ended, older one left is gone
    assert (newer / "half.bin").exists()
