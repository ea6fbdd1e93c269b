"""The run that `holdfast acceptance` drops by a manifest, as a person's own code: its first attempt freezes itself.

SIGSTOP goes to the agent, which started the script, and then to the script itself, on every host. In a container the
agent is the first process, which the kernel does not let be frozen from within: there it lives on, and can end the job
when it is asked to. In the sandbox it is frozen too, and the watcher has to stop the job.
"""

import argparse
import os
import signal
import sys
import time

import holdfast_agent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--freeze_at", type=int, required=True)
    parser.add_argument("--step_seconds", type=float, required=True)
    asked = parser.parse_args()
    beat = holdfast_agent.heartbeat(every_seconds=0)
    checkpoints = holdfast_agent.Checkpoints.from_env()
    restored = checkpoints.restore()
    first_attempt = os.environ["HOLDFAST_ATTEMPT"] == "1"
    told = False
    for step in range(1 if restored is None else restored.step + 1, asked.steps + 1):
        time.sleep(asked.step_seconds)
        beat.step(step, loss=1 / step)
        stop = holdfast_agent.stop_requested()
        if stop or step % 10 == 0 or step == asked.steps:
            checkpoints.save(step, {"step.txt": str(step).encode()}, loss=1 / step)
        if stop:
            return 143
        if not first_attempt and not told:
            told = True
            print("[acceptance/1] t={:.3f} event=again step={}".format(time.time(), step), flush=True)
        if first_attempt and step == asked.freeze_at:
            print("[acceptance/1] t={:.3f} event=frozen step={}".format(time.time(), step), flush=True)
            os.kill(os.getppid(), signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGSTOP)
    return 0


if __name__ == "__main__":
    sys.exit(main())
