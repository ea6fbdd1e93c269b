from dataclasses import replace

import pytest

from holdfast.core.diagnose.cause import diagnose
from holdfast.core.model import Attempt, Cause, JobState
from holdfast.core.observation import LogLine, Unknown
from tests.observations import a_job

ATTEMPT = Attempt(number=1, job="job", spec_hash="s", request_digest="d", intended_at=0.0, seen_at=1.0)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("CapacityError: Unable to provision requested ML compute capacity.", Cause.CAPACITY),
        ("InternalServerError: We encountered an internal error.  Please try again.", Cause.PLATFORM),
        ("ClientError: Data download failed: AccessDenied", Cause.USER_ERROR),
        ("ClientError: Artifact upload failed:Error 5: Received a failed archive status.", Cause.USER_ERROR),
        ("AlgorithmError: ModuleNotFoundError: No module named 'flash_attn', exit code: 1", Cause.USER_ERROR),
        ("AlgorithmError: RuntimeError: Connection reset by peer, exit code: 1", Cause.PLATFORM),
        ("AlgorithmError: , exit code: 137", Cause.HARDWARE),
        (
            "AlgorithmError: host algo-1: the script ended with exit code 1: KeyError: 'x' (a.py:3), exit code: 1",
            Cause.USER_ERROR,
        ),
        ("AlgorithmError: host algo-1: the script ended with exit code 2, exit code: 2", Cause.USER_ERROR),
        ("AlgorithmError: Holdfast: entry point train.py is not a file, exit code: 87", Cause.USER_ERROR),
        ("AlgorithmError: botocore.exceptions.ClientError: An error occurred (SlowDown), exit code: 1", Cause.UNKNOWN),
        ("AlgorithmError: server said InternalServerError, exit code: 1", Cause.UNKNOWN),
        ("AlgorithmError: host algo-1: fenced by attempt 3, exit code: 86", Cause.PLATFORM),
        ("AlgorithmError: host algo-1: ended on request, exit code: 85", Cause.HANG),
        ("AlgorithmError: something never seen, exit code: 3", Cause.UNKNOWN),
        ("", Cause.UNKNOWN),
    ],
)
def test_sagemakers_reason_names_the_cause(reason: str, cause: Cause) -> None:
    found = diagnose(a_job(JobState.FAILED, failure_reason=reason), ATTEMPT, ())
    assert found.cause is cause


def test_the_first_error_in_time_beats_the_peers_that_died_of_it() -> None:
    tail = (
        LogLine(12.0, "algo-2", "RuntimeError: Connection reset by peer"),
        LogLine(10.0, "algo-1", "ModuleNotFoundError: No module named 'x'"),
    )
    job = a_job(JobState.FAILED, failure_reason="AlgorithmError: Connection reset by peer, exit code: 1")
    found = diagnose(job, ATTEMPT, tail)
    assert found.cause is Cause.USER_ERROR
    assert "algo-1" in found.basis


@pytest.mark.parametrize(
    "line", ["WARNING skipping sample 17: KeyError: 'image'", "falling back: ImportError: libcudart.so.12"]
)
def test_a_line_that_only_mentions_an_error_is_not_the_cause(line: str) -> None:
    job = a_job(JobState.FAILED, failure_reason="AlgorithmError: , exit code: 137")
    assert diagnose(job, ATTEMPT, (LogLine(10.0, "algo-1", line),)).cause is Cause.HARDWARE
    raised = LogLine(11.0, "algo-1", "[rank1]: ImportError: libcudart.so.12")
    assert diagnose(job, ATTEMPT, (LogLine(10.0, "algo-1", line), raised)).cause is Cause.USER_ERROR


def test_a_log_that_could_not_be_read_leaves_the_cause_unknown_and_says_so() -> None:
    found = diagnose(
        a_job(JobState.FAILED, failure_reason="AlgorithmError: , exit code: 1"), ATTEMPT, Unknown("throttled")
    )
    assert found.cause is Cause.UNKNOWN
    assert "throttled" in found.basis


def test_an_attempt_that_was_found_hung_died_of_that_whatever_its_last_words() -> None:
    hung = replace(ATTEMPT, hung_at=5.0, asked_at=5.0)
    assert (
        diagnose(a_job(JobState.FAILED, failure_reason="AlgorithmError: KeyError: 'a'"), hung, ()).cause is Cause.HANG
    )


def test_a_stop_that_was_not_ours_is_a_persons() -> None:
    found = diagnose(a_job(JobState.STOPPED), ATTEMPT, ())
    assert (found.cause, found.signature) == (Cause.STOPPED_BY_PERSON, "outside-stop")


def test_a_time_limit_is_its_own_cause_and_no_persons_stop() -> None:
    assert diagnose(a_job(JobState.MAX_RUNTIME), ATTEMPT, ()).cause is Cause.MAX_RUNTIME
