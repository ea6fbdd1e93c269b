"""How late a job's telemetry is: one draw a job, the same for the same job and seed."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Delay:
    """Between the moment that a datum is about and the moment when CloudWatch gets it, in seconds."""

    least_seconds: float
    most_seconds: float

    def draw(self, seed: int, job: str, what: str) -> float:
        """`what` keeps the draws of one job apart: its logs may be early and its metrics late."""
        return random.Random(f"{seed}/{job}/{what}").uniform(self.least_seconds, self.most_seconds)  # noqa: S311
