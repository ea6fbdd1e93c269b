"""Runs from a manifest in S3 to their ends: the deployed functions, IAM enforced, real processes."""

from __future__ import annotations

import json

import pytest

from holdfast.core.model import Cause, Outcome, Phase
from holdfast.core.sweep import MANIFEST_GRACE_SECONDS
from tests.sandbox.whole.conftest import Whole

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module", autouse=True)
def side_by_side(whole: Whole) -> None:
    """All runs of this module start at once and go on beside each other; each test waits for its own."""
    whole.drop("plain", whole.manifest(hyperparameters={"steps": 15}))
    whole.drop("plain", whole.manifest(team="vision", hyperparameters={"steps": 12}), team="vision")
    whole.drop("missing", whole.manifest(hyperparameters={"steps": 5, "module": "no_such_module"}))
    # Slow, so that the job is still training when somebody comes to kill a host of it, also on a busy machine.
    whole.drop("killed", whole.manifest(hosts=2, hyperparameters={"steps": 150, "slow_step_seconds": 2}))
    whole.drop("wished", whole.manifest(hyperparameters={"steps": 400}))
    for name in ("plain", "missing", "killed", "wished"):
        whole.until(name, lambda run: True)
    with whole.no_events_of_manifests():
        whole.drop("unheard", whole.manifest(hyperparameters={"steps": 5}))


def test_a_host_that_dies_is_restarted_from_the_newest_sealed_checkpoint(whole: Whole) -> None:
    begun = whole.until("killed", lambda run: run.attempt and (whole.account.newest_sealed_step(run) or 0) >= 30)
    assert begun.attempt is not None
    whole.faults.kill_hosts(begun.attempt.job, "algo-2")
    run = whole.until_settled("killed")
    first, second = run.attempts
    assert run.phase is Phase.SUCCEEDED
    assert (first.outcome, first.cause) == (Outcome.FAILED, Cause.HARDWARE)
    assert first.sealed_step is not None
    assert first.sealed_step >= 30
    assert second.resumed_from_step == first.sealed_step
    assert second.last_step == 150


def test_a_teams_own_code_trains_to_its_end_and_its_status_says_so(whole: Whole) -> None:
    run = whole.until_settled("plain")
    assert run.phase is Phase.SUCCEEDED
    assert [one.outcome for one in run.attempts] == [Outcome.COMPLETED]
    assert run.attempts[0].last_step == 15
    status = whole.account.status("research", "plain")
    assert status is not None
    assert (status["phase"], status["sealed_step"]) == ("succeeded", 10)


def test_two_teams_with_a_run_of_the_same_name_do_not_meet(whole: Whole) -> None:
    run = whole.until_settled("plain", team="vision")
    assert run.attempts[0].last_step == 12
    job = whole.client("sagemaker").describe_training_job(TrainingJobName=run.attempts[0].job)
    assert job["RoleArn"].endswith("-vision")


def test_a_missing_module_fails_the_run_at_once_with_its_cause_in_words(whole: Whole) -> None:
    run = whole.until_settled("missing")
    assert (run.phase, run.cause) == (Phase.FAILED, Cause.USER_ERROR)
    assert "no_such_module" in run.why
    assert len(run.attempts) == 1


def test_a_run_is_stopped_and_resumed_by_its_manifest(whole: Whole) -> None:
    whole.until("wished", lambda run: run.attempt and (whole.account.newest_sealed_step(run) or 0) >= 20)
    whole.drop("wished", whole.manifest(hyperparameters={"steps": 400}, state="stopped"))
    stopped = whole.until_settled("wished")
    assert (stopped.phase, stopped.cause) == (Phase.STOPPED, Cause.STOPPED_BY_PERSON)
    assert stopped.attempts[0].outcome is Outcome.STOPPED
    reached = whole.account.newest_sealed_step(stopped)
    assert reached is not None
    whole.drop("wished", whole.manifest(hyperparameters={"steps": reached + 10}))
    run = whole.until("wished", lambda run: run.phase is Phase.SUCCEEDED)
    assert run.attempts[1].resumed_from_step == reached


def test_a_manifest_whose_event_was_lost_is_found_by_a_sweep_and_trains(whole: Whole) -> None:
    run = whole.until("unheard", lambda run: run.phase is Phase.SUCCEEDED, seconds=180.0)
    assert run.attempts[0].last_step == 5
    dropped_at = whole.client("s3").head_object(Bucket=whole.config.bucket, Key="manifests/research/unheard.yaml")
    # Not by a late event: the watcher leaves an upload to its event for a minute.
    assert run.registered_at - dropped_at["LastModified"].timestamp() >= MANIFEST_GRACE_SECONDS - 1


def test_the_functions_that_run_are_the_deployed_asset_and_write_their_logs(whole: Whole) -> None:
    whole.until_settled("plain")
    plane = whole.outputs["holdfast-sandbox-control-plane"]
    for name, message in (("IntakeFunction", "manifest"), ("ReconcileFunction", "run")):
        function = whole.client("lambda").get_function(FunctionName=plane[name])["Configuration"]
        assert function["Role"].startswith(f"arn:aws:iam::{whole.config.account}:role/")
        group = function["LoggingConfig"]["LogGroup"]
        events = whole.client("logs").filter_log_events(logGroupName=group)["events"]
        lines = [json.loads(event["message"]) for event in events if event["message"].startswith('{"level"')]
        assert any(line["message"] == message and line["run"] == "research/plain" for line in lines)
