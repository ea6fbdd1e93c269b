from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast_agent.command import script_command, script_environment
from holdfast_agent.contract import JobContext
from holdfast_agent.hosts import Cluster, ConfigurationError, await_name, count_gpus, read_cluster, read_hyperparameters

CONTEXT = JobContext("t/r", "u", "job-a001", 1, "train.py", "0" * 64)


def written(folder: Path, content: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(content))
    return path


def test_hosts_sort_as_text_and_the_first_leads_whatever_its_name(tmp_path: Path) -> None:
    path = written(tmp_path, {"hosts": ["algo-2", "algo-10", "algo-3"], "current_host": "algo-2"})
    cluster = read_cluster(path)
    assert (cluster.hosts, cluster.leader, cluster.rank) == (("algo-10", "algo-2", "algo-3"), "algo-10", 1)


@pytest.mark.parametrize(
    "content", [[], {}, {"hosts": []}, {"hosts": ["algo-1"]}, {"hosts": ["algo-1"], "current_host": "algo-2"}]
)
def test_a_resource_configuration_that_cannot_be_used_is_refused_in_words(tmp_path: Path, content: object) -> None:
    with pytest.raises(ConfigurationError, match="config"):
        read_cluster(written(tmp_path, content))


def test_hyperparameters_become_text_and_a_missing_file_means_none(tmp_path: Path) -> None:
    path = written(tmp_path, {"steps": "100", "layers": 4, "flag": True})
    assert read_hyperparameters(path) == {"steps": "100", "layers": "4", "flag": "true"}
    assert read_hyperparameters(tmp_path / "none.json") == {}


def test_torchrun_gets_the_rendezvous_of_all_hosts_and_the_script_its_hyperparameters() -> None:
    cluster = Cluster(("algo-1", "algo-10"), "algo-10")
    command = script_command(
        "python3",
        context=CONTEXT,
        cluster=cluster,
        processes=8,
        master_port="29400",
        hyperparameters={"width": "64", "lr": "1e-3"},
    )
    assert " ".join(command) == (
        "python3 -m torch.distributed.run --nnodes=2 --nproc_per_node=8 --node_rank=1 --rdzv_backend=static "
        "--master_addr=algo-1 --master_port=29400 --max_restarts=0 train.py --lr 1e-3 --width 64"
    )


def test_the_network_interface_is_set_for_gloo_and_nccl_unless_a_person_chose_one(tmp_path: Path) -> None:
    cluster = Cluster(("algo-1",), "algo-1", "eth0")
    env = script_environment({"NCCL_SOCKET_IFNAME": "efa0"}, tmp_path, tmp_path, cluster, 1)
    assert (env["GLOO_SOCKET_IFNAME"], env["NCCL_SOCKET_IFNAME"]) == ("eth0", "efa0")
    bare = script_environment({}, tmp_path, tmp_path, Cluster(("algo-1",), "algo-1"), 1)
    assert not {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "NCCL_PROTO", "FI_PROVIDER"} & bare.keys()


def test_only_the_leaders_script_is_told_an_incarnation(tmp_path: Path) -> None:
    hosts = ("algo-1", "algo-2")
    told = [script_environment({}, tmp_path, tmp_path, Cluster(hosts, host), 3) for host in hosts]
    assert [env["HOLDFAST_INCARNATION"] for env in told] == ["3", "0"]
    assert [(env["HOLDFAST_HOST_RANK"], env["HOLDFAST_HOST_COUNT"]) for env in told] == [("0", "2"), ("1", "2")]


def test_a_script_for_the_training_toolkit_finds_its_channels_and_not_holdfasts_own(tmp_path: Path) -> None:
    for name in ("agent", "code", "training"):
        (tmp_path / "input" / "data" / name).mkdir(parents=True)
    env = script_environment({}, tmp_path, tmp_path, Cluster(("algo-1",), "algo-1"), 0)
    assert [name for name in env if name.startswith("SM_CHANNEL")] == ["SM_CHANNEL_TRAINING"]
    assert json.loads(env["SM_HOSTS"]) == ["algo-1"]


def test_gpus_are_counted_by_nvidia_smi_else_by_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert count_gpus(tmp_path / "none") == 0
    for number in range(3):
        (tmp_path / "gpus" / str(number)).mkdir(parents=True)
    assert count_gpus(tmp_path / "gpus") == 3
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H100'\necho 'GPU 1: NVIDIA H100'\n")
    tool.chmod(0o755)
    assert count_gpus(tmp_path / "gpus") == 2


def test_a_leaders_name_that_comes_late_is_waited_for_and_one_that_never_comes_is_not() -> None:
    now, answers = [0.0], [OSError(), OSError(), "10.0.0.1"]

    def resolve(host: str) -> object:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer

    def pause(seconds: float) -> None:
        now[0] += seconds

    assert await_name("algo-1", 300, resolve=resolve, pause=pause, clock=lambda: now[0])
    answers[:] = [OSError()]
    assert not await_name("algo-1", 300, resolve=resolve, pause=pause, clock=lambda: now[0])
    assert not await_name("algo-1", 300, resolve=resolve, pause=pause, give_up=lambda: True)
