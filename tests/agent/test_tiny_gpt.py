"""The job template on two hosts of loopback, under torchrun: real training, stopped and resumed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from holdfast_agent.contract import parse_heartbeat, step_folder
from tests.agent.host_trees import PACKAGE, HostTree, Launched, free_port, make_hosts

TEMPLATE = PACKAGE.parent / "job_templates" / "tiny_gpt"
HOSTS = ("127.0.0.1", "127.0.0.2")  # names that resolve to loopback without touching /etc/hosts
SMALL = {"steps": "12", "batch": "2", "context": "32", "layers": "2", "width": "64", "checkpoint_every": "4"}


def hosts_of(folder: Path, attempt: int, **hyperparameters: str) -> list[HostTree]:
    template = yaml.safe_load((TEMPLATE / "job.yaml").read_text())
    files = {path.name: path.read_bytes() for path in TEMPLATE.glob("*.py")}
    return make_hosts(
        folder,
        files,
        HOSTS,
        hyperparameters={**SMALL, **hyperparameters},
        environment={**template["environment"], "MASTER_PORT": free_port()},
        entry_point=template["entry_point"],
        launch="torchrun",
        attempt=attempt,
    )


def run_all(trees: Sequence[HostTree], terminate_at: str = "") -> list[Launched]:
    with ExitStack() as stack:
        launched = [stack.enter_context(tree.running()) for tree in trees]
        if terminate_at:
            launched[0].until(terminate_at)
            for one in launched:
                one.process.terminate()
        for one in launched:
            one.wait()
        for one in launched:
            assert one.left_behind() == []
        return launched


def losses(launched: Launched) -> dict[int, float | None]:
    beats = [beat for line in launched.output.splitlines() if (beat := parse_heartbeat(line))]
    return {beat.step: beat.loss for beat in beats if beat.phase == "step" and beat.step is not None}


def test_every_hyperparameter_of_the_template_is_one_that_its_script_takes() -> None:
    template = yaml.safe_load((TEMPLATE / "job.yaml").read_text())
    script = (TEMPLATE / template["entry_point"]).read_text()
    assert [name for name in template["hyperparameters"] if f'"--{name}"' not in script] == []


def test_a_run_that_was_stopped_and_lost_its_newest_checkpoint_goes_on_bit_for_bit(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    whole = run_all(hosts_of(tmp_path / "whole", 1))
    assert [one.process.returncode for one in whole] == [0, 0], whole[0].output
    assert sorted(losses(whole[0])) == list(range(1, 13))
    assert losses(whole[1]) == {}  # one line a step, whatever the number of hosts

    # Stopped by SIGTERM: the ranks agree on a step, the first saves it, and all leave.
    trees = hosts_of(tmp_path / "cut", 1, min_step_seconds="0.2")
    cut = run_all(trees, terminate_at="step=6 ")
    assert [one.process.returncode for one in cut] == [143, 143], cut[0].output
    stopped_at = max(losses(cut[0]))
    assert stopped_at < 12
    leader, follower = (tree.checkpoints for tree in trees)
    assert (leader / step_folder(stopped_at) / "seal.json").exists()
    assert not follower.exists()

    # What the sync does between two attempts: every host gets a copy. On one of them a bit of the newest is flipped.
    shutil.copytree(leader, follower)
    damaged = follower / step_folder(stopped_at) / "state.pt"
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)

    resumed = run_all(hosts_of(tmp_path / "cut", 2))
    assert [one.process.returncode for one in resumed] == [0, 0], resumed[0].output
    assert "phase=resume attempt=2 step=4\n" in resumed[0].output
    assert f"restore skips the checkpoint of step {stopped_at}: state.pt differs" in resumed[1].output
    assert sorted(losses(resumed[0])) == list(range(5, 13))

    # CPU, one thread, two ranks: no tolerance at all.
    uninterrupted = losses(whole[0])
    assert {step: uninterrupted[step] for step in losses(cut[0])} == losses(cut[0])
    assert {step: uninterrupted[step] for step in losses(resumed[0])} == losses(resumed[0])
    final, again = (
        torch.load(tmp_path / name / HOSTS[0] / "model" / "model.pt", weights_only=True) for name in ("whole", "cut")
    )
    assert all(torch.equal(final[name], again[name]) for name in final)
