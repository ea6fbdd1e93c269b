"""Every `holdfast` command that the documentation shows is one that runs, as it stands there."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli import main
from holdfast.core.schema import generated_files
from tests.docs.pages import OWN_CODE, ROOT, commands, write_files

PAGES = sorted(
    path
    for pattern in ("README.md", "docs/*.md", "job_templates/**/README.md", "job_templates/*/*.yaml")
    for path in ROOT.glob(pattern)
)
COMMAND = ".venv/bin/holdfast"


def holdfast_commands(page: Path) -> list[str]:
    return [line for line in commands(page) if shlex.split(line, comments=True)[:1] in ([COMMAND], ["holdfast"])]


SHOWN = [(page.relative_to(ROOT).as_posix(), line) for page in PAGES for line in holdfast_commands(page)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository's folder as a reader has it who follows docs/your-own-code.md."""
    for path in ROOT.iterdir():
        if path.name in ("README.md", "config", "docs", "job_templates"):
            (tmp_path / path.name).symlink_to(path)
    write_files(tmp_path, OWN_CODE)
    subprocess.run(["tar", "czf", "code.tar.gz", "-C", "mycode", "."], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("page", "line"), SHOWN, ids=[f"{page}: {line}" for page, line in SHOWN])
def test_a_command_of_the_documentation_runs_as_it_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, page: str, line: str
) -> None:
    command, *words = shlex.split(line, comments=True)
    assert command == COMMAND, f"{page}: {command} is on nobody's PATH; write {COMMAND}"
    tree = folder / "tree"
    if words == ["schema"]:  # writes into the source tree
        for path in generated_files():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
        monkeypatch.setattr(main, "source_tree", lambda: tree)
    done = CliRunner().invoke(main.app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output


def test_the_pages_that_show_commands_are_found() -> None:
    assert {"README.md", "docs/manifest.md", "docs/your-own-code.md", "job_templates/README.md"} <= {
        page for page, _ in SHOWN
    }
    assert any(page.endswith("manifest.example.yaml") for page, _ in SHOWN)
