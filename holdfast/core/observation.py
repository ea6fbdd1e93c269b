"""What was seen of one run at one moment. Frozen; the core decides from this and from nothing else.

A read that failed is `Unknown` and says why. It is a third answer: not "no", not "zero", and never a reason to stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.core.model import JobState

if TYPE_CHECKING:
    # At run time the quotas' own modules need this one's Unknown.
    from holdfast.core.quotas.preflight import QuotaFacts


@dataclass(frozen=True)
class Unknown:
    """A reading that could not be had: throttled, denied, timed out."""

    why: str
    throttled: bool = False
    denied: bool = False
    """For want of a permission of Holdfast's own: it lasts until somebody gives it back."""


@dataclass(frozen=True)
class Absent:
    """SageMaker knows no job of that name."""


@dataclass(frozen=True)
class Job:
    """One training job as SageMaker describes it. `ours`: its tags equal the intent that asked for it."""

    name: str
    state: JobState
    ours: bool
    failure_reason: str = ""
    training_at: float | None = None
    ended_at: float | None = None
    modified_at: float | None = None
    """LastModifiedTime; None where the job was not described at this moment but is as it was described before."""


@dataclass(frozen=True)
class Progress:
    """What the job's standard output told: the step metric and, for a suspect, the log.

    All of it is one source. `step_at` and `log_at` are the times that CloudWatch gives the newest point and line.
    """

    step: int | None = None
    step_at: float | None = None
    log_at: float | None = None
    resumed_from_step: int | None = None


@dataclass(frozen=True)
class HostSeries:
    """One metric of one host, oldest first: (epoch seconds, value in percent, 100 a core or a GPU)."""

    host: str
    metric: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Seals:
    """Checkpoints of the run's lineage. `skipped` says, in words, what is not whole."""

    newest_step: int | None = None
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogLine:
    at: float
    host: str
    text: str


@dataclass(frozen=True)
class Observation:
    """None means "not asked for at this moment"; Unknown means "asked for and not answered"."""

    now: float
    job: Job | Absent | Unknown | None = None
    progress: Progress | Unknown | None = None
    hosts: tuple[HostSeries, ...] | Unknown | None = None
    seals: Seals | Unknown | None = None
    tail: tuple[LogLine, ...] | Unknown | None = None
    live_jobs: tuple[str, ...] | Unknown | None = None
    quotas: QuotaFacts | Unknown | None = None
    """Read only where a create may follow."""
    highest_number: int | None = None
    """Read with `live_jobs`: the highest attempt number of any job of this run's name, also of one the table forgot."""

    @property
    def denied(self) -> tuple[str, ...]:
        """What could not be read for want of a permission, in words."""
        readings = (self.job, self.progress, self.hosts, self.seals, self.tail, self.live_jobs)
        return tuple(one.why for one in readings if isinstance(one, Unknown) and one.denied)
