"""A byte-level GPT: learned positions, pre-norm blocks, weights shared between embedding and head."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

SYMBOLS = 256
HEAD_WIDTH = 32


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // HEAD_WIDTH
        self.norm_attention = nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_feed = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        mixed = self.mix(self.norm_attention(x)).view(batch, length, 3, self.heads, HEAD_WIDTH)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        fed: torch.Tensor = self.feed(self.norm_feed(x))
        return x + fed


class TinyGPT(nn.Module):
    """`width` is a multiple of 32, the width of a head."""

    def __init__(self, layers: int, width: int, context: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, width)
        self.position = nn.Parameter(torch.zeros(context, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, symbols: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """Mean cross entropy (nats a byte) of the following bytes."""
        x = self.embedding(symbols) + self.position[: symbols.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.embedding.weight)
        loss: torch.Tensor = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        return loss
