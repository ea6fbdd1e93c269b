"""`holdfast acceptance` up to the question: what it refuses, and that it begins nothing before it was agreed to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner, Result

from holdfast.cli import acceptance as command
from holdfast.cli import acceptance_run
from holdfast.cli.main import app
from holdfast.core.acceptance.finding import Finding, Verdict
from holdfast.core.acceptance.probes import PROBES
from holdfast.core.acceptance.recording import Recording, render_recording

Accept = Callable[..., Result]


@pytest.fixture
def accept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Accept]:
    """With credentials of account 123456789012, which is config/example.yaml's. A deployment is a failed test."""

    def deployed(*_: object, **__: object) -> None:
        pytest.fail("it deployed")

    monkeypatch.setattr(acceptance_run, "deploy", deployed)
    monkeypatch.chdir(tmp_path)
    for name, value in (("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("COLUMNS", "200")):
        monkeypatch.setenv(name, value)
    with mock_aws():
        yield lambda *words, answer=None: CliRunner().invoke(
            app, ["acceptance", "--account", *map(str, words)], input=answer, catch_exceptions=False
        )


def test_without_a_terminal_and_without_yes_it_is_refused_after_the_plan_was_shown(accept: Accept) -> None:
    done = accept("example")
    assert done.exit_code == 1
    assert "ml.m5.xlarge at $0.230 an hour" in done.output
    assert "At worst $" in done.output
    assert "with --yes it goes on without asking" in done.output


def test_a_person_who_does_not_agree_starts_nothing(accept: Accept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_is_terminal", lambda: True)
    for answer in ("n\n", "\n"):
        done = accept("example", answer=answer)
        assert done.exit_code == 1, done.output
        assert "nothing was started" in done.output
    assert boto3.client("sagemaker", region_name="us-east-1").list_training_jobs()["TrainingJobSummaries"] == []


def test_a_person_who_agrees_gets_as_far_as_the_deployment(accept: Accept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_is_terminal", lambda: True)
    with pytest.raises(pytest.fail.Exception, match="it deployed"):
        accept("example", answer="y\n")


def test_credentials_of_another_account_are_refused_with_both_accounts(accept: Accept) -> None:
    done = accept("sandbox", "--yes")
    assert done.exit_code == 1
    assert "the config is for account 000000000000, the credentials are of 123456789012" in done.output


def test_a_cap_below_the_worst_case_is_refused_with_the_figures(accept: Accept) -> None:
    done = accept("example", "--yes", "--cost-cap-usd", "0.10")
    assert done.exit_code == 1
    assert "above the cap of $0.10" in done.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nowhere",), "config/nowhere.yaml: cannot be read"),
        (("example", "--team", "strangers"), "--team: 'strangers' is not in the config, which has research"),
        (("example", "--image", "mine"), "--image: 'mine' is not in the config"),
        (("example", "--only", "log-delay,weather"), "--only: weather is none of them"),
        (("example", "--only", ","), "--only: it names nothing"),
    ],
)
def test_a_wrong_option_is_named_with_what_there_is(accept: Accept, words: tuple[str, ...], told: str) -> None:
    done = accept(*words)
    assert done.exit_code == 2
    assert told in done.output


def recording(*answered: str, kind: str = "aws", region: str = "us-east-1", instance_type: str = "ml.m5.xlarge") -> str:
    found = {probe: Finding(Verdict.AS_ASSUMED, "seen") for probe in answered}
    return render_recording(Recording(kind, region, instance_type, "2026-12-01T00:00:00Z", {}, found))


def test_a_second_start_asks_only_what_has_no_answer(accept: Accept, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    out.write_text(recording(*(probe.id for probe in PROBES if probe.trial != "talk")))
    done = accept("example", "--out", out)
    open_ones = sum(1 for probe in PROBES if probe.trial == "talk")
    assert f"{open_ones} questions to this account, by 1 trials" in done.output


def test_a_recording_with_every_answer_starts_nothing_and_needs_no_consent(accept: Accept, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    out.write_text(recording(*(probe.id for probe in PROBES)))
    done = accept("example", "--out", out)
    assert done.exit_code == 0
    assert "every question has its answer" in done.output


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "is not in the format"),
        (recording(kind="emulated"), "was recorded in us-east-1 (emulated); give another --out"),
        (recording(region="eu-west-1"), "was recorded in eu-west-1 (aws); give another --out"),
        (recording(instance_type="ml.c5.xlarge"), "was recorded on ml.c5.xlarge, not on ml.m5.xlarge"),
    ],
)
def test_a_recording_of_something_else_is_not_gone_on_with(
    accept: Accept, tmp_path: Path, text: str, told: str
) -> None:
    out = tmp_path / "r.json"
    out.write_text(text)
    done = accept("example", "--out", out, "--yes")
    assert done.exit_code == 2
    assert told in done.output
    assert out.read_text() == text


def test_a_place_that_cannot_be_written_is_found_before_anything_is_asked(accept: Accept, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = accept("example", "--yes", "--out", tmp_path / "file" / "r.json")
    assert done.exit_code == 2
    assert "r.json: cannot be" in done.output


def test_an_account_without_the_deployment_lets_nothing_begin_and_that_is_said(accept: Accept, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    done = accept("example", "--yes", "--skip-deploy", "--only", "burst", "--out", out)
    assert done.exit_code == 3
    assert "AWS lets nothing begin: NoSuchBucket" in done.output
    assert not out.exists()
