"""The demo as it happens: drop, watch, act on cue, wait. Everything here is what a person could do by hand."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from holdfast.core.model import Run
from sandbox.demo.account import Account, Beat
from sandbox.demo.summary import Story

TEAM = "research"
FOLDER = Path(__file__).parent
LOOK_EVERY_SECONDS = 1.0
# A whole demo is under five minutes on two cores; past this something is broken, and waiting longer hides it.
GIVE_UP_AFTER_SECONDS = 600.0


class DemoError(Exception):
    """The demo did not get where it should, in words."""


@dataclass
class Watched:
    """One run on the stage, with what was told of it so far. `cued_at`: when its mishap was brought about."""

    name: str
    target_step: int
    cue: Callable[[Scene, Watched, Run], float | None] | None = None
    """Looks at the run and brings its mishap about when the moment has come: the time of it, or None while not yet."""
    cued_at: float | None = None
    told: set[str] = field(default_factory=set)


class Scene:
    """`say` prints a line; `clock` is epoch seconds."""

    def __init__(
        self, account: Account, *, say: Callable[[str, str], None], clock: Callable[[], float] = time.time
    ) -> None:
        self.account = account
        self._say = say
        self._clock = clock

    def give_code(self) -> None:
        """The team's own training code, in the team's own prefix."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            archive.add(FOLDER / "code" / "train.py", "train.py")
        self.account.give(f"data/{TEAM}/code/train.tar.gz", packed.getvalue())

    def drop(self, name: str, cue: Callable[[Scene, Watched, Run], float | None] | None = None) -> Watched:
        text = (FOLDER / "manifests" / f"{name}.yaml").read_bytes()
        self.account.drop(TEAM, name, text)
        self._say(name, f"dropped manifests/{TEAM}/{name}.yaml")
        return Watched(name, int(yaml.safe_load(text).get("hyperparameters", {}).get("steps", 0)), cue)

    def say(self, watched: Watched, words: str) -> None:
        self._say(watched.name, words)

    def refused(self, watched: Watched) -> dict[str, Any]:
        """Wait until the manifest was refused, and show what its author reads."""
        status = self._until(lambda: self.account.status(TEAM, watched.name), f"the status of {watched.name}")
        self._say(watched.name, f"{status['phase']}: {status['why']}")
        for error in status["manifest"]["errors"]:
            self._say(watched.name, f"  {error}")
        return status

    def play(self, first: Sequence[Watched], then: Callable[[], Sequence[Watched]]) -> list[Story]:
        """Watch runs to their ends, side by side, and bring each one's mishap about on its cue.

        `then` drops the rest, once every mishap of the first has been brought about: two cores cannot start them all at
        once and keep a close watch on the one that matters.
        """
        until = self._clock() + GIVE_UP_AFTER_SECONDS
        all_watched, waiting = list(first), True
        while True:
            runs = [self._look(one) for one in all_watched]
            if waiting and all(one.cue is None or one.cued_at is not None for one in first):
                all_watched, waiting = [*all_watched, *then()], False
                continue
            if not waiting and all(run is not None and run.phase.terminal and not run.active for run in runs):
                return [self._story(one) for one in all_watched]
            if self._clock() > until:
                phases = ", ".join(f"{run.id} is {run.phase}: {run.why}" for run in runs if run is not None)
                words = phases or "no run was registered"
                raise DemoError(f"not finished after {GIVE_UP_AFTER_SECONDS:.0f} s: {words}")
            time.sleep(LOOK_EVERY_SECONDS)

    def steps(self, run: Run) -> list[int]:
        """Steps of the newest attempt so far, as its log tells them, which lags."""
        if run.attempt is None:
            return []
        beats = self.account.beats(run.attempt.job)
        return [one.heartbeat.step or 0 for one in beats if one.heartbeat.phase == "step"]

    def _look(self, watched: Watched) -> Run | None:
        run = self.account.run(TEAM, watched.name)
        if run is None:
            return None
        self._tell_once(watched, f"{run.phase.value}/{run.why}", f"{run.phase.value}: {run.why}")
        if run.suspicion is not None and run.suspicion.polls == 1:
            self._tell_once(watched, f"suspect/{run.next_number}", run.health)
        attempt = run.attempt
        if attempt is not None and attempt.seen_at is not None:
            self._tell_steps(watched, self.account.beats(attempt.job))
        if watched.cue is not None and watched.cued_at is None:
            watched.cued_at = watched.cue(self, watched, run)
        return run

    def _tell_once(self, watched: Watched, key: str, words: str) -> None:
        if key not in watched.told:
            watched.told.add(key)
            self._say(watched.name, words)

    def _tell_steps(self, watched: Watched, beats: list[Beat]) -> None:
        """Every 40th step, and each resume."""
        for beat in (one.heartbeat for one in beats):
            key = f"{beat.attempt}/{beat.phase}/{beat.step}"
            if beat.phase == "step" and beat.step is not None and beat.step % 40 == 0 and beat.loss is not None:
                words = f"attempt {beat.attempt} step {beat.step} of {watched.target_step}, loss {beat.loss:.4f}"
                self._tell_once(watched, key, words)
            elif beat.phase == "resume":
                self._tell_once(watched, key, f"attempt {beat.attempt} resumed from step {beat.step}")

    def _story(self, watched: Watched) -> Story:
        run = self.account.run(TEAM, watched.name)
        if run is None:
            raise DemoError(f"{TEAM}/{watched.name} vanished from the table")
        beats = {one.job: self.account.beats(one.job) for one in run.attempts}
        lives = self.account.lives(run.attempts[-1].job) if run.attempts else 0
        return Story(run, watched.target_step, beats, watched.cued_at, lives)

    def _until(self, look: Callable[[], dict[str, Any] | None], what: str, seconds: float = 60.0) -> dict[str, Any]:
        until = self._clock() + seconds
        while self._clock() < until:
            found = look()
            if found is not None:
                return found
            time.sleep(0.2)
        raise DemoError(f"{what} did not come in {seconds:.0f} s")
