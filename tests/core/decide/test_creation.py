from dataclasses import replace

import pytest

from holdfast.core.decide.creation import CAUSE_OF_ANSWER, CreateAnswer, creation
from holdfast.core.decide.decision import CreateAttempt, Keep, SendIntent
from holdfast.core.model import Attempt
from holdfast.core.observation import Absent, Unknown
from tests.builders import a_run
from tests.observations import NOW, an_observation

RUN = a_run()
INTENT = Attempt(number=1, job="job", spec_hash=RUN.spec_hash, request_digest="d", intended_at=NOW, request={})


def test_a_run_whose_jobs_are_all_over_gets_an_attempt() -> None:
    assert isinstance(creation(RUN, an_observation(live_jobs=())), CreateAttempt)


def test_a_job_of_the_run_that_lives_holds_it_back() -> None:
    found = creation(RUN, an_observation(live_jobs=("another",)))
    assert isinstance(found, Keep)
    assert "another" in found.reason


@pytest.mark.parametrize("unread", [Unknown("throttled"), None])
def test_not_knowing_what_lives_holds_it_back(unread: Unknown | None) -> None:
    assert isinstance(creation(RUN, an_observation(live_jobs=unread)), Keep)


def test_a_run_waits_for_its_time_and_no_longer() -> None:
    assert isinstance(creation(replace(RUN, due_at=NOW + 1), an_observation()), Keep)
    assert isinstance(creation(replace(RUN, due_at=NOW), an_observation()), CreateAttempt)


def test_an_intent_that_sagemaker_does_not_know_is_sent() -> None:
    run = replace(RUN, attempts=(INTENT,))
    assert isinstance(creation(run, an_observation(job=Absent())), SendIntent)


def test_an_intent_whose_job_cannot_be_read_is_not_sent() -> None:
    run = replace(RUN, attempts=(INTENT,))
    assert isinstance(creation(run, an_observation(job=Unknown("throttled"))), Keep)
    assert isinstance(creation(run, an_observation()), Keep)


def test_an_intent_of_a_manifest_that_changed_is_written_anew_only_if_it_was_certainly_not_sent() -> None:
    run = replace(RUN, attempts=(replace(INTENT, spec_hash="before"),))
    assert isinstance(creation(run, an_observation(job=Absent())), CreateAttempt)
    sent = replace(RUN, attempts=(replace(INTENT, spec_hash="before", sent_at=1.0),))
    assert isinstance(creation(sent, an_observation(job=Absent())), SendIntent)


def test_an_answer_that_says_nothing_of_the_request_costs_no_restart() -> None:
    free = {CreateAnswer.CREATED, CreateAnswer.NAME_TAKEN, CreateAnswer.UNANSWERED}
    assert set(CreateAnswer) - set(CAUSE_OF_ANSWER) == free
