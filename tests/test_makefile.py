"""What `make` offers a person, and what it says to a mistake. Nothing is installed: the set-up counts as done here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SET_UP = ("-o", ".venv/.complete", "-o", "node_modules/.complete")


def make(*words: str) -> subprocess.CompletedProcess[str]:
    # Without what an outer `make test` hands down: its flags and its variables, ACCOUNT among them.
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return subprocess.run(
        ["make", *SET_UP, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=30
    )


@pytest.mark.parametrize("target", ["demo", "sandbox", "test", "check", "synth", "deploy", "clean"])
def test_help_lists_what_a_person_needs(target: str) -> None:
    assert f"make {target} " in make("help").stdout


@pytest.mark.parametrize(
    ("words", "configs"),
    [(("ACCOUNT=example",), "example"), (("ACCOUNT=",), "sandbox example"), ((), "sandbox example")],
)
def test_a_synth_is_of_the_one_account_that_was_named_or_of_both_that_are_here(
    words: tuple[str, ...], configs: str
) -> None:
    assert f"for config in {configs};" in make("--dry-run", "synth", *words).stdout


@pytest.mark.parametrize("target", ["synth", "deploy"])
def test_an_account_without_a_config_is_told_which_file_is_missing(target: str) -> None:
    done = make(target, "ACCOUNT=nobody")
    assert done.returncode == 2
    assert "config/nobody.yaml is missing; config/example.yaml is one to copy" in done.stdout


def test_the_templates_that_are_checked_are_those_of_the_repositorys_configs_whatever_account_is_set() -> None:
    assert "for config in sandbox example;" in make("--dry-run", "template-check", "ACCOUNT=prod").stdout
