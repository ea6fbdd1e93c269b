"""All trials of an acceptance beside each other, no more instances at once than allowed, and their end in any case."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.aws.acceptance import calls, single_jobs
from holdfast.aws.acceptance.bench import Bench, HaltedError
from holdfast.aws.acceptance.run_trial import RunTrial
from holdfast.aws.errors import FAILED_READ, words_of
from holdfast.core.acceptance.probes import Trial
from holdfast.core.acceptance.seen import Missing, Seen

Make = Callable[[Callable[[], None]], Seen | Missing]
_LOOK_SECONDS = 0.5
_JOIN_SECONDS = 20.0


class Instances:
    """So many may be in use at once; who came first gets them first."""

    def __init__(self, total: int) -> None:
        self._free = total
        self._total = total
        self._queue: list[object] = []
        self._changed = threading.Condition()

    def take(self, count: int, halted: Callable[[], bool]) -> Callable[[], None]:
        """Waits. Returns what gives them back, once however often it is called. Raises HaltedError."""
        count = min(count, self._total)
        place = object()
        with self._changed:
            self._queue.append(place)
            try:
                while not (self._queue[0] is place and self._free >= count):
                    if halted():
                        raise HaltedError
                    self._changed.wait(_LOOK_SECONDS)
                self._free -= count
            finally:
                self._queue.remove(place)
                self._changed.notify_all()
        given_back = threading.Event()

        def release() -> None:
            with self._changed:
                if not given_back.is_set():
                    given_back.set()
                    self._free += count
                    self._changed.notify_all()

        return release


class Session:
    """`on_seen` is told of each trial that is over, on the thread of `run`."""

    def __init__(
        self, bench: Bench, *, template: str, jobs_folder: Path, on_seen: Callable[[str, Seen | Missing], None]
    ) -> None:
        self._bench = bench
        self._on_seen = on_seen
        self._folder = jobs_folder
        self._run_trial = RunTrial(bench, template, jobs_folder)
        self._instances = Instances(bench.pace.instances_at_once)
        self._threads: list[threading.Thread] = []
        self._over: dict[str, Seen | Missing | None] = {}
        self._changed = threading.Condition()
        self._make: dict[str, Make] = {
            "burst": lambda release: calls.burst(bench, release),
            "calls": lambda release: calls.calls(bench, release),
            "keys": lambda release: calls.keys(bench, release),
            "talk": lambda release: single_jobs.talk(bench, release),
            "linger": lambda release: single_jobs.linger(bench, release),
            "peers": lambda release: single_jobs.peers(bench, release),
            "muted": lambda release: single_jobs.muted(bench, release),
            "pool": lambda release: single_jobs.pool(bench, release),
            "run": self._run_trial,
        }

    def run(self, trials: Sequence[Trial]) -> None:
        """Until all are over. Raises botocore's errors where nothing can begin; KeyboardInterrupt goes through."""
        self._upload()
        wanted = {trial.id for trial in trials}
        self._threads = [
            threading.Thread(target=self._try, args=(trial, wanted), name=f"trial {trial.id}", daemon=True)
            for trial in trials
        ]
        for thread in self._threads:
            thread.start()
        told: set[str] = set()
        while len(told) < len(self._threads):
            with self._changed:
                self._changed.wait(_LOOK_SECONDS)
                new = {trial: seen for trial, seen in self._over.items() if trial not in told}
            for trial, seen in new.items():
                told.add(trial)
                if seen is not None:
                    self._on_seen(trial, seen)

    def end(self) -> list[str]:
        """Stop and remove everything; what is left, in words. To be called in any case, and safe to call twice."""
        self._bench.halt.set()
        until = time.monotonic() + _JOIN_SECONDS
        for thread in self._threads:
            # A create that is under way must have had its answer before it is looked for what there is to stop.
            thread.join(max(0.0, until - time.monotonic()))
        left: list[str] = []
        try:
            left += self._run_trial.end()
        except FAILED_READ as error:
            left.append(f"the run of this acceptance could not be ended: {words_of(error)}")
        return left + self._bench.clear()

    # -- inner -------------------------------------------------------------------------------------------------------

    def _upload(self) -> None:
        data = self._bench.place.data
        self._bench.put(f"{data}probe.py", (self._folder / "probe.py").read_bytes())
        self._bench.put(f"{data}a/b/leaf.txt", b"leaf")

    def _try(self, trial: Trial, wanted: set[str]) -> None:
        seen: Seen | Missing | None = None
        try:
            self._wait_for(set(trial.after) & wanted)
            release = self._instances.take(trial.hosts, self._bench.halt.is_set)
            try:
                self._bench.say(f"{trial.id}: {trial.what}")
                seen = self._make[trial.id](release)
            finally:
                release()
        except HaltedError:
            pass
        except FAILED_READ as error:
            seen = Missing(f"AWS did not answer as it should: {words_of(error)}")
        except Exception as error:  # noqa: BLE001 - one trial's mistake must not leave the others' jobs running
            seen = Missing(f"a mistake in the trial itself: {type(error).__name__}: {error}")
        finally:
            with self._changed:
                self._over[trial.id] = seen
                self._changed.notify_all()

    def _wait_for(self, others: set[str]) -> None:
        with self._changed:
            while not others <= self._over.keys():
                if self._bench.halt.is_set():
                    raise HaltedError
                self._changed.wait(_LOOK_SECONDS)
