from dataclasses import replace

from holdfast.core.decide.creation import SETTLES_SECONDS
from holdfast.core.decide.decision import RestStopped, StopJob
from holdfast.core.decide.wish import wish
from holdfast.core.model import Attempt, JobState, Phase, Run
from holdfast.core.observation import Absent, Unknown
from tests.builders import a_manifest, a_run
from tests.observations import NOW, an_observation

ATTEMPT = Attempt(number=1, job="job", spec_hash="s", request_digest="d", intended_at=0.0, seen_at=1.0)


def wanted(state: str, *attempts: Attempt, phase: Phase = Phase.TRAINING) -> Run:
    return a_run(manifest=a_manifest(state=state), attempts=attempts, phase=phase)


def test_a_run_that_is_wanted_running_goes_on() -> None:
    assert wish(wanted("running", ATTEMPT), an_observation()) is None


def test_a_living_job_of_a_run_that_is_wanted_stopped_is_stopped() -> None:
    assert isinstance(wish(wanted("stopped", ATTEMPT), an_observation()), StopJob)


def test_a_job_that_was_stopped_already_is_not_stopped_again() -> None:
    stopped = replace(ATTEMPT, stopped_at=5.0)
    assert wish(wanted("stopped", stopped), an_observation(state=JobState.STOPPING)) is None


def test_a_run_that_waits_rests_at_once() -> None:
    ended = replace(ATTEMPT, ended_at=9.0)
    assert isinstance(wish(wanted("stopped", ended, phase=Phase.WAITING), an_observation()), RestStopped)
    assert isinstance(wish(wanted("stopped", phase=Phase.ACCEPTED), an_observation()), RestStopped)


def test_a_create_that_may_still_arrive_is_waited_for() -> None:
    sent = replace(ATTEMPT, seen_at=None, sent_at=NOW - SETTLES_SECONDS + 1)
    assert wish(wanted("stopped", sent), an_observation(job=Absent())) is None
    settled = replace(ATTEMPT, seen_at=None, sent_at=NOW - SETTLES_SECONDS)
    assert isinstance(wish(wanted("stopped", settled), an_observation(job=Absent())), RestStopped)


def test_an_intent_that_cannot_be_read_does_not_rest_and_one_that_was_never_sent_does() -> None:
    sent = replace(ATTEMPT, seen_at=None, sent_at=1.0)
    assert wish(wanted("stopped", sent), an_observation(job=Unknown("throttled"))) is None
    unsent = replace(ATTEMPT, seen_at=None, sent_at=None)
    assert isinstance(wish(wanted("stopped", unsent), an_observation(job=Unknown("throttled"))), RestStopped)


def test_a_run_that_ended_has_no_wish() -> None:
    assert wish(wanted("stopped", replace(ATTEMPT, ended_at=9.0), phase=Phase.SUCCEEDED), an_observation()) is None
