"""The command and the environment of the user's script on one host. Pure: text in, text out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from holdfast_agent.checkpoints import INCARNATION
from holdfast_agent.contract import JobContext
from holdfast_agent.hosts import Cluster
from holdfast_agent.ranks import HOST_COUNT, HOST_RANK

DEFAULT_MASTER_PORT = "29400"


def script_command(
    python: str,
    *,
    context: JobContext,
    cluster: Cluster,
    processes: int,
    master_port: str,
    hyperparameters: Mapping[str, str],
) -> list[str]:
    """`processes` is the number on each host, for torchrun."""
    script = [context.entry_point]
    for key in sorted(hyperparameters):
        script += _option(key, hyperparameters[key])
    if context.launch == "python":
        return [python, *script]
    return [
        python,
        "-m",
        "torch.distributed.run",
        # Underscores: torch before 2.0 knows no hyphens here, and later ones know both.
        f"--nnodes={len(cluster.hosts)}",
        f"--nproc_per_node={processes}",
        f"--node_rank={cluster.rank}",
        "--rdzv_backend=static",
        # One host alone needs no name: its own may not resolve.
        f"--master_addr={cluster.leader if len(cluster.hosts) > 1 else '127.0.0.1'}",
        f"--master_port={master_port}",
        # Restarts are the control plane's: a restart in place would neither take a lease nor be counted.
        "--max_restarts=0",
        *script,
    ]


def _option(key: str, value: str) -> list[str]:
    """`--key value`; in one word where the value begins with a hyphen, which parsers would take for the next option.
    Not always in one word: scripts that read their arguments by hand know the two-word form."""
    return [f"--{key}={value}"] if value.startswith("-") else [f"--{key}", value]


def script_environment(
    env: Mapping[str, str], base: Path, package_folder: Path, cluster: Cluster, incarnation: int
) -> dict[str, str]:
    """What the job's environment becomes for the script. Nothing that a person set is overridden."""
    result = dict(env)
    result["PYTHONPATH"] = ":".join(part for part in (str(package_folder), env.get("PYTHONPATH", "")) if part)
    result[INCARNATION] = str(incarnation if cluster.is_leader else 0)
    result[HOST_RANK] = str(cluster.rank)
    result[HOST_COUNT] = str(len(cluster.hosts))
    defaults = {"PYTHONUNBUFFERED": "1", **_toolkit_variables(base, cluster)}
    if cluster.interface:
        # The container's own entry point would have fixed the host name; without it gloo may bind the wrong interface.
        defaults["GLOO_SOCKET_IFNAME"] = cluster.interface
        defaults["NCCL_SOCKET_IFNAME"] = cluster.interface
    for name, value in defaults.items():
        result.setdefault(name, value)
    return result


def _toolkit_variables(base: Path, cluster: Cluster) -> dict[str, str]:
    """The variables that scripts written for SageMaker's training toolkit read, which does not run here."""
    data = base / "input" / "data"
    channels = sorted(path.name for path in data.iterdir() if path.is_dir()) if data.is_dir() else []
    return {
        "SM_MODEL_DIR": str(base / "model"),
        "SM_OUTPUT_DATA_DIR": str(base / "output" / "data"),
        "SM_CURRENT_HOST": cluster.current,
        "SM_HOSTS": "[" + ", ".join(f'"{host}"' for host in cluster.hosts) + "]",
        **{f"SM_CHANNEL_{name.upper()}": str(data / name) for name in channels if name not in ("agent", "code")},
    }
