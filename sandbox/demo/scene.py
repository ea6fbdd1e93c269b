"""The demo as it happens: drop, watch, freeze, wait. Everything here is what a person could do by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from holdfast.core.model import Run
from sandbox.demo.account import Account, Beat
from sandbox.demo.summary import Story
from sandbox.sagemaker.client import FaultClient

TEAM = "research"
MANIFESTS = Path(__file__).parent / "manifests"
LOOK_EVERY_SECONDS = 1.0
# A whole demo is under five minutes on two cores; past this something is broken, and waiting longer hides it.
GIVE_UP_AFTER_SECONDS = 600.0
STEPS_PAST_THE_SEAL = (3, 8)


class DemoError(Exception):
    """The demo did not get where it should, in words."""


@dataclass
class Watched:
    """One run on the stage, with what was told of it so far."""

    name: str
    target_step: int
    frozen_at: float | None = None
    told: set[str] = field(default_factory=set)
    told_step: int = 0


class Scene:
    """`say` prints a line; `clock` is epoch seconds."""

    def __init__(
        self,
        account: Account,
        faults: FaultClient,
        *,
        say: Callable[[str, str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._account = account
        self._faults = faults
        self._say = say
        self._clock = clock

    def drop(self, name: str) -> Watched:
        text = (MANIFESTS / f"{name}.yaml").read_bytes()
        self._account.drop(TEAM, name, text)
        self._say(name, f"dropped manifests/{TEAM}/{name}.yaml")
        return Watched(name, int(yaml.safe_load(text).get("hyperparameters", {}).get("steps", 0)))

    def refused(self, watched: Watched) -> dict[str, Any]:
        """Wait until the manifest was refused, and show what its author reads."""
        status = self._until(lambda: self._account.status(TEAM, watched.name), f"the status of {watched.name}")
        self._say(watched.name, f"{status['phase']}: {status['why']}")
        for error in status["manifest"]["errors"]:
            self._say(watched.name, f"  {error}")
        return status

    def play(self, healthy: Watched, frozen: Watched) -> tuple[Story, Story]:
        """Watch both runs to their ends; freeze the second once it has something to lose."""
        until = self._clock() + GIVE_UP_AFTER_SECONDS
        while True:
            runs = [self._look(one) for one in (healthy, frozen)]
            if frozen.frozen_at is None and runs[1] is not None:
                self._freeze_when_worth_it(frozen, runs[1])
            if all(run is not None and run.phase.terminal and not run.active for run in runs):
                return self._story(healthy), self._story(frozen)
            if self._clock() > until:
                phases = ", ".join(f"{run.id} is {run.phase}: {run.why}" for run in runs if run is not None)
                raise DemoError(
                    f"not finished after {GIVE_UP_AFTER_SECONDS:.0f} s: {phases or 'no run was registered'}"
                )
            time.sleep(LOOK_EVERY_SECONDS)

    def _look(self, watched: Watched) -> Run | None:
        run = self._account.run(TEAM, watched.name)
        if run is None:
            return None
        self._tell_once(watched, f"{run.phase.value}/{run.why}", f"{run.phase.value}: {run.why}")
        if run.suspicion is not None and run.suspicion.polls == 1:
            self._tell_once(watched, f"suspect/{run.next_number}", run.health)
        attempt = run.attempt
        if attempt is not None and attempt.seen_at is not None:
            self._tell_steps(watched, self._account.beats(attempt.job, since=attempt.intended_at))
        return run

    def _tell_once(self, watched: Watched, key: str, words: str) -> None:
        if key not in watched.told:
            watched.told.add(key)
            self._say(watched.name, words)

    def _tell_steps(self, watched: Watched, beats: list[Beat]) -> None:
        """Every 20th step, and each seal and resume."""
        for beat in (one.heartbeat for one in beats):
            key = f"{beat.attempt}/{beat.phase}/{beat.step}"
            if beat.phase == "step" and beat.step is not None and beat.step % 20 == 0 and beat.loss is not None:
                self._tell_once(
                    watched,
                    key,
                    f"attempt {beat.attempt} step {beat.step} of {watched.target_step}, loss {beat.loss:.4f}",
                )
            elif beat.phase in ("sealed", "resume"):
                words = "sealed the checkpoint of" if beat.phase == "sealed" else "resumed from"
                self._tell_once(watched, key, f"attempt {beat.attempt} {words} step {beat.step}")

    def _freeze_when_worth_it(self, watched: Watched, run: Run) -> None:
        attempt = run.attempt
        if attempt is None or attempt.training_at is None:
            return
        sealed = self._account.newest_sealed_step(run)
        steps = [
            beat.heartbeat.step or 0 for beat in self._account.beats(attempt.job) if beat.heartbeat.phase == "step"
        ]
        # Past its second seal and a few steps beyond: there is something to resume from and something to lose. Not too
        # many: the log lags, and the next seal must not come in between.
        if sealed is None or not steps or sealed < watched.target_step // 4:
            return
        if not STEPS_PAST_THE_SEAL[0] <= max(steps) - sealed <= STEPS_PAST_THE_SEAL[1]:
            return
        fault = self._faults.freeze_hosts(attempt.job)
        watched.frozen_at = fault.at
        count = sum(fault.hosts.values())
        self._say(
            watched.name,
            f"FROZEN: SIGSTOP to all {count} processes of {len(fault.hosts)} hosts. The log, which lags, was at step "
            f"{max(steps)}; its last lines are still on their way",
        )

    def _story(self, watched: Watched) -> Story:
        run = self._account.run(TEAM, watched.name)
        if run is None:
            raise DemoError(f"{TEAM}/{watched.name} vanished from the table")
        beats = {one.job: self._account.beats(one.job) for one in run.attempts}
        return Story(run, watched.target_step, beats, watched.frozen_at)

    def _until(self, look: Callable[[], dict[str, Any] | None], what: str, seconds: float = 60.0) -> dict[str, Any]:
        until = self._clock() + seconds
        while self._clock() < until:
            found = look()
            if found is not None:
                return found
            time.sleep(0.2)
        raise DemoError(f"{what} did not come in {seconds:.0f} s")
