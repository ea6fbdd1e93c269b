"""What befalls the demo's runs, and when. Given to the sandbox or done as a person would; the product knows of none."""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.core.model import Run
from sandbox.demo.scene import Scene, Watched
from sandbox.sagemaker.client import FaultClient

Cue = Callable[[Scene, Watched, Run], float | None]

# How far past its newest seal a run is when it is frozen: something to lose, and no next seal in between, since the log
# that tells the step lags.
STEPS_PAST_THE_SEAL = (2, 12)


def freeze(faults: FaultClient) -> Cue:
    """SIGSTOP every process of every host, agents and watchdogs included."""

    def cue(scene: Scene, watched: Watched, run: Run) -> float | None:
        sealed, steps = _progress(scene, run)
        if sealed is None or sealed < watched.target_step // 4 or run.attempt is None:
            return None
        if not steps or not STEPS_PAST_THE_SEAL[0] <= max(steps) - sealed <= STEPS_PAST_THE_SEAL[1]:
            return None
        fault = faults.freeze_hosts(run.attempt.job)
        count = sum(fault.hosts.values())
        scene.say(
            watched,
            f"FROZEN: SIGSTOP to all {count} processes of {len(fault.hosts)} hosts. The log, which lags, was at step "
            f"{max(steps)}; its last lines are still on their way",
        )
        return fault.at

    return cue


def kill_a_host(faults: FaultClient) -> Cue:
    """SIGKILL every process of one host, as a dying machine would."""

    def cue(scene: Scene, watched: Watched, run: Run) -> float | None:
        sealed, steps = _progress(scene, run)
        if sealed is None or not steps or max(steps) <= sealed or run.attempt is None:
            return None
        fault = faults.kill_hosts(run.attempt.job, "algo-2")
        scene.say(watched, f"KILLED: SIGKILL to all processes of host algo-2 past step {max(steps)}")
        return fault.at

    return cue


def take_the_spot_host(faults: FaultClient) -> Cue:
    def cue(scene: Scene, watched: Watched, run: Run) -> float | None:
        sealed, _ = _progress(scene, run)
        if sealed is None or run.attempt is None:
            return None
        faults.interrupt_spot(run.attempt.job)
        scene.say(watched, "INTERRUPTED: AWS takes the spot host away")
        return time.time()

    return cue


def stop_by_hand(scene: Scene, watched: Watched, run: Run) -> float | None:
    """A person calls StopTrainingJob past Holdfast."""
    sealed, _ = _progress(scene, run)
    if sealed is None or run.attempt is None:
        return None
    scene.account.stop(run.attempt.job)
    scene.say(watched, "STOPPED: somebody called StopTrainingJob by hand")
    return time.time()


def _progress(scene: Scene, run: Run) -> tuple[int | None, list[int]]:
    if run.attempt is None or run.attempt.training_at is None or run.attempt.ended_at is not None:
        return None, []
    return scene.account.newest_sealed_step(run), scene.steps(run)
