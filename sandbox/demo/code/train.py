"""A training script without torch, so that the demo's shorter scenes cost two cores little. It counts, and checkpoints.

Real in every other way: started by the agent on each host, with heartbeats and sealed checkpoints.
"""

from __future__ import annotations

import argparse
import importlib
import time

import holdfast_agent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--step_seconds", type=float, default=0.2)
    parser.add_argument("--needs", default="json")
    asked = parser.parse_args()
    importlib.import_module(asked.needs)
    beat = holdfast_agent.heartbeat(every_seconds=0)
    checkpoints = holdfast_agent.Checkpoints.from_env()
    restored = checkpoints.restore()
    for step in range(1 if restored is None else restored.step + 1, asked.steps + 1):
        time.sleep(asked.step_seconds)
        beat.step(step, loss=1 / step, tokens=10)
        if step % 20 == 0:
            checkpoints.save(step, {"state.txt": str(step).encode()}, loss=1 / step)


if __name__ == "__main__":
    main()
