"""The command as a person runs it: another process' view of exit code, standard output and standard error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holdfast.cli.main import app

SOUND = """
apiVersion: holdfast/v1
kind: TrainingRun
template: tiny_gpt
image: pytorch-cpu
resources: {instance_type: ml.m5.xlarge}
watch: {stall_after_seconds: 600}
"""


@pytest.fixture
def run() -> Callable[..., Result]:
    runner = CliRunner()
    return lambda *words: runner.invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


@pytest.fixture
def drop(tmp_path: Path) -> Callable[..., Path]:
    """Writes a manifest below `manifests/<team>/` and returns its path."""

    def write(text: str = SOUND, *, team: str = "research", name: str = "tiny.yaml") -> Path:
        path = tmp_path / "manifests" / team / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write
