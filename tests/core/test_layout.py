import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.layout import (
    ENVIRONMENT_PATTERN,
    JOB_NAME_LIMIT,
    RUN_PATTERN,
    TEAM_PATTERN,
    ManifestKeyError,
    job_family,
    job_name,
    parse_manifest_key,
)

environments = st.from_regex(rf"\A({ENVIRONMENT_PATTERN})\Z")
teams = st.from_regex(rf"\A({TEAM_PATTERN})\Z")
runs = st.from_regex(rf"\A({RUN_PATTERN})\Z")


@given(environments, teams, runs, st.integers(1, 99_999))
def test_every_job_name_is_one_that_sagemaker_takes(environment: str, team: str, run: str, attempt: int) -> None:
    name = job_name(environment, team, run, attempt)
    assert len(name) <= JOB_NAME_LIMIT
    assert re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", name)
    assert name.startswith(job_family(environment, team, run))
    assert name.startswith(f"{environment}-")


def test_team_a_with_run_b_c_and_team_a_b_with_run_c_do_not_meet() -> None:
    assert job_family("prod", "a", "b-c") != job_family("prod", "a-b", "c")


def test_runs_that_differ_past_the_cut_do_not_meet() -> None:
    long = "x" * 47
    assert job_family("prod", "team", long + "a") != job_family("prod", "team", long + "b")


def test_no_environments_prefix_begins_anothers() -> None:
    assert not job_name("prodeu", "t", "r", 1).startswith("prod-")
    assert not re.fullmatch(ENVIRONMENT_PATTERN, "prod-eu")


@given(teams, runs, st.sampled_from([".yaml", ".yml", ".json"]))
def test_a_key_names_team_and_run(team: str, run: str, suffix: str) -> None:
    assert parse_manifest_key(f"manifests/{team}/{run}{suffix}") == (team, run)


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("manifests/tiny.yaml", "neither higher nor deeper"),
        ("manifests/a/b/tiny.yaml", "neither higher nor deeper"),
        ("manifests/research/tiny.txt", "ends in"),
        ("manifests/research/tiny", "ends in"),
        ("manifests/Research/tiny.yaml", "team"),
        ("manifests/research/tiny_run.yaml", "run"),
        ("manifests/research/-tiny.yaml", "run"),
        ("manifests/research/.yaml", "run"),
        ("manifests/../tiny.yaml", "team"),
    ],
)
def test_a_key_that_names_no_run_is_refused_in_words(key: str, word: str) -> None:
    with pytest.raises(ManifestKeyError, match=word):
        parse_manifest_key(key)


def test_a_key_with_two_mistakes_is_told_both_and_the_part_that_is_right_is_kept() -> None:
    with pytest.raises(ManifestKeyError, match=r"team 'Research'.*; run 'tiny_run'"):
        parse_manifest_key("manifests/Research/tiny_run.yaml")
    for key, right in (
        ("manifests/Research/tiny.yaml", (None, "tiny")),
        ("manifests/research/tiny_run.yaml", ("research", None)),
        ("manifests/research/tiny.txt", ("research", None)),
        ("manifests/a/b/tiny.yaml", (None, None)),
    ):
        with pytest.raises(ManifestKeyError) as caught:
            parse_manifest_key(key)
        assert (caught.value.team, caught.value.run) == right
