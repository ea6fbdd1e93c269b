"""Who this process is among all of the job's: from torchrun's variables, else from the launcher's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HOST_RANK = "HOLDFAST_HOST_RANK"
HOST_COUNT = "HOLDFAST_HOST_COUNT"


@dataclass(frozen=True)
class Ranks:
    """`rank` counts over all hosts, `local_rank` within one; `world` is the number of training processes."""

    rank: int = 0
    local_rank: int = 0
    world: int = 1

    @staticmethod
    def from_env(env: Mapping[str, str]) -> Ranks:
        """A script started once a host (`launch: python`) has no RANK: there the host's number is its rank."""
        return Ranks(
            rank=_number(env, "RANK", _number(env, HOST_RANK, 0)),
            local_rank=_number(env, "LOCAL_RANK", 0),
            world=_number(env, "WORLD_SIZE", _number(env, HOST_COUNT, 1)),
        )


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "")
    return int(text) if text.isdigit() else default
