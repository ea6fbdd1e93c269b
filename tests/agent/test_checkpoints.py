from __future__ import annotations

import errno
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast_agent.checkpoints import Checkpoints
from holdfast_agent.contract import (
    ContractError,
    JobContext,
    Lease,
    Seal,
    parse_seal,
    render_lease,
    render_seal,
    step_folder,
)
from holdfast_agent.lease import FencedError
from tests.agent.checkpoint_store import (
    LEASE_URI,
    Store,
    flip_a_bit,
    lose_a_file,
    mix_in_another_save,
    put_anothers_folder,
    replace_by_a_link,
    save,
    tear_the_seal,
    truncate,
    unseal,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "checkpoints")


def test_what_was_saved_is_restored_and_said(store: Store) -> None:
    save(store, 10, 20)
    restored = store.writer(attempt=2).restore()
    assert restored is not None
    assert (restored.step, restored.read("state.bin")) == (20, b"state of 20" * 100)
    assert restored.seal.attempt == 1
    assert store.phases() == [("checkpoint", 10), ("sealed", 10), ("checkpoint", 20), ("sealed", 20), ("resume", 20)]


def test_nothing_but_whole_checkpoints_ever_lies_in_the_folder_that_is_synced(store: Store) -> None:
    save(store, 10)
    assert sorted(path.name for path in store.root.rglob("*")) == ["seal.json", "state.bin", step_folder(10)]
    assert list(store.root.parent.iterdir()) == [store.root]


def test_a_folder_that_is_another_mount_than_its_sibling_is_staged_in(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def across_mounts(source: Path, target: Path) -> Path:
        if ".holdfast-staging-" in str(source) and store.root in target.parents:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", across_mounts)
    save(store, 10)
    restored = store.writer().restore()
    assert restored is not None
    assert restored.step == 10
    assert not [path for path in store.root.rglob("*") if ".holdfast" in path.name]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (truncate, "has 5 bytes"),
        (flip_a_bit, "differs from its sealed checksum"),
        (lose_a_file, "is missing"),
        (unseal, "has no seal"),
        (tear_the_seal, "seal cannot be read"),
        (mix_in_another_save, "differs from its sealed checksum"),
        (put_anothers_folder, "seal is of step 20"),
        (replace_by_a_link, "is missing"),
    ],
)
def test_a_damaged_checkpoint_is_skipped_in_words_for_the_one_before(
    store: Store, capfd: pytest.CaptureFixture[str], damage: Callable[[Store], None], words: str
) -> None:
    save(store, 10, 20, 30)
    damage(store)
    restored = store.writer(attempt=2).restore()
    assert restored is not None
    assert restored.step == 20
    skipped = [line for line in capfd.readouterr().err.splitlines() if "restore skips" in line]
    assert len(skipped) == 1
    assert "step 30" in skipped[0]
    assert words in skipped[0]


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_checkpoint_of_a_loss_that_is_not_finite_is_sealed_as_such_and_never_restored(
    store: Store, loss: float
) -> None:
    save(store, 10)
    seal = store.writer().save(20, {"state.bin": b"poisoned"}, loss=loss)
    assert seal is not None
    assert not seal.loss_finite
    restored = store.writer().restore()
    assert restored is not None
    assert restored.step == 10


def test_another_runs_checkpoint_is_not_restored(store: Store) -> None:
    save(store, 10)
    assert store.writer(run="vision/moby").restore() is None


def test_a_run_that_was_registered_again_keeps_its_checkpoints_and_says_so(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    save(store, 10)
    seal_file = store.file(10, "seal.json")
    document = json.loads(seal_file.read_text())
    seal_file.write_text(json.dumps({**document, "uid": "u-0"}))
    restored = store.writer().restore()
    assert restored is not None
    assert restored.step == 10
    assert "written under uid u-0" in capfd.readouterr().err


def test_without_any_checkpoint_nothing_is_restored_and_nothing_is_said_to_resume(store: Store) -> None:
    assert store.writer().restore() is None
    assert store.phases() == []


def test_only_sealed_files_can_be_read(store: Store) -> None:
    save(store, 10)
    (store.root / step_folder(10) / "extra.bin").write_bytes(b"not sealed")
    restored = store.writer().restore()
    assert restored is not None
    with pytest.raises(KeyError, match=r"extra\.bin"):
        restored.read("extra.bin")


def test_other_ranks_than_the_first_write_nothing(store: Store) -> None:
    assert store.writer(rank=1).save(10, {"state.bin": b"x"}) is None
    assert not store.root.exists()


@pytest.mark.parametrize("name", ["../x", "/x", "a/../b", "seal.json", ""])
def test_a_file_name_that_leads_out_or_is_the_seals_is_refused(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="relative path"):
        store.writer().save(10, {name: b"x"})
    assert store.steps() == []


def test_files_may_lie_in_folders(store: Store) -> None:
    store.writer().save(10, {"ranks/0/state.bin": b"zero", "ranks/1/state.bin": b"one"})
    restored = store.writer().restore()
    assert restored is not None
    assert restored.read("ranks/1/state.bin") == b"one"


# --- fencing ----------------------------------------------------------------------------------------------------------


def test_a_writer_whose_lease_is_taken_over_can_neither_seal_nor_delete(store: Store) -> None:
    store.objects.put(LEASE_URI, render_lease(Lease(1, 1)))
    old = store.writer(attempt=1, keep=1, fenced=True)
    assert old.save(10, {"state.bin": b"x"}) is not None
    store.objects.put(LEASE_URI, render_lease(Lease(2, 1)))
    with pytest.raises(FencedError):
        old.save(20, {"state.bin": b"x"})
    assert store.steps() == [10]
    assert store.phases()[-1] == ("checkpoint", 20)
    assert list(store.root.parent.iterdir()) == [store.root]


def test_while_the_lease_cannot_be_read_nothing_is_sealed_and_training_goes_on(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    store.objects.put(LEASE_URI, render_lease(Lease(1, 1)))
    writer = store.writer(fenced=True)
    store.objects.down = True
    assert writer.save(10, {"state.bin": b"x"}) is None
    assert store.steps() == []
    assert "not sealed" in capfd.readouterr().err
    store.objects.down = False
    assert writer.save(20, {"state.bin": b"x"}) is not None
    assert store.steps() == [20]


# --- retention (what may go is decided in test_retention.py) ----------------------------------------------------------


def test_an_older_checkpoint_goes_only_once_a_newer_one_is_whole_in_s3(store: Store) -> None:
    uploaded: set[int] = set()

    class Copy:
        def holds(self, seal: Seal) -> bool:
            return seal.step in uploaded

    writer = store.writer(keep=2, open_copy=Copy)
    for step in (10, 20, 30):
        writer.save(step, {"state.bin": b"x"})
    assert store.steps() == [10, 20, 30]
    uploaded.add(30)
    writer.save(40, {"state.bin": b"x"})
    assert store.steps() == [30, 40]


def test_a_job_that_asks_for_one_keeps_two(store: Store) -> None:
    save(store, 10, 20, 30, keep=1)
    assert store.steps() == [20, 30]


def test_a_step_that_was_written_over_another_proves_nothing_of_s3(store: Store) -> None:
    class Copy:
        def holds(self, seal: Seal) -> bool:
            return seal.step == 30  # the earlier save of that step, of the same sizes

    save(store, 10, 20, 30)
    flip_a_bit(store)
    store.writer(keep=2, open_copy=Copy).save(30, {"state.bin": b"state of 30" * 100})
    assert store.steps() == [10, 20, 30]


def test_an_old_checkpoint_that_cannot_be_deleted_does_not_fail_the_save(
    store: Store, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(folder)

    save(store, 10, 20)
    monkeypatch.setattr("holdfast_agent.checkpoints.unseal_and_remove", refuse)
    assert store.writer(keep=2).save(30, {"state.bin": b"x"}) is not None
    assert "checkpoint of step 10 cannot be deleted" in capfd.readouterr().err


def test_the_newest_n_stay(store: Store) -> None:
    save(store, 10, 20, 30, 40, keep=2)
    assert store.steps() == [30, 40]


def test_the_newest_good_one_stays_under_any_number_of_bad_ones(store: Store) -> None:
    save(store, 10)
    writer = store.writer(keep=1)
    for step in (20, 30, 40):
        writer.save(step, {"state.bin": b"poisoned"}, loss=math.nan)
    restored = store.writer().restore()
    assert restored is not None
    assert restored.step == 10


def test_a_damaged_one_does_not_count_as_the_one_to_keep(store: Store) -> None:
    save(store, 10, 20, 30)
    flip_a_bit(store)
    writer = store.writer(attempt=2, keep=1)
    restored = writer.restore()
    assert restored is not None
    assert restored.step == 20
    writer.save(25, {"state.bin": b"state of 25"})
    assert 25 in store.steps()
    restored = store.writer(attempt=3).restore()
    assert restored is not None
    assert restored.step == 25


def test_torn_and_damaged_ones_go_once_a_good_one_is_newer(store: Store) -> None:
    save(store, 10, 20, 30)
    unseal(store)
    writer = store.writer(attempt=2)
    writer.restore()
    writer.save(40, {"state.bin": b"state of 40"})
    assert store.steps() == [10, 20, 40]


def test_a_damaged_step_that_is_reached_again_is_replaced_and_good(store: Store) -> None:
    save(store, 20, 30)
    flip_a_bit(store)
    writer = store.writer(attempt=2, keep=1)
    writer.restore()
    writer.save(30, {"state.bin": b"again"})
    restored = store.writer(attempt=3).restore()
    assert restored is not None
    assert restored.read("state.bin") == b"again"
    assert store.steps() == [20, 30]


def test_a_deletion_that_is_cut_short_leaves_an_unsealed_folder(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    save(store, 10, 15)

    class PowerCut(BaseException):
        pass

    remove = shutil.rmtree

    def cut(folder: Path, ignore_errors: bool = False) -> None:
        if folder == store.file(10).parent:
            raise PowerCut
        remove(folder, ignore_errors=ignore_errors)

    monkeypatch.setattr("holdfast_agent.sealing.shutil.rmtree", cut)
    with pytest.raises(PowerCut):
        save(store, 20, keep=1)
    assert store.file(10).exists()
    assert not store.file(10, "seal.json").exists()
    monkeypatch.undo()
    restored = store.writer().restore()
    assert restored is not None
    assert restored.step == 20


def test_the_seal_names_every_file_with_its_size_and_the_writer(store: Store) -> None:
    seal = store.writer(attempt=4).save(10, {"a.bin": b"12345", "b.bin": b""}, loss=2.5)
    assert seal is not None
    on_disk = parse_seal(store.file(10, "seal.json").read_text())
    assert on_disk == seal == parse_seal(render_seal(seal))
    assert [(entry.path, entry.bytes) for entry in seal.files] == [("a.bin", 5), ("b.bin", 0)]
    assert (seal.run, seal.uid, seal.attempt, seal.incarnation, seal.world_size) == ("research/moby", "u-1", 4, 1, 1)


def test_a_script_at_home_keeps_its_checkpoints_in_the_folder_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_RUN", raising=False)
    Checkpoints.from_env(local=tmp_path / "mine").save(4, {"state.bin": b"state"}, loss=1.0)
    restored = Checkpoints.from_env(local=str(tmp_path / "mine")).restore()
    assert restored is not None
    assert (restored.step, restored.read("state.bin")) == (4, b"state")


def test_a_script_at_home_that_names_no_folder_is_told_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_RUN", raising=False)
    with pytest.raises(ContractError, match=r"in no Holdfast job .*Checkpoints\.from_env\(local='checkpoints'\)"):
        Checkpoints.from_env()


def test_in_a_job_the_folder_for_home_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = JobContext("research/moby", "u-1", "job", 1, "train.py", "00", checkpoint_path=str(tmp_path / "job"))
    for name, value in job.to_env().items():
        monkeypatch.setenv(name, value)
    Checkpoints.from_env(local=tmp_path / "home").save(4, {"state.bin": b"state"}, loss=1.0)
    assert (tmp_path / "job" / step_folder(4)).is_dir()
    assert not (tmp_path / "home").exists()
    monkeypatch.delenv("HOLDFAST_UID")
    with pytest.raises(ContractError, match="HOLDFAST_UID is missing"):
        Checkpoints.from_env(local=tmp_path / "home")
