"""`holdfast validate`: accepted or refused, for people and for programs, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import holdfast
from holdfast.cli.main import app
from tests.cli.conftest import SOUND

Command = Callable[..., Result]
Drop = Callable[..., Path]


def test_a_sound_manifest_is_accepted_with_team_and_run_from_its_path(run: Command, drop: Drop) -> None:
    done = run("validate", drop())
    assert (done.exit_code, done.stdout) == (0, "research/tiny: accepted\n")


def test_a_bad_manifest_is_refused_with_every_error(run: Command, drop: Drop) -> None:
    done = run("validate", drop(SOUND.replace("tiny_gpt", "tiny-gpt") + "genration: 2\n"))
    assert done.exit_code == 1
    for words in ("research/tiny: refused, 2 errors", "did you mean tiny_gpt?", "did you mean `generation`?"):
        assert words in done.stdout


def test_json_of_an_accepted_manifest_has_every_key(run: Command, drop: Drop) -> None:
    done = run("validate", "--json", drop(SOUND.replace("stall_after_seconds: 600", "")))
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert {**document, "notes": []} == {"run": "research/tiny", "accepted": True, "errors": [], "notes": []}
    assert len(document["notes"]) == 1


def test_json_of_a_refused_manifest_has_field_wrong_right_and_line(run: Command, drop: Drop) -> None:
    done = run("validate", "--json", drop(SOUND + "generation: 0\n"))
    assert done.exit_code == 1
    assert json.loads(done.stdout) == {
        "run": "research/tiny",
        "accepted": False,
        "errors": [{"field": "generation", "wrong": "is 0", "right": "at least 1", "line": 8}],
        "notes": [],
    }


def test_a_strangers_text_is_no_markup_and_no_terminal_command(run: Command, drop: Drop) -> None:
    done = run("validate", drop(SOUND + '"[red]x[/nonsense]": 1\n"\\e[2Jy": 2\n'))
    assert done.exit_code == 1
    assert "[red]x[/nonsense]" in done.stdout
    assert "\x1b" not in done.stdout


def test_team_and_run_can_be_given_where_the_path_does_not_name_them(run: Command) -> None:
    example = Path(__file__).parents[2] / "job_templates" / "tiny_gpt" / "manifest.example.yaml"
    assert run("validate", example).exit_code == 1
    done = run("validate", example, "--team", "research", "--run", "tiny")
    assert (done.exit_code, done.stdout) == (0, "research/tiny: accepted\n")


@pytest.mark.parametrize(
    ("team", "name"), [("Research", "tiny.yaml"), ("research", "My_Run.yaml"), ("research", "tiny.toml")]
)
def test_a_place_that_names_no_team_or_run_is_refused(run: Command, drop: Drop, team: str, name: str) -> None:
    done = run("validate", drop(team=team, name=name))
    assert done.exit_code == 1
    assert "--team" in done.stdout


def test_a_team_that_the_deployment_does_not_have_is_refused_with_the_option_that_says_another(
    run: Command, drop: Drop
) -> None:
    done = run("validate", drop(team="physics"))
    assert done.exit_code == 1
    assert "research, vision" in done.stdout
    assert "--team research" in done.stdout
    assert run("validate", drop(team="physics"), "--team", "research").exit_code == 0


FAULTY = SOUND.replace("tiny_gpt", "tiny-gpt") + "name: other\nlimits: {max_run_seconds: 4h}\n"


def fields_of(done: Result) -> list[str]:
    assert done.exit_code == 1
    return [error["field"] for error in json.loads(done.stdout)["errors"]]


@pytest.mark.parametrize(("team", "name"), [("Research", "tiny.yaml"), ("physics", "tiny.yaml")])
def test_a_bad_team_hides_no_other_error(run: Command, drop: Drop, team: str, name: str) -> None:
    assert fields_of(run("validate", "--json", drop(FAULTY, team=team, name=name))) == [
        *("", "template", "name", "limits.max_run_seconds")
    ]


@pytest.mark.parametrize("name", ["My_Run.yaml", "tiny.toml", "tiny"])
def test_a_bad_file_name_hides_no_other_error_and_blames_no_name(run: Command, drop: Drop, name: str) -> None:
    # Which name would be right is not known, so the body's own is no error yet.
    assert fields_of(run("validate", "--json", drop(FAULTY, name=name))) == [
        *("", "template", "limits.max_run_seconds")
    ]


def test_everything_wrong_with_a_manifests_place_is_said_at_once(run: Command, drop: Drop) -> None:
    both = json.loads(run("validate", "--json", drop(team="Physics", name="My_Run.yaml")).stdout)["errors"]
    assert len(both) == 1
    assert "team 'Physics'" in both[0]["wrong"]
    assert "run 'My_Run'" in both[0]["wrong"]
    unknown = json.loads(run("validate", "--json", drop(team="physics", name="My_Run.yaml")).stdout)["errors"]
    assert ["run 'My_Run'" in unknown[0]["wrong"], "team 'physics'" in unknown[1]["wrong"]] == [True, True]


def test_an_address_is_judged_without_its_team_as_far_as_it_can_be(run: Command, drop: Drop) -> None:
    bucket = "s3://holdfast-sandbox-000000000000-us-east-1"
    data = f"data: [{{channel: a, s3: '{bucket}/data/vision/x/'}}, {{channel: b, s3: '{bucket}/output/vision/x/'}}]\n"
    assert fields_of(run("validate", "--json", drop(SOUND + data, team="Physics"))) == ["", "data[1].s3"]


def test_a_sound_manifest_in_a_bad_place_has_that_error_alone(run: Command, drop: Drop) -> None:
    assert fields_of(run("validate", "--json", drop(team="Research"))) == [""]


def test_a_long_field_breaks_at_its_dots_and_nowhere_else(drop: Drop) -> None:
    text = SOUND + "limits: {max_run_seconds: 4h}\nsource: {archive: x, entry_point: train.py}\n"
    done = CliRunner().invoke(
        app, ["validate", str(drop(text.replace("600", "10m")))], env={"COLUMNS": "80"}, catch_exceptions=False
    )
    fields = [line.split("│")[2].strip() for line in done.stdout.splitlines() if line.startswith("│")]
    assert [field for field in fields if field] == [
        *("watch.", "stall_after_seconds", "limits.", "max_run_seconds", "source.archive")
    ]


def test_a_strangers_endless_field_leaves_room_for_the_words(run: Command, drop: Drop) -> None:
    done = CliRunner().invoke(app, ["validate", str(drop(SOUND + f"{'x' * 300}: 1\n"))], env={"COLUMNS": "80"})
    assert "fields here" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


def test_the_version_is_told(run: Command) -> None:
    done = run("--version")
    assert (done.exit_code, done.stdout) == (0, f"holdfast {holdfast.__version__}\n")


def test_a_missing_manifest_is_told_without_a_traceback(run: Command, tmp_path: Path) -> None:
    done = run("validate", tmp_path / "none.yaml")
    assert done.exit_code == 2
    assert "none.yaml: cannot be read (No such file or directory)" in done.stderr
    assert "Traceback" not in done.output


def test_a_folder_in_place_of_a_manifest_is_told(run: Command, tmp_path: Path) -> None:
    assert "Is a directory" in run("validate", tmp_path).stderr


def test_a_missing_or_wrong_config_is_told_with_all_its_errors(run: Command, drop: Drop, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    done = run("validate", drop(), "--config", config)
    assert done.exit_code == 2
    assert "cannot be read" in done.stderr
    config.write_text("environment: dev\naccuont: 1\n")
    done = run("validate", drop(), "--config", config)
    assert done.exit_code == 2
    assert "did you mean `account`?" in done.stderr
    assert "teams: is missing" in done.stderr


def test_another_accounts_config_is_another_verdict(run: Command, drop: Drop) -> None:
    config = Path(__file__).parents[2] / "config" / "example.yaml"
    manifest = drop(SOUND.replace("pytorch-cpu", "pytorch-gpu"))
    assert run("validate", manifest).exit_code == 1
    assert run("validate", manifest, "--config", config).exit_code == 0


def test_ten_megabytes_are_refused_by_their_size(run: Command, drop: Drop) -> None:
    done = run("validate", drop("#" + "x" * 10_000_000))
    assert done.exit_code == 1
    assert "256 KiB" in done.stdout


def test_an_unknown_option_is_a_usage_error(run: Command, drop: Drop) -> None:
    assert run("validate", drop(), "--teem", "x").exit_code == 2
