"""A training script without torch, for runs that are over in seconds. A team's own code, as a team would write it."""

from __future__ import annotations

import argparse
import time

import holdfast_agent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--step_seconds", type=float, default=0.1)
    parser.add_argument("--slow_step_seconds", type=float, default=0.0, help="from step 40 on, until a restart")
    parser.add_argument("--module", default="json")
    asked = parser.parse_args()
    __import__(asked.module)
    beat = holdfast_agent.heartbeat(every_seconds=0)
    checkpoints = holdfast_agent.Checkpoints.from_env()
    restored = checkpoints.restore()
    for step in range(1 if restored is None else restored.step + 1, asked.steps + 1):
        slow = restored is None and step > 40
        time.sleep(max(asked.step_seconds, asked.slow_step_seconds if slow else 0))
        beat.step(step, loss=1 / step, tokens=10)
        if step % 10 == 0:
            checkpoints.save(step, {"state.txt": str(step).encode()}, loss=1 / step)


if __name__ == "__main__":
    main()
