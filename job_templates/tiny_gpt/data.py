"""The text, as bytes, and which of them each step sees."""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path

import torch


def load_text(channel: str) -> bytes:
    """The folder's `*.txt` in the order of their names; without a folder, the reference topics that CPython ships for
    its `help()` (about 0.7 MB of English). They differ between Python versions, so all hosts need one image; a
    distribution may leave them out. Raises SystemExit, in words, where there is no text.
    """
    if channel:
        files = sorted(Path(channel).glob("*.txt"))
        if not files:
            raise SystemExit(f"the channel at {channel} holds no *.txt")
        return b"\n".join(path.read_bytes() for path in files)
    try:
        topics = importlib.import_module("pydoc_data.topics").topics
    except ImportError:
        raise SystemExit("this Python comes without pydoc_data; give the job a channel `text` with *.txt") from None
    return "\n".join(topics[name] for name in sorted(topics)).encode()


def digest_of(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def seed_of(*parts: int) -> int:
    """A seed from numbers; any two lists of numbers give unrelated ones."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:7], "big")


class Batches:
    """The batch of a step depends on (seed, step, rank, ranks) and on nothing that went before."""

    def __init__(self, text: bytes, *, batch: int, context: int, seed: int, rank: int, ranks: int) -> None:
        if len(text) <= context + 1:
            raise SystemExit(f"the text has {len(text)} bytes; a context of {context} needs more")
        self._bytes = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        self._batch, self._context, self._seed, self._rank, self._ranks = batch, context, seed, rank, ranks

    def at(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and the bytes that follow them, both of shape (batch, context)."""
        generator = torch.Generator().manual_seed(seed_of(self._seed, step, self._rank, self._ranks))
        starts = torch.randint(len(self._bytes) - self._context, (self._batch, 1), generator=generator)
        window = self._bytes[starts + torch.arange(self._context + 1)].long()
        return window[:, :-1], window[:, 1:]
