import json

from holdfast.core.model import Attempt, Cause, Outcome, Phase
from holdfast.core.status import refused_status, status_of
from tests.builders import a_run


def test_the_status_tells_the_story_of_every_attempt_in_utc() -> None:
    first = Attempt(
        1, "job-1", "s", "d", 10.0, ended_at=90.0, outcome=Outcome.STOPPED, cause=Cause.HANG, reason="It hung.",
        last_step=58, sealed_step=40, hung_at=70.0,
    )  # fmt: skip
    second = Attempt(2, "job-2", "s", "d", 95.0, resumed_from_step=40, last_step=44)
    document = status_of(a_run(phase=Phase.TRAINING, attempts=(first, second)), now=100.0)
    assert json.loads(json.dumps(document)) == document
    assert (document["phase"], document["step"]) == ("training", 44)
    told = document["attempts"]
    assert [one["cause"] for one in told] == ["hang", None]
    assert told[0]["hung"] == "1970-01-01T00:01:10.000+00:00"
    assert told[1]["resumed_from_step"] == 40


def test_health_is_told_of_a_run_that_lives_and_not_of_one_that_is_over() -> None:
    assert status_of(a_run(phase=Phase.TRAINING, health="healthy: step 4"), now=0.0)["health"] == "healthy: step 4"
    assert status_of(a_run(phase=Phase.SUCCEEDED, health="healthy: step 4"), now=0.0)["health"] is None


def test_a_refused_manifest_without_a_run_has_its_errors_and_no_attempts() -> None:
    document = refused_status("research", "tiny", ("template: no such one",), now=0.0)
    assert document["manifest"] == {"accepted": False, "errors": ["template: no such one"], "note": None}
    assert document["attempts"] == []
