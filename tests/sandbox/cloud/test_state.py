from __future__ import annotations

import fcntl
import os
from pathlib import Path

from sandbox.cloud.state import LOCK_FILE, new_state_dir


def _ended(root: Path, age: int) -> Path:
    folder = new_state_dir(root, keep=100)
    (folder / LOCK_FILE).touch()
    os.utime(folder, (1_000_000 - age, 1_000_000 - age))
    return folder


def test_each_emulator_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    assert new_state_dir(tmp_path) != new_state_dir(tmp_path)


def test_of_the_ended_ones_only_the_newest_stay(tmp_path: Path) -> None:
    old, newer, newest = (_ended(tmp_path, age) for age in (300, 200, 100))
    new_state_dir(tmp_path, keep=2)
    assert not old.exists()
    assert newer.exists()
    assert newest.exists()


def test_the_folder_of_a_running_emulator_is_never_dropped(tmp_path: Path) -> None:
    running = _ended(tmp_path, age=500)
    with (running / LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        new_state_dir(tmp_path, keep=0)
        assert running.exists()
    new_state_dir(tmp_path, keep=0)
    assert not running.exists()


def test_a_folder_that_was_just_made_is_not_dropped(tmp_path: Path) -> None:
    just_made = new_state_dir(tmp_path)
    new_state_dir(tmp_path, keep=0)
    assert just_made.exists()
