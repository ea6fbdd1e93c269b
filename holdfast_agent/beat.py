"""The heartbeat: the one line that SageMaker's metric definitions and the watcher both read.

    beat = holdfast_agent.heartbeat()
    beat.step(step, loss=loss, tokens=batch_tokens)

Only global rank 0 writes, so that a step is one line whatever the number of processes.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Mapping
from typing import Any, Callable

from holdfast_agent.contract import Heartbeat, render_heartbeat
from holdfast_agent.lines import STDOUT, write_line
from holdfast_agent.ranks import Ranks


class Beat:
    """Emits heartbeat lines. `clock` gives monotonic seconds; `emit` takes one line without its newline."""

    def __init__(
        self,
        attempt: int,
        speaks: bool,
        every_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        emit: Callable[[str], None] = lambda line: write_line(STDOUT, line),
    ) -> None:
        self.every_seconds = every_seconds
        self._attempt = attempt
        self._speaks = speaks
        self._clock = clock
        self._emit = emit
        self._emitted_at: float | None = None
        self._tokens = 0.0
        self._tokens_known = True
        # The newest step that has not been written yet: (step, loss as given, tokens a second up to it).
        self._pending: Heartbeat | None = None
        self._pending_loss: Any = None
        self._pending_at = 0.0

    def step(self, step: int, loss: Any = None, tokens: float | None = None) -> None:
        """Call after each optimizer step.

        `loss` is a number or a one-element tensor; it is read only when a line is written, so that a tensor on a GPU
        does not cost a synchronisation each step. `tokens` (or samples) are those of this step over all processes:
        throughput is their sum over the time between two written lines. At most one line in `every_seconds`; the
        first step is always written, and the newest before any other phase.
        """
        if not self._speaks:
            return
        now = self._clock()
        rate = None
        if self._emitted_at is not None:
            self._tokens_known = self._tokens_known and tokens is not None
            self._tokens += tokens or 0.0
            elapsed = now - self._emitted_at
            if self._tokens_known and elapsed > 0:
                rate = self._tokens / elapsed
        self._pending = Heartbeat("step", self._attempt, step=int(step), tokens_per_second=rate)
        self._pending_loss = loss.detach() if hasattr(loss, "detach") else loss
        self._pending_at = now
        if self._emitted_at is None or now - self._emitted_at >= self.every_seconds:
            self._write_step()

    def phase(self, phase: str, step: int | None = None, detail: str | None = None) -> None:
        """Says what the script does now: resume, checkpoint, sealed, eval, finish. Raises ContractError for another.

        `detail` is 1 to 200 characters without blanks.
        """
        line = render_heartbeat(Heartbeat(phase, self._attempt, step=step, detail=detail))
        if not self._speaks:
            return
        self._write_step()
        self._emit(line)

    def _write_step(self) -> None:
        beat, loss = self._pending, self._pending_loss
        if beat is None:
            return
        self._pending = self._pending_loss = None
        self._emitted_at, self._tokens, self._tokens_known = self._pending_at, 0.0, True
        self._emit(
            render_heartbeat(
                Heartbeat(
                    beat.phase,
                    beat.attempt,
                    step=beat.step,
                    loss=None if loss is None else float(loss),
                    tokens_per_second=beat.tokens_per_second,
                )
            )
        )


def heartbeat(every_seconds: float | None = None) -> Beat:
    """This process's heartbeat, the same object each time. `every_seconds` (first: 1.0) is the least time between two
    step lines; 0 writes each step. Outside a Holdfast job it works too, as attempt 0.
    """
    beat = _process_beat()
    if every_seconds is not None:
        beat.every_seconds = every_seconds
    return beat


@functools.cache
def _process_beat() -> Beat:
    return beat_from_env(os.environ)


def beat_from_env(env: Mapping[str, str]) -> Beat:
    attempt = env.get("HOLDFAST_ATTEMPT", "")
    return Beat(attempt=int(attempt) if attempt.isdigit() else 0, speaks=Ranks.from_env(env).rank == 0)
