from holdfast.core.decide.decision import GiveUp, RestStopped, Succeed, WaitUntil
from holdfast.core.decide.ending import Ending, ending
from holdfast.core.diagnose.cause import WISH, Diagnosis
from holdfast.core.model import Cause, Ledger
from tests.builders import a_manifest


def _end(diagnosis: Diagnosis | None, *, wanted: str = "running") -> Ending:
    return ending(
        diagnosis=diagnosis,
        manifest=a_manifest(state=wanted),
        ledger=Ledger(),
        sealed_step=None,
        uid="uid",
        now=0.0,
    )


def test_a_completed_job_ends_the_run_well() -> None:
    assert isinstance(_end(None).decision, Succeed)


def test_a_completed_job_ends_well_also_where_its_manifest_asks_for_a_stop() -> None:
    assert isinstance(_end(None, wanted="stopped").decision, Succeed)


def test_a_hang_goes_on_in_a_new_attempt() -> None:
    assert isinstance(_end(Diagnosis(Cause.HANG, "hang", "It hung.")).decision, WaitUntil)


def test_a_job_stopped_by_hand_in_sagemaker_is_respected() -> None:
    diagnosis = Diagnosis(Cause.STOPPED_BY_PERSON, "outside-stop", "Somebody stopped it.")
    assert isinstance(_end(diagnosis).decision, RestStopped)


def test_a_job_stopped_for_a_manifest_that_asks_for_running_again_goes_on() -> None:
    diagnosis = Diagnosis(Cause.STOPPED_BY_PERSON, WISH, "As asked.")
    assert isinstance(_end(diagnosis).decision, WaitUntil)
    assert isinstance(_end(diagnosis, wanted="stopped").decision, RestStopped)


def test_a_user_error_fails_the_run_without_a_restart() -> None:
    assert isinstance(_end(Diagnosis(Cause.USER_ERROR, "import-error", "No module.")).decision, GiveUp)


def test_a_failure_rests_where_the_manifest_asks_for_a_stop() -> None:
    diagnosis = Diagnosis(Cause.PLATFORM, "peer-died", "A rank died.")
    assert isinstance(_end(diagnosis, wanted="stopped").decision, RestStopped)
