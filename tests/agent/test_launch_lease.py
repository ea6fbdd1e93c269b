"""The launcher's lease, and the checkpoints of a script below it, against an S3 that evaluates conditions."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from holdfast_agent.contract import Lease, parse_lease, render_lease, step_folder
from tests.agent.conftest import S3Server
from tests.agent.host_trees import REPORT, HostTree, make_host, make_hosts


def with_lease(tree: HostTree, s3: S3Server) -> HostTree:
    tree.environment.update(s3.environment)
    return tree


def test_every_start_of_an_attempt_is_a_new_incarnation_and_an_older_attempt_is_not_started(
    tmp_path: Path, s3: S3Server
) -> None:
    key = f"checkpoints/{tmp_path.name}/lease.json"
    for attempt, incarnation in ((2, 1), (2, 2)):
        tree = with_lease(make_host(tmp_path, REPORT, attempt=attempt, lease_uri=s3.uri(key)), s3)
        launched = tree.run()
        assert launched.process.returncode == 0, launched.output
        assert f"incarnation {incarnation}\n" in launched.output
    old = with_lease(make_host(tmp_path, REPORT, attempt=1, lease_uri=s3.uri(key)), s3)
    launched = old.run()
    assert launched.process.returncode == 86
    # No refusal of the job's own making: the control plane must not take it for the author's mistake.
    assert old.failure.startswith("host algo-1: attempt 1 is fenced")
    assert "arguments" not in launched.output
    assert parse_lease(s3.text(key)) == Lease(2, 2)


def test_only_the_leader_takes_the_lease(tmp_path: Path, s3: S3Server) -> None:
    key = f"checkpoints/{tmp_path.name}/lease.json"
    files = {"train.py": REPORT.encode()}
    hosts = make_hosts(tmp_path, files, hosts=("algo-10", "algo-2"), lease_uri=s3.uri(key), environment=s3.environment)
    outputs = [tree.run().output for tree in hosts]
    assert "incarnation 1\n" in outputs[0]
    assert "incarnation 0\n" in outputs[1]
    assert parse_lease(s3.text(key)) == Lease(1, 1)


def test_an_image_without_boto3_trains_and_says_that_fencing_is_off(tmp_path: Path) -> None:
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "boto3.py").write_text("raise ImportError('not in this image')\n")
    tree = make_host(tmp_path, REPORT, lease_uri="s3://bucket/lease.json", control_uri="s3://bucket/control.json")
    tree.environment["PYTHONPATH"] = str(tmp_path / "shadow")
    launched = tree.run()
    assert launched.process.returncode == 0
    assert "fencing is off" in launched.output
    assert "the image has no boto3" in launched.output
    assert "incarnation 0\n" in launched.output


SAVES = """
import time, holdfast_agent
checkpoints = holdfast_agent.Checkpoints.from_env()
step = 0
while step < 1000:
    step += 1
    checkpoints.save(step, {"state.bin": b"x"})
    time.sleep(0.1)
"""


def test_a_writer_that_is_overtaken_while_frozen_ends_fenced_and_seals_nothing_more(
    tmp_path: Path, s3: S3Server
) -> None:
    key = f"checkpoints/{tmp_path.name}/lease.json"
    tree = with_lease(make_host(tmp_path, SAVES, lease_uri=s3.uri(key)), s3)
    with tree.running() as launched:
        launched.until("phase=sealed attempt=1 step=2")
        frozen = launched.left_behind()
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        s3.put(key, render_lease(Lease(2, 1)))
        sealed = launched.output.count("phase=sealed")
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        assert launched.wait(10) == 86
        # One may have passed its check just before it was frozen.
        assert launched.output.count("phase=sealed") <= sealed + 1
    assert "attempt 2, incarnation 1 owns" in tree.failure


@pytest.mark.parametrize("folder", ["one each", "shared"])
def test_of_two_live_launchers_of_one_attempt_the_later_one_goes_on_alone(
    tmp_path: Path, s3: S3Server, folder: str
) -> None:
    key = f"checkpoints/{tmp_path.name}/lease.json"
    trees = [with_lease(make_host(tmp_path / name, SAVES, lease_uri=s3.uri(key)), s3) for name in ("one", "two")]
    if folder == "shared":
        for tree in trees:
            tree.environment["HOLDFAST_CHECKPOINT_PATH"] = str(tmp_path / "shared")
    with trees[0].running() as first:
        first.until("phase=sealed attempt=1 step=3")
        with trees[1].running() as second:
            assert first.wait(20) == 86, first.output
            second.until("phase=sealed attempt=1 step=6")
            assert second.process.poll() is None
            assert "Traceback" not in second.output
    assert "incarnation 1 is fenced: attempt 1, incarnation 2 owns" in trees[0].failure
    assert trees[1].failure == ""


def test_launchers_that_start_at_once_leave_one_that_goes_on(tmp_path: Path, s3: S3Server) -> None:
    key = f"checkpoints/{tmp_path.name}/lease.json"
    trees = [with_lease(make_host(tmp_path / name, SAVES, lease_uri=s3.uri(key)), s3) for name in ("one", "two")]
    with trees[0].running() as one, trees[1].running() as other:
        deadline = time.monotonic() + 20
        while one.process.poll() is None and other.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        loser, winner = (one, other) if one.process.poll() is not None else (other, one)
        assert loser.wait(1) == 86, loser.output
        winner.until("phase=sealed attempt=1 step=5")
    assert parse_lease(s3.text(key)) == Lease(1, 2)


def test_a_lease_that_is_deleted_costs_a_line_and_no_checkpoint(tmp_path: Path, s3: S3Server) -> None:
    key = f"checkpoints/{tmp_path.name}/lease.json"
    tree = with_lease(make_host(tmp_path, SAVES, lease_uri=s3.uri(key)), s3)
    with tree.running() as launched:
        launched.until("phase=sealed attempt=1 step=2")
        s3.delete(key)
        launched.until("was gone, and this writer has taken it again")
        launched.until("phase=sealed attempt=1 step=8")
        assert "not sealed" not in launched.output
    assert parse_lease(s3.text(key)) == Lease(1, 1)


def test_checkpoints_stay_until_a_newer_one_is_whole_in_s3(tmp_path: Path, s3: S3Server) -> None:
    prefix = f"checkpoints/{tmp_path.name}/"
    tree = make_host(tmp_path, SAVES, checkpoint_keep=2, checkpoint_uri=s3.uri(prefix), environment=s3.environment)
    with tree.running() as launched:
        launched.until("older checkpoints stay until a newer one is whole in S3")
        launched.until("phase=sealed attempt=1 step=6")
        assert (tree.checkpoints / step_folder(1) / "seal.json").exists()
        for path in (tree.checkpoints / step_folder(5)).iterdir():
            s3.put(f"{prefix}{step_folder(5)}/{path.name}", path.read_text())
        launched.until("phase=sealed attempt=1 step=12")
    steps = sorted(path.name for path in tree.checkpoints.iterdir())
    assert steps[0] == step_folder(5)
