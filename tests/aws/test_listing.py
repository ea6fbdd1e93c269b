from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.stub import Stubber

from holdfast.aws.listing import Lister, Listing
from holdfast.core.model import JobState
from holdfast.core.sweep import FULL_LIST_EVERY_SECONDS, SweepState
from tests.aws.conftest import REGION
from tests.memory_aws import MemoryAws

NOW = 1_764_000_000.0
SETTLED = SweepState(listed_until=NOW - 60, full_started_at=NOW - 10)
PAGE = {"NameContains": "prod-", "MaxResults": 100, "SortBy": "CreationTime", "SortOrder": "Descending"}


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def summary(name: str, secondary: str = "Training", modified: float = NOW) -> dict[str, Any]:
    return {
        "TrainingJobName": name,
        "TrainingJobArn": f"arn:{name}",
        "CreationTime": at(NOW - 900),
        "LastModifiedTime": at(modified),
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": secondary,
    }


def read(state: SweepState, *answers: tuple[dict[str, Any], dict[str, Any]] | str) -> Listing:
    client = boto3.client("sagemaker", region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")
    lister = Lister(sagemaker=client, environment="prod", now=lambda: NOW, sleep=lambda _: None)
    with Stubber(client) as stub:
        for answer in answers:
            if isinstance(answer, str):
                stub.add_client_error("list_training_jobs", answer)
            else:
                asked, body = answer
                stub.add_response("list_training_jobs", {"TrainingJobSummaries": [], **body}, {**PAGE, **asked})
        listing = lister.read(state, until=NOW + 45)
        stub.assert_no_pending_responses()
    return listing


CHANGED = {"LastModifiedTimeAfter": at(NOW - 180)}
ALL = {"CreationTimeAfter": at(NOW - 60 * 86_400)}


def test_what_changed_since_the_last_whole_sweep_is_listed_with_an_overlap_and_page_by_page() -> None:
    listing = read(
        SETTLED,
        (CHANGED, {"NextToken": "more"}),  # an empty page is not the end
        ({**CHANGED, "NextToken": "more"}, {"TrainingJobSummaries": [summary("prod-a", "Downloading")]}),
    )
    assert listing.whole
    assert listing.summaries["prod-a"].state is JobState.DOWNLOADING


def test_a_name_that_only_contains_the_environment_is_somebody_elses() -> None:
    body = {"TrainingJobSummaries": [summary("nonprod-a"), summary("prod-a")]}
    assert list(read(SETTLED, (CHANGED, body)).summaries) == ["prod-a"]


def test_a_list_that_fails_in_the_middle_is_not_whole_and_keeps_what_it_has() -> None:
    first = {"TrainingJobSummaries": [summary("prod-a")], "NextToken": "more"}
    listing = read(SETTLED, (CHANGED, first), "ThrottlingException")
    assert not listing.whole
    assert list(listing.summaries) == ["prod-a"]
    assert "ThrottlingException" in listing.error


def test_the_hourly_full_list_goes_on_where_the_tick_before_ended() -> None:
    due = SweepState(listed_until=NOW - 60, full_started_at=NOW - FULL_LIST_EVERY_SECONDS)
    pages = [
        (ALL if not page else {**ALL, "NextToken": f"p{page}"}, {"NextToken": f"p{page + 1}"}) for page in range(5)
    ]
    first = read(due, (CHANGED, {}), *pages)
    assert (first.state.full_token, first.state.full_started_at) == ("p5", NOW)
    second = read(
        first.state, (CHANGED, {}), ({**ALL, "NextToken": "p5"}, {"TrainingJobSummaries": [summary("prod-z")]})
    )
    assert (second.state.full_token, list(second.summaries)) == ("", ["prod-z"])
    read(second.state, (CHANGED, {}))  # and rests until the next hour


def test_a_full_list_whose_token_is_no_longer_taken_begins_again_and_one_that_is_throttled_does_not() -> None:
    under_way = SweepState(listed_until=NOW - 60, full_started_at=NOW, full_token="old")
    assert read(under_way, (CHANGED, {}), "ValidationException").state.full_token == ""
    assert read(under_way, (CHANGED, {}), "ThrottlingException").state.full_token == "old"


def test_of_two_summaries_of_one_job_the_later_counts() -> None:
    due = SweepState(listed_until=NOW - 60)
    old, new = summary("prod-a", "Starting", NOW - 9), summary("prod-a", "Training", NOW - 1)
    listing = read(due, (CHANGED, {"TrainingJobSummaries": [new]}), (ALL, {"TrainingJobSummaries": [old]}))
    assert listing.summaries["prod-a"].state is JobState.TRAINING


def test_a_list_stops_where_the_sweep_ends() -> None:
    clock = [NOW]
    aws = MemoryAws(lambda: clock[0])
    lister = Lister(sagemaker=aws.client("sagemaker"), environment="prod", now=lambda: clock[0], sleep=lambda _: None)
    assert not lister.read(SETTLED, until=NOW).whole
    assert not aws.calls
