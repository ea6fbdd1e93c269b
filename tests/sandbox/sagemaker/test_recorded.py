"""A recording in the place of the sandbox's assumptions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.acceptance import judge_calls, judge_jobs
from holdfast.core.acceptance.finding import Finding, Value, Verdict
from holdfast.core.acceptance.recording import Recording, RecordingError, render_recording
from sandbox.sagemaker import rules
from sandbox.sagemaker.delays import Delay
from sandbox.sagemaker.profile import ASSUMED, AWS, CONTRADICTED
from sandbox.sagemaker.recorded import RECORDED, committed, main, profile_of


def recorded(kind: str = "aws", verdict: Verdict = Verdict.DIFFERENT, **probes: dict[str, Value]) -> Recording:
    findings = {
        probe.replace("_", "-"): Finding(verdict, f"{probe} was seen", values) for probe, values in probes.items()
    }
    return Recording(kind, "us-east-1", "ml.m5.large", "2026-12-01T00:00:00Z", {}, findings)


LOGS: dict[str, Value] = {
    "log_delay_least_seconds": 3.0,
    "log_delay_most_seconds": 18.0,
    "resolution_seconds": 5.0,
}


def test_what_was_recorded_takes_the_place_of_what_was_assumed_and_the_rest_stays() -> None:
    applied = profile_of(
        recorded(log_delay=LOGS, describe_burst={"describes_at_once": 10.0}, stop_grace={"stop_grace_seconds": 121.0}),
        ASSUMED,
    )
    assert applied.profile == replace(
        ASSUMED,
        log_delay=Delay(3.0, 3.0),
        log_flush_seconds=10.0,
        rate_burst_seconds=2.0,
        stop_grace_seconds=121.0,
    )
    assert applied.sourced == ("log_delay", "log_flush_seconds", "rate_burst_seconds", "stop_grace_seconds")
    assert applied.contradicted == ()


def test_an_unknown_keeps_the_assumption() -> None:
    assert profile_of(recorded(verdict=Verdict.UNKNOWN, log_delay=LOGS), ASSUMED).profile == ASSUMED


def test_an_answer_that_the_sandbox_cannot_follow_is_said_and_one_that_it_follows_is_not() -> None:
    against = profile_of(recorded(stop_upload={}, peer_ending={"peer_gets_sigterm": False}), ASSUMED)
    assert [words.partition(":")[0] for words in against.contradicted] == ["peer-ending", "stop-upload"]
    assert "stop_upload was seen" in against.contradicted[1]
    assert profile_of(recorded(verdict=Verdict.AS_ASSUMED, stop_upload={}), ASSUMED).contradicted == ()


def test_host_metrics_that_stop_are_against_the_sandbox_and_those_that_go_on_set_their_period() -> None:
    values: dict[str, Value] = {"host_metric_seconds": 60.0, "values_while_frozen": [0.0, 4.0]}
    assert len(profile_of(recorded(frozen_host_metrics=values), ASSUMED).contradicted) == 1
    applied = profile_of(recorded(frozen_host_metrics={**values, "values_while_frozen": [4.0, 4.0]}), ASSUMED)
    assert (applied.sourced, applied.contradicted) == (("host_metric_seconds",), ())


def test_condition_keys_that_aws_fills_are_against_the_sandbox_which_fills_none() -> None:
    filled: dict[str, Value] = {"filled": ["aws:TagKeys", "sagemaker:InstanceTypes"], "not_filled": []}
    assert len(profile_of(recorded(verdict=Verdict.AS_ASSUMED, condition_keys=filled), ASSUMED).contradicted) == 1
    none: dict[str, Value] = {"filled": ["aws:TagKeys"], "not_filled": ["sagemaker:InstanceTypes"]}
    assert profile_of(recorded(condition_keys=none), ASSUMED).contradicted == ()


@pytest.mark.parametrize("values", [{}, {**LOGS, "log_delay_least_seconds": "soon"}])
def test_an_answer_without_its_figures_is_refused_by_name(values: dict[str, Value]) -> None:
    with pytest.raises(RecordingError, match="'log-delay'"):
        profile_of(recorded(log_delay=values), ASSUMED)


def test_a_committed_recording_is_read_and_only_an_accounts_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "recorded.json"
    assert committed(ASSUMED, path).profile == ASSUMED
    path.write_text(render_recording(recorded(log_delay=LOGS)))
    assert committed(ASSUMED, path).profile.log_delay == Delay(3.0, 3.0)
    path.write_text(render_recording(recorded(kind="emulated", log_delay=LOGS)))
    with pytest.raises(RecordingError, match="only an account is a source"):
        committed(ASSUMED, path)


def test_the_profile_of_this_tree_is_the_assumed_one_with_its_own_recording() -> None:
    applied = committed(ASSUMED)
    assert (applied.profile, applied.contradicted) == (AWS, CONTRADICTED)
    assert RECORDED.exists() == (applied.sourced != () or applied.contradicted != ())


def test_the_command_says_what_a_recording_would_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.json"
    path.write_text(render_recording(recorded(log_delay=LOGS, stop_upload={})))
    assert main([str(path)]) == 0
    told = capsys.readouterr().out
    assert "log_flush_seconds: 5.0 -> 10.0" in told
    assert "stop-upload" in told
    path.write_text("{}")
    assert main([str(path)]) == 1
    assert str(path) in capsys.readouterr().err


def test_the_assumptions_that_an_acceptance_judges_by_are_the_sandboxs_own() -> None:
    assert Delay(*judge_jobs.LOG_DELAY_SECONDS) == ASSUMED.log_delay
    assert Delay(*judge_jobs.METRIC_DELAY_SECONDS) == ASSUMED.metric_delay
    assert ASSUMED.log_flush_seconds == judge_jobs.LOG_FLUSH_SECONDS
    assert ASSUMED.metric_flush_seconds == judge_jobs.METRIC_FLUSH_SECONDS
    assert ASSUMED.stop_grace_seconds == judge_jobs.STOP_GRACE_SECONDS
    assert ASSUMED.peer_grace_seconds == judge_jobs.PEER_GRACE_SECONDS
    describes = ASSUMED.calls_per_second["DescribeTrainingJob"]
    assert describes == judge_calls.DESCRIBES_PER_SECOND
    assert describes * ASSUMED.rate_burst_seconds == judge_calls.BURST_CALLS


@pytest.mark.parametrize("rule", judge_calls.ASSUMED_WORDS)
def test_the_words_that_an_acceptance_expects_of_a_refusal_are_the_sandboxs_own(rule: str) -> None:
    request = {
        "AlgorithmSpecification": {"TrainingImage": "image"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "InputDataConfig": [{"ChannelName": "code", "DataSource": {"S3DataSource": {}}}],
        "StoppingCondition": {},
        "Tags": [{"Key": "a", "Value": "b"}],
    }
    assert rules.refusal(request) is None
    broken = {
        "longest_run": {"StoppingCondition": {"MaxRuntimeInSeconds": 28 * 86_400 + 1}},
        "no_volume": {"ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1}},
        "channel_twice": {"InputDataConfig": [*request["InputDataConfig"], *request["InputDataConfig"]]},
        "tag_twice": {"Tags": [*request["Tags"], *request["Tags"]]},
    }
    assert rules.refusal({**request, **broken[rule]}) == judge_calls.ASSUMED_WORDS[rule]
