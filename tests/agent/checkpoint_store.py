"""A run's checkpoints in a folder, and the ways in which one of them is damaged."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from holdfast_agent.beat import Beat
from holdfast_agent.checkpoints import Checkpoints
from holdfast_agent.contract import Lease, parse_heartbeat, step_folder
from holdfast_agent.lease import Fence
from holdfast_agent.ranks import Ranks
from holdfast_agent.retention import OpenCopy
from tests.agent.memory_objects import MemoryObjects

LEASE_URI = "s3://bucket/lease"


@dataclass
class Store:
    """A run's checkpoints in a folder, with its lease in memory and its heartbeats in a list."""

    root: Path
    objects: MemoryObjects = field(default_factory=MemoryObjects)
    lines: list[str] = field(default_factory=list)

    def writer(
        self,
        attempt: int = 1,
        keep: int = 3,
        rank: int = 0,
        run: str = "research/moby",
        fenced: bool = False,
        open_copy: OpenCopy = lambda: None,
    ) -> Checkpoints:
        lease = Lease(attempt, 1)
        fence = Fence(self.objects, LEASE_URI, lease) if fenced else None
        return Checkpoints(
            self.root,
            run=run,
            uid="u-1",
            lease=lease,
            keep=keep,
            ranks=Ranks(rank=rank),
            beat=Beat(attempt, speaks=True, emit=self.lines.append),
            open_fence=lambda: fence,
            open_copy=open_copy,
            clock=lambda: 1_700_000_000.0,
        )

    def steps(self) -> list[int]:
        return sorted(int(path.name[5:]) for path in self.root.glob("step-*"))

    def file(self, step: int, name: str = "state.bin") -> Path:
        return self.root / step_folder(step) / name

    def phases(self) -> list[tuple[str, int | None]]:
        return [(beat.phase, beat.step) for line in self.lines if (beat := parse_heartbeat(line))]


def save(store: Store, *steps: int, keep: int = 3) -> None:
    writer = store.writer(keep=keep)
    for step in steps:
        writer.save(step, {"state.bin": f"state of {step}".encode() * 100}, loss=1.0)


def truncate(store: Store) -> None:
    os.truncate(store.file(30), 5)


def flip_a_bit(store: Store) -> None:
    data = bytearray(store.file(30).read_bytes())
    data[len(data) // 2] ^= 1
    store.file(30).write_bytes(data)


def lose_a_file(store: Store) -> None:
    store.file(30).unlink()


def unseal(store: Store) -> None:
    store.file(30, "seal.json").unlink()


def tear_the_seal(store: Store) -> None:
    os.truncate(store.file(30, "seal.json"), 40)


def mix_in_another_save(store: Store) -> None:
    store.file(30).write_bytes(store.file(20).read_bytes())


def put_anothers_folder(store: Store) -> None:
    for path in store.file(20).parent.iterdir():
        store.file(30, path.name).write_bytes(path.read_bytes())


def replace_by_a_link(store: Store) -> None:
    store.file(30).rename(store.root / "elsewhere")
    store.file(30).symlink_to(store.root / "elsewhere")
