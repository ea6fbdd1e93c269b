"""Each permission that Holdfast has is needed: its statement is taken out of the deployed role, the call that it allows
is seen denied, and once it is back the same run goes on by itself.

What is needed is read from the deployed roles, so a statement that is added later needs a way to be seen here, or a
reason why the sandbox cannot show it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.core.model import Cause, Phase
from holdfast.core.quotas.wishes import InstanceQuota, QuotaNeeds, Quotas
from holdfast.core.sweep import MANIFESTS_EVERY_SWEEPS
from tests.sandbox.whole.cloudformation_answers import taking_answers
from tests.sandbox.whole.conftest import Whole
from tests.sandbox.whole.denied_scene import FUNCTIONS, Scene
from tests.sandbox.whole.policies import Policies, Statement

pytestmark = pytest.mark.end_to_end

TEAM = "vision"
X_RAY = "xray:PutTelemetryRecords+xray:PutTraceSegments"
FAILED_CALLS = "sqs:GetQueueAttributes+sqs:GetQueueUrl+sqs:SendMessage"
WRONG = {"apiVersion": "holdfast/v1", "kind": "TrainingRun", "colour": "red"}
UNSEEN: dict[Statement, str] = {
    (who, X_RAY): "traces go to X-Ray's daemon, which the sandbox lacks; tracing is off in its functions"
    for who in ("intake", "publish", "quotas", "reconcile")
} | {
    ("quotas", "LetServiceQuotasMakeItsRole"): "the sandbox's Service Quotas opens no support cases and needs no role",
}
"""Statements that no run in the sandbox can miss, each with its reason."""

WAYS: dict[Statement, str] = {}
"""Statements and the test in which each is missed."""


def of(who: str, *sids: str) -> tuple[Statement, ...]:
    return tuple((who, sid) for sid in sids)


def missing(*groups: tuple[Statement, ...]) -> Any:
    """The test runs once for each group, `gone`: it takes these statements away, and sees each of them missed."""

    def parametrized(test: Any) -> Any:
        for statement in (one for group in groups for one in group):
            assert statement not in WAYS, f"{statement} is missed in {WAYS[statement]} already"
            WAYS[statement] = test.__name__
        names = ["-".join((group[0][0], *(sid.partition(":")[0] for _, sid in group))) for group in groups]
        return pytest.mark.parametrize("gone", groups, ids=names)(test)

    return parametrized


@pytest.fixture(scope="module")
def scene(whole: Whole) -> Iterator[Scene]:
    """Runs that the tests meet at different moments of their lives begin side by side."""
    functions = [one["FunctionName"] for one in whole.client("lambda").list_functions()["Functions"]]
    roles = {
        name.removeprefix(FUNCTIONS): whole.client("lambda").get_function(FunctionName=name)["Configuration"]["Role"]
        for name in functions
        if name.startswith(FUNCTIONS)
    }
    roles = {who: arn.rpartition("/")[2] for who, arn in roles.items()}
    scene = Scene(whole, Policies(whole, {**roles, "job": whole.config.job_role_name(TEAM)}))
    with whole.no_events_of_manifests():
        whole.drop("denied-unheard", whole.manifest(hyperparameters={"steps": 5}))
    try:
        scene.take_early(("reconcile", "HandLostManifestsToIntake"))
        scene.take_early(("reconcile", "WithdrawControl"))
        whole.drop("denied-long", whole.manifest(hyperparameters={"steps": 100_000}))
        watch = {"stall_after_seconds": 10, "ask_seconds": 5}
        slow = {"steps": 60, "slow_step_seconds": 2}  # still training when somebody comes to freeze or kill it
        whole.drop("denied-hung", whole.manifest(hyperparameters=slow, watch=watch))
        whole.drop("denied-killed", whole.manifest(hyperparameters=slow))
        for name in ("denied-long", "denied-hung", "denied-killed"):
            whole.until(name, lambda run: run.attempt)
        run = whole.until("denied-hung", lambda run: run.attempt and (whole.account.newest_sealed_step(run) or 0) >= 10)
        assert run.attempt is not None
        whole.faults.freeze_hosts(run.attempt.job)
        yield scene
    finally:
        scene.give_back_all()


def test_every_deployed_statement_can_be_missed_here_or_has_its_reason(scene: Scene) -> None:
    unknown = scene.policies.statements - WAYS.keys() - UNSEEN.keys()
    assert not unknown, (
        f"nothing here misses {sorted(unknown)}: add the statement to @missing of a test that needs the call, "
        f"or to UNSEEN with the reason why no run in the sandbox can miss it"
    )
    assert WAYS.keys() | UNSEEN.keys() == scene.policies.statements, "these statements are not deployed any more"
    assert not WAYS.keys() & UNSEEN.keys()


@missing(of("reconcile", "ReadJobLogs"))
def test_a_job_whose_log_may_not_be_read_is_restarted_and_that_is_said(
    scene: Scene, gone: tuple[Statement, ...]
) -> None:
    whole = scene.whole
    with scene.policies.without(*gone) as removed:
        run = whole.until(
            "denied-killed", lambda run: run.attempt and (whole.account.newest_sealed_step(run) or 0) >= 10
        )
        assert run.attempt is not None
        whole.faults.kill_hosts(run.attempt.job)
        removed.until_seen()
        whole.until("denied-killed", lambda run: "FilterLogEvents: AccessDenied" in run.denied)
    assert whole.until_settled("denied-killed").phase is Phase.SUCCEEDED


# -- intake -----------------------------------------------------------------------------------------------------------


@missing(
    of("intake", "List"),
    of("intake", "ReadManifestsSourcesTemplates"),
    of("intake", "Runs"),
    of("intake", "WhichBundle"),
    of("intake", "WriteStatusAndTeamCode"),
)
def test_a_manifest_that_intake_may_not_take_is_said_to_be_untaken_and_is_taken_once_it_may(
    scene: Scene, gone: tuple[Statement, ...]
) -> None:
    whole, name = scene.whole, f"denied-{gone[0][1].lower()[:20]}"
    if gone == of("intake", "WhichBundle"):
        scene.start_afresh("intake")  # else it remembers that for a minute
    with scene.policies.without(*gone) as removed:
        # As a person's own wish, so that no job is in the way of the others'.
        whole.drop(name, whole.manifest(state="stopped", hyperparameters={"steps": 5}))
        answer = scene.invoke("intake", scene.dropped(name))
        removed.until_seen(seconds=5)
        assert f"{name}.yaml was not taken. AWS denied Holdfast a call" in answer["errorMessage"]
        assert "is not authorized to perform" in answer["errorMessage"]
        assert whole.run(name) is None
        status = whole.account.status("research", name)
        if gone not in (of("intake", "Runs"), of("intake", "WriteStatusAndTeamCode")):
            assert status is not None
            assert status["phase"] == "untaken"
            assert "AccessDenied" in status["denied"]
    assert scene.invoke("intake", scene.dropped(name)) == {"run": f"research/{name}", "accepted": True}
    assert whole.until_settled(name).phase is Phase.STOPPED


@missing(of("intake", "Notify"))
def test_a_refused_manifests_people_are_told_once_that_is_allowed(scene: Scene, gone: tuple[Statement, ...]) -> None:
    with scene.policies.without(*gone) as removed:
        scene.whole.drop("denied-refused", WRONG)
        answer = scene.invoke("intake", scene.dropped("denied-refused"))
        removed.until_seen(seconds=5)
        assert "was not taken. AWS denied Holdfast a call: Publish: " in answer["errorMessage"]
    assert scene.invoke("intake", scene.dropped("denied-refused")) == {
        "run": "research/denied-refused",
        "accepted": False,
    }
    status = scene.whole.account.status("research", "denied-refused")
    assert status is not None
    assert status["phase"] == "refused"


@missing(of("intake", "ForgetNoticeThatFailed"))
def test_a_notice_that_failed_and_may_not_be_forgotten_is_sent_at_a_later_try(
    scene: Scene, gone: tuple[Statement, ...]
) -> None:
    """Until its send counts as dead, a minute later, it is said to be under way; Lambda tries for longer."""
    with scene.policies.without(*gone, ("intake", "Notify")) as removed:
        scene.whole.drop("denied-clash", WRONG)
        scene.invoke("intake", scene.dropped("denied-clash"))
        removed.until_seen(seconds=5)
    assert "already in progress" in scene.invoke("intake", scene.dropped("denied-clash"))["errorMessage"]


# -- what every function has ------------------------------------------------------------------------------------------


@missing(tuple(one for who in ("intake", "publish", "reconcile") for one in of(who, "OwnLogs", FAILED_CALLS)))
def test_a_call_that_failed_is_logged_and_kept_where_that_is_allowed(scene: Scene, gone: tuple[Statement, ...]) -> None:
    """An event that no version understands, called as EventBridge calls."""
    functions = {who for who, _ in gone}
    with scene.without_retries(functions):
        with scene.policies.without(*gone) as removed:
            for who in functions:
                scene.send(who, {"mark": "lost"})
            removed.until_seen()
        for who in functions:
            scene.send(who, {"mark": "kept"})
        marks = scene.until_kept({(who, "kept") for who in functions})
    assert not {(who, "lost") for who in functions} & marks


# -- publish ----------------------------------------------------------------------------------------------------------


@missing(of("publish", "ReadBundleAsset"), of("publish", "WriteBundles"))
def test_a_bundle_that_may_not_be_published_fails_the_deployment_in_words(
    scene: Scene, gone: tuple[Statement, ...]
) -> None:
    event = {
        "RequestType": "Update",
        "StackId": "stack",
        "RequestId": "request",
        "LogicalResourceId": "Published",
        "PhysicalResourceId": "templates/before/",
        "ResourceType": "Custom::HoldfastBundle",
        "ResourceProperties": scene.bundle_properties(),
    }
    with taking_answers() as answers:
        event["ResponseURL"] = answers.url
        with scene.policies.without(*gone) as removed:
            scene.invoke("publish", event)
            removed.until_seen(seconds=5)
        scene.invoke("publish", event)
    refused, published = answers.all
    assert (refused["Status"], refused["PhysicalResourceId"]) == ("FAILED", "templates/before/")
    assert "AccessDenied" in refused["Reason"]
    assert published["Status"] == "SUCCESS"


# -- a job's role -----------------------------------------------------------------------------------------------------


@missing(
    of("job", "ListOwnPrefixes"),
    of("job", "LogGroup"),
    of("job", "Metrics"),
    of("job", "PruneCheckpoints"),
    of("job", "PullImages"),
    of("job", "Read"),
    of("job", "RegistryToken"),
)
def test_a_job_whose_role_lacks_a_permission_says_so(scene: Scene, gone: tuple[Statement, ...]) -> None:
    with scene.policies.without(*gone) as removed:
        ended = scene.run_job(TEAM, gone[0][1].lower())
        removed.until_seen(seconds=5)
    assert re.search(r"AccessDenied|[Aa]ccess Denied|not authorized to perform|may not|permissions", ended), ended


@missing(of("job", "LogLines"))
def test_a_job_that_may_not_log_trains_on(scene: Scene, gone: tuple[Statement, ...]) -> None:
    with scene.policies.without(*gone) as removed:
        assert scene.run_job(TEAM, "loglines") == ""
        removed.until_seen(seconds=5)


@missing(of("job", "WriteCheckpointsAndOutput"))
def test_a_run_whose_job_lost_a_permission_fails_in_words_and_resumes_from_its_checkpoint(
    scene: Scene, gone: tuple[Statement, ...]
) -> None:
    whole = scene.whole
    whole.drop(
        "denied-role", whole.manifest(team=TEAM, hyperparameters={"steps": 100, "slow_step_seconds": 2}), team=TEAM
    )
    whole.until(
        "denied-role", lambda run: run.attempt and (whole.account.newest_sealed_step(run) or 0) >= 10, team=TEAM
    )
    with scene.policies.without(*gone) as removed:
        removed.until_seen()
        run = whole.until_settled("denied-role", team=TEAM)
        assert (run.phase, run.cause) == (Phase.FAILED, Cause.USER_ERROR)
        assert "The job's role was denied a call" in run.why
        assert "AccessDenied" in run.why
    reached = whole.account.newest_sealed_step(run)
    assert reached is not None
    whole.drop("denied-role", whole.manifest(team=TEAM, hyperparameters={"steps": reached + 5}), team=TEAM)
    run = whole.until("denied-role", lambda run: run.phase is Phase.SUCCEEDED, team=TEAM)
    assert run.attempts[-1].resumed_from_step == reached


# -- reconcile --------------------------------------------------------------------------------------------------------


@missing(of("reconcile", "PassJobRoles"))
def test_a_run_whose_job_may_not_be_created_waits_for_the_permission_and_then_trains(
    scene: Scene, gone: tuple[Statement, ...]
) -> None:
    whole = scene.whole
    with scene.policies.without(*gone) as removed:
        limits = {"max_run_seconds": 600, "backoff_seconds": 0, "max_restarts": 0}
        whole.drop("denied-waits", whole.manifest(hyperparameters={"steps": 5}, limits=limits))
        removed.until_seen()
        run = whole.until("denied-waits", lambda run: run.phase is Phase.WAITING)
        assert run.cause is Cause.PERMISSION
        assert "iam:PassRole" in run.why
    assert whole.until_settled("denied-waits").phase is Phase.SUCCEEDED


@missing(
    of("reconcile", "ListTrainingJobs", "ReadMetrics", "ReadSealsAndTemplates", "Notify"),
    of("reconcile", "List", "WriteStatusAndControl"),
)
def test_a_training_run_says_which_call_was_denied_until_it_is_allowed_again(
    scene: Scene, gone: tuple[Statement, ...]
) -> None:
    whole = scene.whole
    began = time.time()
    with scene.policies.without(*gone) as removed:
        removed.until_seen()
        run = whole.until("denied-long", lambda run: "AccessDenied" in run.denied)
        assert run.phase is Phase.TRAINING
        assert "is not authorized to perform" in run.denied
        if ("reconcile", "WriteStatusAndControl") not in gone:
            scene.until_status("denied-long", lambda status: status["denied"])
        if ("reconcile", "ListTrainingJobs") in gone:
            scene.until_said("reconcile", "sweep", lambda line: "AccessDenied" in line["words"], began)
    whole.until("denied-long", lambda run: not run.denied and not run.notices)
    scene.until_status("denied-long", lambda status: not status["denied"])


@missing(of("reconcile", "ActiveRuns"), of("reconcile", "Runs"))
def test_a_sweep_that_sees_no_runs_says_which_call_was_denied(scene: Scene, gone: tuple[Statement, ...]) -> None:
    began = time.time()
    with scene.policies.without(*gone) as removed:
        removed.until_seen()
        scene.until_said("reconcile", "sweep", lambda line: "AccessDeniedException" in line["words"], began)
    began = time.time()
    scene.until_said("reconcile", "sweep", lambda line: line["runs"] and not line["words"], began)


@missing(of("reconcile", "OwnTrainingJobs"))
def test_a_stop_that_is_denied_is_said_and_comes_with_the_permission(scene: Scene, gone: tuple[Statement, ...]) -> None:
    whole = scene.whole
    with scene.policies.without(*gone) as removed:
        whole.drop("denied-long", whole.manifest(hyperparameters={"steps": 100_000}, state="stopped"))
        removed.until_seen()
        run = whole.until("denied-long", lambda run: "sagemaker:DescribeTrainingJob" in run.denied)
        assert not run.phase.terminal
    stopped = whole.until_settled("denied-long")
    assert stopped.phase is Phase.STOPPED
    reached = whole.account.newest_sealed_step(stopped)
    assert reached is not None
    whole.drop("denied-long", whole.manifest(hyperparameters={"steps": reached + 5}))
    run = whole.until("denied-long", lambda run: run.phase is Phase.SUCCEEDED)
    assert run.attempts[-1].resumed_from_step == reached


def _register_early() -> None:
    """What is gone since the scene began is missed by the tests below."""
    WAYS["reconcile", "WithdrawControl"] = "test_a_request_to_end_that_may_not_be_taken_back_holds_no_run_up"
    WAYS["reconcile", "HandLostManifestsToIntake"] = "test_a_lost_manifest_waits_until_it_may_be_handed_to_intake"


_register_early()


def test_a_request_to_end_that_may_not_be_taken_back_holds_no_run_up(scene: Scene) -> None:
    scene.early_missed(("reconcile", "WithdrawControl"), meanwhile=scene.sweep)
    run = scene.whole.until_settled("denied-hung")
    assert run.phase is Phase.SUCCEEDED
    assert run.attempts[0].cause is Cause.HANG


def test_a_lost_manifest_waits_until_it_may_be_handed_to_intake(scene: Scene) -> None:
    began = time.time()
    scene.early_missed(("reconcile", "HandLostManifestsToIntake"), meanwhile=scene.sweep)
    scene.until_said("reconcile", "sweep", lambda line: "lambda:InvokeFunction" in line["words"], began - 120)
    for _ in range(MANIFESTS_EVERY_SWEEPS):
        scene.sweep()
    run = scene.whole.until("denied-unheard", lambda run: run.phase is Phase.SUCCEEDED)
    assert run.attempts[0].last_step == 5


# -- quotas -----------------------------------------------------------------------------------------------------------

QUOTA_STATEMENTS = (
    *("OwnLogs", "ReadQuotas", "AskForMore", "WriteStatus", "RecordAndWaitingRuns", "ActiveRuns", "Notify"),
)


@missing(*(of("quotas", sid) for sid in QUOTA_STATEMENTS))
def test_a_look_at_the_quotas_that_is_denied_something_is_made_up_for_by_the_next(
    scene: Scene, gone: tuple[Statement, ...]
) -> None:
    """A quota was raised since, so that there is something to tell and somebody to wake; and one is to be asked for."""
    wish = InstanceQuota(instance_type="ml.c5.xlarge", on_demand=1_000)
    quotas = Quotas(instances=(wish,)) if gone == of("quotas", "AskForMore") else Quotas()
    needs = QuotaNeeds(quotas=quotas, instance_types=("ml.m5.2xlarge",), max_instances_per_run=1)
    scene.invoke("quotas", {"needs": needs.model_copy(update={"quotas": Quotas()}).model_dump_json()})
    raised = 100 + QUOTA_STATEMENTS.index(gone[0][1])
    scene.whole.faults.set_quota("ml.m5.2xlarge for training job usage", raised)
    with scene.policies.without(*gone) as removed:
        scene.invoke("quotas", {"needs": needs.model_dump_json()})
        removed.until_seen()
    scene.invoke("quotas", {"needs": needs.model_dump_json()})
    s3, bucket = scene.whole.client("s3"), scene.whole.config.bucket
    status = json.loads(s3.get_object(Bucket=bucket, Key="status/quotas.json")["Body"].read())
    assert (status["error"], status["problems"]) == (None, 0)
    values = {one["name"]: one["value"] for one in status["quotas"]}
    assert values["ml.m5.2xlarge for training job usage"] == raised


@missing(of("quotas", FAILED_CALLS))
def test_a_deployment_that_cannot_be_answered_is_kept_where_that_is_allowed(
    scene: Scene, gone: tuple[Statement, ...]
) -> None:
    nobody = {"RequestType": "Delete", "ResponseURL": "http://127.0.0.1:9/", "StackId": "s", "RequestId": "r"}
    with scene.without_retries({"quotas"}), scene.policies.without(*gone) as removed:
        scene.send("quotas", nobody)
        removed.until_seen()


def test_with_every_statement_in_place_nothing_is_denied(scene: Scene) -> None:
    """The twin of all the others, and the proof that no call of Holdfast's is refused in silence."""
    whole = scene.whole
    scene.give_back_all()
    before = len(whole.cloud.denials())
    whole.drop("denied-twin", whole.manifest(team=TEAM, hyperparameters={"steps": 15}), team=TEAM)
    assert whole.until_settled("denied-twin", team=TEAM).phase is Phase.SUCCEEDED
    assert scene.run_job(TEAM, "denied-twin") == ""
    roles = set(scene.policies.roles.values())
    assert [one for one in whole.cloud.denials()[before:] if one.role in roles] == []
