from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_agent.contract import (
    METRIC_REGEXES,
    PHASES,
    ContractError,
    EndRequest,
    Heartbeat,
    JobContext,
    Lease,
    Seal,
    SealedFile,
    parse_end_request,
    parse_heartbeat,
    parse_lease,
    parse_seal,
    render_end_request,
    render_heartbeat,
    render_lease,
    render_seal,
    step_folder,
    step_of_folder,
)

naturals = st.integers(min_value=0, max_value=10**12)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
words = st.text(min_size=1, max_size=40)
parts = st.text("abcxyz019._-", min_size=1, max_size=12).filter(lambda part: part not in (".", ".."))
paths = st.lists(parts, min_size=1, max_size=4).map("/".join)
seals = st.builds(
    Seal,
    run=words,
    uid=words,
    attempt=naturals,
    incarnation=naturals,
    step=naturals,
    world_size=naturals,
    files=st.lists(
        st.builds(SealedFile, paths, naturals, digests), min_size=1, max_size=5, unique_by=lambda f: f.path
    ).map(tuple),
    loss_finite=st.booleans(),
    sealed_at=st.floats(min_value=0, max_value=1e12),
)
beats = st.builds(
    Heartbeat,
    phase=st.sampled_from(PHASES),
    attempt=naturals,
    step=st.none() | naturals,
    loss=st.none() | st.floats(),
    tokens_per_second=st.none() | st.floats(min_value=0, max_value=1e12),
    detail=st.none() | st.from_regex(r"[!-~]{1,60}", fullmatch=True),
)


def same(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-5) or a == b


@given(beats, st.sampled_from(["", "algo-1: ", "2026-12-01T00:00:00 "]))
def test_a_heartbeat_reads_back_as_it_was_written_wherever_it_stands_in_the_line(beat: Heartbeat, prefix: str) -> None:
    found = parse_heartbeat(prefix + render_heartbeat(beat))
    assert found is not None
    assert (found.phase, found.attempt, found.step, found.detail) == (beat.phase, beat.attempt, beat.step, beat.detail)
    assert same(found.loss, beat.loss)
    assert same(found.tokens_per_second, beat.tokens_per_second)


@given(st.text(max_size=200))
def test_a_line_without_a_heartbeat_is_none_and_never_an_error(line: str) -> None:
    assert parse_heartbeat(line.replace("[holdfast/", "[other/")) is None


def test_the_metric_definitions_read_the_line_that_the_agent_writes() -> None:
    step = render_heartbeat(Heartbeat("step", 2, step=120, loss=2.4131512, tokens_per_second=812.4))
    sealed = render_heartbeat(Heartbeat("sealed", 2, step=100))
    assert {name: m.group(1) for name, regex in METRIC_REGEXES.items() if (m := re.search(regex, step))} == {
        "holdfast:step": "120",
        "holdfast:loss": "2.41315",
        "holdfast:tokens_per_second": "812.4",
    }
    assert {name: m.group(1) for name, regex in METRIC_REGEXES.items() if (m := re.search(regex, sealed))} == {
        "holdfast:sealed_step": "100"
    }


@pytest.mark.parametrize("beat", [Heartbeat("dancing", 1), Heartbeat("step", 1, detail="two words")])
def test_a_heartbeat_that_could_not_be_read_back_is_refused(beat: Heartbeat) -> None:
    with pytest.raises(ContractError):
        render_heartbeat(beat)


@given(seals)
def test_a_seal_reads_back_as_it_was_written(seal: Seal) -> None:
    assert parse_seal(render_seal(seal)) == seal


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "", "a//b", "a\\..\\b"])
def test_a_seal_that_names_a_file_outside_its_folder_is_refused(path: str) -> None:
    seal = Seal("t/r", "u", 1, 1, 5, 1, (SealedFile(path, 1, "0" * 64),), True, 0.0)
    with pytest.raises(ContractError, match=r"outside|missing"):
        parse_seal(render_seal(seal))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "holdfast-seal/2", "files": []}', "[" * 100_000, '{"a": ']
)
def test_what_is_no_seal_is_refused_in_words(text: str) -> None:
    with pytest.raises(ContractError, match="seal"):
        parse_seal(text)


@given(naturals, naturals)
def test_a_lease_reads_back_as_it_was_written(attempt: int, incarnation: int) -> None:
    assert parse_lease(render_lease(Lease(attempt, incarnation))) == Lease(attempt, incarnation)


@given(words, naturals, st.text(max_size=500), st.floats(min_value=0, max_value=1e12))
def test_an_end_request_reads_back_as_it_was_written(job: str, attempt: int, reason: str, at: float) -> None:
    request = EndRequest(job, attempt, reason, at)
    assert parse_end_request(render_end_request(request)) == request


def test_the_jobs_environment_reads_back_as_it_was_written() -> None:
    context = JobContext("t/r", "u", "job-a001", 3, "train.py", "0" * 64, lease_uri="s3://b/k", processes_per_host=8)
    assert JobContext.from_env({**context.to_env(), "PATH": "/bin"}) == context


def test_every_wrong_variable_of_the_environment_is_named_at_once() -> None:
    env = JobContext("t/r", "u", "job-a001", 3, "train.py", "0" * 64).to_env()
    del env["HOLDFAST_RUN"]
    env["HOLDFAST_ATTEMPT"] = "three"
    with pytest.raises(ContractError, match=r"HOLDFAST_RUN is missing.*HOLDFAST_ATTEMPT='three'"):
        JobContext.from_env(env)


@given(naturals)
def test_a_steps_folder_names_its_step_and_nothing_else_does(step: int) -> None:
    assert step_of_folder(step_folder(step)) == step
    assert step_of_folder(step_folder(step) + ".tmp") is None
