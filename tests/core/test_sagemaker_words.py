import botocore.session
import pytest

from holdfast.core.model import JobState
from holdfast.core.sagemaker_words import job_state


def test_a_job_that_ran_out_of_time_is_told_apart_from_one_that_was_stopped() -> None:
    assert job_state("Stopped", "MaxRuntimeExceeded") is JobState.MAX_RUNTIME
    assert job_state("Stopped", "Stopped") is JobState.STOPPED


def test_a_word_that_is_not_known_is_unknown_and_never_terminal() -> None:
    assert job_state("Dreaming", "Deeply") is JobState.UNKNOWN
    assert job_state("InProgress", "Deeply") is JobState.UNKNOWN
    assert not JobState.UNKNOWN.terminal


def test_an_unknown_secondary_word_does_not_hide_a_terminal_status() -> None:
    assert job_state("Failed", "Deeply") is JobState.FAILED


@pytest.mark.parametrize("field", ["TrainingJobStatus", "SecondaryStatus"])
def test_every_word_of_botocores_model_has_a_meaning(field: str) -> None:
    shape = botocore.session.get_session().get_service_model("sagemaker").operation_model("DescribeTrainingJob")
    for word in shape.output_shape.members[field].enum:
        state = job_state(word, "") if field == "TrainingJobStatus" else job_state("InProgress", word)
        known_elsewhere = {"Stopping", "Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded", "Completed", "Failed"}
        if word != "InProgress" and not (field == "SecondaryStatus" and word in known_elsewhere):
            assert state is not JobState.UNKNOWN, word
