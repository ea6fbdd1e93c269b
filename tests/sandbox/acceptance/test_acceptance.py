"""`holdfast acceptance` from its deployment to its recording: what it finds are the sandbox's own constants."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from holdfast.core.acceptance.finding import Finding, Verdict
from holdfast.core.acceptance.pace import EMULATED
from holdfast.core.acceptance.probes import PROBES
from holdfast.core.acceptance.recording import Recording
from sandbox.sagemaker.profile import ASSUMED, FAST
from sandbox.sagemaker.recorded import profile_of
from tests.sandbox.acceptance.conftest import Stage, until

pytestmark = pytest.mark.end_to_end

# What cannot be answered here, each with the words of its reason.
NO_ANSWER_HERE = {
    "new-role": "a new role was taken at once",
    "stream-names": "SageMaker retried no job of its own accord",
}
# Where FAST is faster than what is assumed of AWS, and where the sandbox is not like AWS.
DIFFERENT_HERE = {"log-delay", "metric-delay", "late-after-end", "describe-burst", "stop-grace", "condition-keys"}


@pytest.fixture(scope="module")
def everything(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, str]:
    """All of it, the deployment included: the fixture's cloud is an empty account."""
    return stage.accept(tmp_path_factory.mktemp("recorded") / "all.json", "--yes", seconds=420)


def number(finding: Finding, name: str) -> float:
    value = finding.values[name]
    assert isinstance(value, (int, float)), (name, value)
    return value


def test_every_probe_is_answered_or_says_truly_why_not(everything: tuple[Recording, str]) -> None:
    findings, told = everything[0].findings, everything[1]
    assert set(findings) == {probe.id for probe in PROBES}, told
    unanswered = {probe: one.basis for probe, one in findings.items() if one.verdict is Verdict.UNKNOWN}
    assert unanswered.keys() == NO_ANSWER_HERE.keys(), unanswered
    assert all(basis.startswith(NO_ANSWER_HERE[probe]) for probe, basis in unanswered.items()), unanswered
    different = {probe for probe, one in findings.items() if one.verdict is Verdict.DIFFERENT}
    assert different == DIFFERENT_HERE, {probe: findings[probe].basis for probe in different ^ DIFFERENT_HERE}


def test_the_figures_are_the_profiles_that_the_sandbox_runs_with(everything: tuple[Recording, str]) -> None:
    findings, _ = everything
    of = findings.findings
    # Beyond its profile a line waits for the next batch, and then for the next look; a busy machine adds to both.
    least = number(of["log-delay"], "log_delay_least_seconds")
    assert FAST.log_delay.least_seconds <= least <= FAST.log_delay.least_seconds + FAST.log_flush_seconds + 0.5
    assert FAST.log_delay.least_seconds <= number(of["log-delay"], "log_delay_median_seconds") <= 2.5
    assert number(of["metric-delay"], "metric_delay_least_seconds") < FAST.metric_flush_seconds
    assert number(of["stop-grace"], "stop_grace_seconds") == pytest.approx(FAST.stop_grace_seconds, abs=1.5)
    assert number(of["peer-ending"], "peer_grace_seconds") == pytest.approx(FAST.peer_grace_seconds, abs=1.5)
    assert of["late-after-end"].values["late_after_end"] is FAST.late_after_end
    assert number(of["frozen-host-metrics"], "host_metric_seconds") == pytest.approx(FAST.host_metric_seconds, abs=1.0)


def test_the_recording_makes_a_profile_that_is_near_the_one_it_was_made_with(
    everything: tuple[Recording, str],
) -> None:
    applied = profile_of(everything[0], ASSUMED)
    assert applied.contradicted == ()
    assert applied.profile.log_delay.most_seconds < 2.5 < ASSUMED.log_delay.most_seconds
    assert applied.profile.stop_grace_seconds == pytest.approx(FAST.stop_grace_seconds, abs=1.5)
    assert applied.profile.late_after_end is FAST.late_after_end


def test_the_run_was_frozen_found_ended_restarted_stopped_and_resumed_by_holdfast(
    everything: tuple[Recording, str],
) -> None:
    found = everything[0].findings["product"]
    assert found.verdict is Verdict.AS_ASSUMED, found.basis
    assert "cause hang" in found.basis


def test_the_recording_holds_no_account_no_arn_and_no_key(stage: Stage, everything: tuple[Recording, str]) -> None:
    text = json.dumps([[one.basis, dict(one.values)] for one in everything[0].findings.values()])
    assert stage.config.account not in text
    assert "arn:" not in text
    assert "<arn>" in text, "a refusal's words are kept, without the ARN"


def test_nothing_of_it_is_left_in_the_account(stage: Stage, everything: tuple[Recording, str]) -> None:
    assert stage.live_jobs() == []
    assert [one["RoleName"] for one in stage.client("iam").list_roles()["Roles"] if "accept" in one["RoleName"]] == []
    listed = stage.client("s3").list_objects_v2(Bucket=stage.config.bucket, Prefix="data/research/acceptance/")
    assert listed.get("Contents", []) == []


def test_another_delay_and_a_retry_by_sagemaker_itself_are_found_and_only_what_was_open_is_asked_again(
    stage: Stage, everything: tuple[Recording, str], tmp_path: Path
) -> None:
    late = stage.faults.delay_telemetry("sandbox-research-accept-*-talk", log_seconds=6)
    stage.faults.internal_server_error("sandbox-research-accept-*-talk", after_seconds=3)
    out = tmp_path / "late.json"
    try:
        found, _ = stage.accept(out, "--yes", "--skip-deploy", "--only", "log-delay,stream-names")
    finally:
        stage.faults.disarm(late)
    assert set(found.findings) == {"log-delay", "stream-names"}
    assert number(found.findings["log-delay"], "log_delay_least_seconds") >= 6
    assert found.findings["stream-names"].verdict is Verdict.AS_ASSUMED, found.findings["stream-names"].basis
    assert found.findings["stream-names"].values["new_streams"] is True
    before = out.read_text()
    _, told = stage.accept(out, "--yes", "--skip-deploy", "--only", "log-delay,stream-names", seconds=30)
    assert "every question has its answer" in told
    assert out.read_text() == before


def test_ctrl_c_stops_every_job_of_it_and_removes_its_roles(
    stage: Stage, everything: tuple[Recording, str], tmp_path: Path
) -> None:
    process = stage.start("--yes", "--skip-deploy", "--only", "talk,run,keys", "--out", str(tmp_path / "x.json"))
    # The run's own job among them: its end has to be asked for by its manifest, or Holdfast would restart it.
    until(lambda: len([one for one in stage.live_jobs() if one.endswith("-a001")]) == 1, 120, "the run's job")
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 130, told[-3_000:]
    assert "interrupted" in told
    assert "is being stopped" in told
    run = told.split("run research/")[1].split(":")[0]
    status = f"status/research/{run}.json"

    def phase() -> str:
        body = stage.client("s3").get_object(Bucket=stage.config.bucket, Key=status)["Body"].read()
        return str(json.loads(body)["phase"])

    until(lambda: phase() == "stopped", 90, "the run's stop")
    assert stage.live_jobs() == []
    assert [one["RoleName"] for one in stage.client("iam").list_roles()["Roles"] if "accept" in one["RoleName"]] == []


def test_what_a_killed_acceptance_leaves_is_stopped_by_the_next_one(
    stage: Stage, everything: tuple[Recording, str], tmp_path: Path
) -> None:
    process = stage.start("--yes", "--skip-deploy", "--only", "talk", "--out", str(tmp_path / "killed.json"))
    until(lambda: len(stage.live_jobs()) == 1, 60, "the talking job")
    (left,) = stage.live_jobs()
    process.kill()
    process.communicate()
    assert stage.live_jobs() == [left]
    described = stage.client("sagemaker").describe_training_job(TrainingJobName=left)
    assert described["StoppingCondition"]["MaxRuntimeInSeconds"] == EMULATED.longest_direct_seconds
    _, told = stage.accept(tmp_path / "next.json", "--yes", "--skip-deploy", "--only", "keys", seconds=120)
    assert f"{left}, which an earlier acceptance left behind, is being stopped" in told
    until(lambda: stage.live_jobs() == [], 60, "its end")
