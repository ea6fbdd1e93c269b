"""What one sweep reads for all runs at once, and how much it may still read for single ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.aws.evidence import Evidence
from holdfast.core.detect.mass import Doubt, see
from holdfast.core.model import Attempt, JobState, Run
from holdfast.core.observation import Progress, Unknown
from holdfast.core.sweep import Summary
from holdfast.core.watcher_state import WatcherState, take_stock

# DescribeTrainingJob: 5 calls a second, shared with everyone else in the account; a sweep has 45 s and other work.
DESCRIBES_A_SWEEP = 100
REVISITS_A_SWEEP = 40
# Each costs host metrics and up to 20 pages of log.
SUSPECTS_A_SWEEP = 20
# Each costs a listing of checkpoints and two writes. Runs that were registered together refresh apart from then on.
REFRESHES_A_SWEEP = 150
# Beyond the refresh: the age of a metric when CloudWatch delivers it, and a sweep that came late.
WINDOW_MARGIN_SECONDS = 1_200.0


class NotThisTickError(Exception):
    """What the run needs did not fit into this sweep. The next one begins with it."""


@dataclass
class Survey:
    """Spent as the sweep goes on; belongs to one sweep."""

    listed: Mapping[str, Summary] = field(default_factory=dict)
    progress: Mapping[str, Progress | Unknown] = field(default_factory=dict)
    doubt: Doubt | None = None
    """Whether the watcher may be believed; None where nobody counted, and then no hang is."""
    describes: int = DESCRIBES_A_SWEEP
    revisits: int = REVISITS_A_SWEEP
    suspects: int = SUSPECTS_A_SWEEP
    refreshes: int = REFRESHES_A_SWEEP
    missed: bool = False
    """A job that was to be described could not be: its change has to be listed again."""

    def describe(self) -> None:
        """Raises NotThisTickError."""
        if self.describes <= 0:
            raise NotThisTickError("the tick's DescribeTrainingJob calls are used up")
        self.describes -= 1

    def revisit(self) -> bool:
        if self.revisits <= 0 or self.describes <= 0:
            return False
        self.revisits -= 1
        self.describes -= 1
        return True

    def suspect(self) -> None:
        """Raises NotThisTickError."""
        if self.suspects <= 0:
            raise NotThisTickError("the tick's readings of logs and host metrics are used up")
        self.suspects -= 1

    def refresh(self) -> bool:
        self.refreshes -= 1
        return self.refreshes >= 0

    def throttled(self) -> None:
        """SageMaker said so: no more Describes in this sweep. Raises NotThisTickError."""
        self.describes = 0
        raise NotThisTickError("DescribeTrainingJob is throttled")


class Surveyor:
    def __init__(self, *, evidence: Evidence, status_refresh_seconds: float) -> None:
        self._evidence = evidence
        self._window = status_refresh_seconds + WINDOW_MARGIN_SECONDS

    def survey(self, runs: Sequence[Run], listed: Mapping[str, Summary], now: float, watcher: WatcherState) -> Survey:
        """`runs`: all active ones, also those to which the sweep may not come: the doubt is counted over them.

        Never raises botocore's errors: a step that could not be read is Unknown.
        """
        training = [(run, run.attempt) for run in runs if run.attempt is not None and _trains(run.attempt)]
        progress = self._evidence.progress_of_all([attempt for _, attempt in training], self._window, now)
        seen = [see(run, progress.get(attempt.job), now) for run, attempt in training]
        doubt = take_stock(watcher, runs, [one for one in seen if one is not None], now)
        return Survey(listed, progress, doubt)


def _trains(attempt: Attempt) -> bool:
    return attempt.ended_at is None and attempt.described is not None and attempt.described.state is JobState.TRAINING
