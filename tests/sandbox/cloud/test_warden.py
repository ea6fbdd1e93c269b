from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from sandbox.cloud.guard import ProcessGuard
from sandbox.cloud.warden import kill, watch


def test_it_kills_what_is_guarded_when_the_orders_end() -> None:
    assert watch(["guard 11\n", "guard 12\n"], 10) == ({10, 11, 12}, set())


def test_it_spares_what_was_released() -> None:
    assert watch(["guard 11\n", "release 11\n"], 10) == ({10}, set())


def test_a_folder_to_remove_may_have_blanks_in_its_name() -> None:
    assert watch(["remove /tmp/a folder \n"], 10) == ({10}, {"/tmp/a folder "})


def test_a_group_that_is_gone_does_not_stop_it() -> None:
    gone, there = _sleeper(), _sleeper()
    gone.kill()
    gone.wait()
    kill([gone.pid, there.pid])
    assert there.wait(timeout=5) == -signal.SIGKILL


@pytest.mark.parametrize("stopped", [False, True])
def test_closing_a_guard_kills_the_group(stopped: bool) -> None:
    sleeper = _sleeper()
    if stopped:
        os.kill(sleeper.pid, signal.SIGSTOP)
    ProcessGuard(sleeper.pid).close()
    assert sleeper.wait(timeout=5) == -signal.SIGKILL


def test_closing_a_guard_spares_a_released_group() -> None:
    sleeper = _sleeper()
    guard = ProcessGuard(sleeper.pid)
    guard.release(sleeper.pid)
    guard.close()
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.wait()


def test_closing_a_guard_removes_the_folders_it_was_told_of_and_no_other(tmp_path: Path) -> None:
    for name in ("told of", "other"):
        (tmp_path / name / "deep").mkdir(parents=True)
    sleeper = _sleeper()
    guard = ProcessGuard(sleeper.pid)
    guard.remove_at_the_end(tmp_path / "told of")
    guard.remove_at_the_end(tmp_path / "gone already")
    guard.close()
    sleeper.wait(timeout=5)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def _sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], start_new_session=True)
