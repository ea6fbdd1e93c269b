"""The file that stays: what goes in, what never does, and what is refused as no recording."""

from __future__ import annotations

import json

import pytest

from holdfast.core.acceptance.finding import Finding, Verdict, redacted
from holdfast.core.acceptance.recording import Recording, RecordingError, parse_recording, render_recording

EMPTY = Recording("aws", "us-east-1", "ml.m5.large", "", {"holdfast": "0.1.0"})
ANSWER = Finding(Verdict.DIFFERENT, "it was 7 s", {"log_delay_seconds": 7.0, "names": ["a", "b"], "late": True})
NONE = Finding(Verdict.UNKNOWN, "the job was refused")


def test_a_recording_reads_back_as_it_was_written() -> None:
    recording = EMPTY.with_findings({"log-delay": ANSWER, "product": NONE}, "2026-12-01T10:00:00Z")
    assert parse_recording(render_recording(recording)) == recording


def test_an_unknown_never_takes_the_place_of_an_answer_and_an_answer_takes_that_of_an_unknown() -> None:
    answered = EMPTY.with_findings({"p": ANSWER}, "1")
    assert answered.with_findings({"p": NONE}, "2").findings["p"] == ANSWER
    assert EMPTY.with_findings({"p": NONE}, "1").with_findings({"p": ANSWER}, "2").findings["p"] == ANSWER
    assert answered.answered("p")
    assert not EMPTY.with_findings({"p": NONE}, "1").answered("p")


def test_accounts_arns_and_keys_are_left_out_wherever_they_stand() -> None:
    told = Finding(
        Verdict.DIFFERENT,
        "User: arn:aws:iam::123456789012:user/ann is not authorized",
        {"words": "in 123456789012 with AKIAIOSFODNN7EXAMPLE", "many": ["arn:aws:s3:::bucket-123456789012/x", "b"]},
    )
    text = render_recording(EMPTY.with_findings({"p": told}, "1"))
    for secret in ("123456789012", "ann", "AKIA", "bucket"):
        assert secret not in text
    assert "is not authorized" in text
    assert '"b"' in text


@pytest.mark.parametrize("text", ["1764590400.123", "epoch 1764590400123", "12345678901", "Rate exceeded"])
def test_what_is_no_account_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "is not in the format"),
        ('{"format": "holdfast-acceptance/2"}', "'holdfast-acceptance/2'"),
        ('{"format": "holdfast-acceptance/1"}', "lacks a field"),
    ],
)
def test_what_is_no_recording_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(RecordingError, match=words):
        parse_recording(text)


def test_a_verdict_that_is_none_is_refused_with_the_probes_name() -> None:
    document = json.loads(render_recording(EMPTY.with_findings({"p": ANSWER}, "1")))
    document["findings"]["p"]["verdict"] = "maybe"
    with pytest.raises(RecordingError, match="'p' is 'maybe'"):
        parse_recording(json.dumps(document))
