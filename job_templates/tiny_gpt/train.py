"""Trains TinyGPT; started by the Holdfast agent on every host, under torchrun or alone."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from data import Batches, digest_of, load_text
from model import HEAD_WIDTH, TinyGPT
from torch.nn.parallel import DistributedDataParallel

import holdfast_agent

WARM_UP_STEPS = 20
EXIT_STOPPED = 143  # 128 + SIGTERM: left early because it was told to, so not a success


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small byte-level GPT.")
    parser.add_argument("--steps", type=int, default=400, help="optimizer steps in all, counted from the run's first")
    parser.add_argument("--batch", type=int, default=8, help="sequences a step and process")
    parser.add_argument("--context", type=int, default=64, help="bytes a sequence")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128, help=f"a multiple of {HEAD_WIDTH}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learning_rate", type=float, default=1e-3, help="after a linear warm-up of 20 steps")
    parser.add_argument("--checkpoint_every", type=int, default=50, help="steps")
    parser.add_argument("--min_step_seconds", type=float, default=0.0, help="sleep so that a step lasts at least this")
    parser.add_argument("--heartbeat_every_seconds", type=float, default=0.0, help="0: a heartbeat line each step")
    arguments = parser.parse_args()
    for name in ("steps", "batch", "context", "layers", "width", "checkpoint_every"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if arguments.width % HEAD_WIDTH:
        parser.error(f"--width must be a multiple of {HEAD_WIDTH}, the width of an attention head")
    return arguments


def main() -> int:
    arguments = read_arguments()
    beat = holdfast_agent.heartbeat(every_seconds=arguments.heartbeat_every_seconds)
    rank, ranks, device = join_ranks()
    text = load_text(os.environ.get("SM_CHANNEL_TEXT", ""))
    require_one_text(digest_of(text), rank, len(text))

    torch.manual_seed(arguments.seed)
    model = TinyGPT(arguments.layers, arguments.width, arguments.context).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)
    checkpoints = holdfast_agent.Checkpoints.from_env()
    first_step = restore(checkpoints, model, optimizer, digest_of(text)) + 1

    trained: torch.nn.Module = DistributedDataParallel(model) if ranks > 1 else model
    batches = Batches(
        text, batch=arguments.batch, context=arguments.context, seed=arguments.seed, rank=rank, ranks=ranks
    )
    for step in range(first_step, arguments.steps + 1):
        started = time.monotonic()
        symbols, following = (part.to(device) for part in batches.at(step))
        for group in optimizer.param_groups:
            group["lr"] = arguments.learning_rate * min(1.0, step / WARM_UP_STEPS)
        loss = trained(symbols, following)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean_loss, stop = agree(loss, holdfast_agent.stop_requested(), ranks)
        time.sleep(max(0.0, arguments.min_step_seconds - (time.monotonic() - started)))
        beat.step(step, loss=mean_loss, tokens=symbols.numel() * ranks)
        if stop or step % arguments.checkpoint_every == 0 or step == arguments.steps:
            files = {"state.pt": state_of(model, optimizer, step, digest_of(text))} if rank == 0 else {}
            checkpoints.save(step, files, loss=mean_loss)
        if stop:
            if ranks > 1:
                # Rank 0 may still be saving, and torchrun ends every rank, by force after 30 s, once one has left.
                dist.barrier()
            return EXIT_STOPPED
    if rank == 0:
        write_model(model, Path(os.environ.get("SM_MODEL_DIR", "model")))
    beat.phase("finish", step=arguments.steps)
    if ranks > 1:
        dist.barrier()
        dist.destroy_process_group()
    return 0


def join_ranks() -> tuple[int, int, torch.device]:
    """(rank, ranks, device); connects them where there are several."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if ranks > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return int(os.environ.get("RANK", "0")), ranks, device


def require_one_text(digest: str, rank: int, size: int) -> None:
    """Hosts with different texts would train on something that nobody chose."""
    if dist.is_initialized():
        digests: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(digests, digest)
        if len(set(digests)) > 1:
            raise SystemExit(f"the hosts have different texts: {sorted(set(digests))}")
    if rank == 0:
        print(f"text: {size} bytes, sha256 {digest}")


def restore(checkpoints: Any, model: TinyGPT, optimizer: torch.optim.Optimizer, digest: str) -> int:
    """The step after which training goes on; 0 from nothing."""
    restored = checkpoints.restore()
    if restored is None:
        return 0
    state = restored.load("state.pt")
    if state["text"] != digest:
        raise SystemExit(
            f"the checkpoint of step {restored.step} was trained on the text {state['text']}, not {digest}"
        )
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(restored.step)


def state_of(model: TinyGPT, optimizer: torch.optim.Optimizer, step: int, digest: str) -> dict[str, Any]:
    """No random state: whatever is random is derived from (seed, step, rank), see data.py."""
    return {"step": step, "text": digest, "model": model.state_dict(), "optimizer": optimizer.state_dict()}


def agree(loss: torch.Tensor, stop: bool, ranks: int) -> tuple[float, bool]:
    """Mean loss over the ranks, and whether any was told to stop: they receive the signal at different steps, and one
    that left alone would leave the others waiting. One all-reduce for both."""
    both = torch.stack([loss.detach().float(), torch.tensor(float(stop), device=loss.device)])
    if ranks > 1:
        dist.all_reduce(both)
        both[0] /= ranks
    return float(both[0]), bool(both[1] > 0)


def write_model(model: TinyGPT, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), folder / "model.pt")


if __name__ == "__main__":
    sys.exit(main())
