"""ListTrainingJobs: what changed since the last whole sweep, and once an hour everything, some pages a tick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.aws.errors import FAILED_READ, THROTTLES, code_of, words_of
from holdfast.core.sagemaker_words import job_state
from holdfast.core.sweep import (
    FULL_LIST_LOOKS_BACK_SECONDS,
    Summary,
    SweepState,
    full_list_is_due,
    window_start,
)

if TYPE_CHECKING:
    from mypy_boto3_sagemaker.client import SageMakerClient

PAGE = 100  # the API's most
CHANGED_PAGES_AT_MOST = 40
FULL_PAGES_A_TICK = 5
# ListTrainingJobs: 2 calls a second, shared with everyone else in the account.
PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class Listing:
    """`whole`: everything that changed in the window is in it. `state` is the one before with the full list's place."""

    summaries: Mapping[str, Summary] = field(default_factory=dict)
    whole: bool = False
    state: SweepState = field(default_factory=SweepState)
    error: str = ""


class Lister:
    """`now` gives epoch seconds; `sleep` takes seconds."""

    def __init__(
        self,
        *,
        sagemaker: SageMakerClient,
        environment: str,
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._sagemaker = sagemaker
        self._prefix = f"{environment}-"
        self._now = now
        self._sleep = sleep

    def read(self, state: SweepState, *, until: float) -> Listing:
        """Never raises botocore's errors: what could not be listed is listed again by the next sweep."""
        found: dict[str, Summary] = {}
        try:
            whole = self._changed(found, state, until)
        except FAILED_READ as error:
            return Listing(found, False, state, f"ListTrainingJobs: {words_of(error)}")
        try:
            return Listing(found, whole, self._some_of_all(found, state, until))
        except FAILED_READ as error:
            # A token that SageMaker no longer takes would fail for ever; a throttled list goes on where it was.
            kept = state if code_of(error) in THROTTLES else replace(state, full_token="", full_started_at=self._now())
            return Listing(found, whole, kept, f"ListTrainingJobs, full: {words_of(error)}")

    def _changed(self, found: dict[str, Summary], state: SweepState, until: float) -> bool:
        call: dict[str, Any] = {"LastModifiedTimeAfter": _when(window_start(state, self._now()))}
        for page in range(CHANGED_PAGES_AT_MOST):
            if page > 1:
                self._sleep(PAUSE_SECONDS)
            if self._now() >= until:
                return False
            token = self._page(found, call)
            if not token:
                return True
            call["NextToken"] = token
        return False

    def _some_of_all(self, found: dict[str, Summary], state: SweepState, until: float) -> SweepState:
        if not full_list_is_due(state, self._now()):
            return state
        if not state.full_token:
            state = replace(state, full_started_at=self._now())
        # The same arguments for each page: a token belongs to the call that gave it.
        call: dict[str, Any] = {"CreationTimeAfter": _when(state.full_started_at - FULL_LIST_LOOKS_BACK_SECONDS)}
        for page in range(FULL_PAGES_A_TICK):
            if page:
                self._sleep(PAUSE_SECONDS)
            if self._now() >= until:
                return state
            if state.full_token:
                call["NextToken"] = state.full_token
            state = replace(state, full_token=self._page(found, call))
            if not state.full_token:
                return state
        return state

    def _page(self, found: dict[str, Summary], call: Mapping[str, Any]) -> str:
        # No StatusEquals: it filters after the page is taken, and so would save no page.
        answer = self._sagemaker.list_training_jobs(
            NameContains=self._prefix, MaxResults=PAGE, SortBy="CreationTime", SortOrder="Descending", **call
        )
        for one in answer["TrainingJobSummaries"]:
            name = one["TrainingJobName"]
            # "Contains" is not "begins with": `prod-` is also in `nonprod-...`.
            if name.startswith(self._prefix):
                summary = Summary(name, _state(one), _modified(one))
                if name not in found or found[name].modified_at <= summary.modified_at:
                    found[name] = summary
        return answer.get("NextToken", "")


def _state(summary: Mapping[str, Any]) -> Any:
    return job_state(summary["TrainingJobStatus"], summary.get("SecondaryStatus", ""))


def _modified(summary: Mapping[str, Any]) -> float:
    at: datetime = summary.get("LastModifiedTime") or summary["CreationTime"]
    return at.timestamp()


def _when(at: float) -> datetime:
    # botocore sends whole seconds; cut here, so that what is asked for is what is sent.
    return datetime.fromtimestamp(int(at), UTC)
