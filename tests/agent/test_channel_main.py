from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast_agent.channel_main import refuse_old_python
from holdfast_agent.failure import REFUSAL
from tests.agent.host_trees import PACKAGE


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 6, 15), (3, 8, 18)])
def test_a_python_that_is_too_old_is_told_so_in_the_failure_file(tmp_path: Path, version: tuple[int, ...]) -> None:
    assert refuse_old_python(version, str(tmp_path)) == 87
    words = (tmp_path / "output" / "failure").read_text()
    assert words.startswith(REFUSAL)
    assert f"python3 is {version[0]}.{version[1]}" in words
    assert "3.9 or newer" in words


@pytest.mark.parametrize("version", [(3, 9, 0), (3, 13, 1), (4, 0, 0)])
def test_a_python_that_will_do_is_let_through(tmp_path: Path, version: tuple[int, ...]) -> None:
    assert refuse_old_python(version, str(tmp_path)) == 0
    assert list(tmp_path.iterdir()) == []


def test_the_entry_parses_on_old_pythons_and_the_package_on_the_oldest_that_it_supports() -> None:
    # No feature version before 3.4 is known to ast; f-strings and annotated variables came in 3.6 and must not occur.
    entry = (PACKAGE / "channel_main.py").read_text()
    tree = ast.parse(entry, feature_version=(3, 4))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    for path in PACKAGE.glob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 9))


def test_importing_the_package_loads_nothing_heavy_and_takes_under_50_ms() -> None:
    program = """
import sys, time
started = time.process_time()
import holdfast_agent
from holdfast_agent import Checkpoints, heartbeat, stop_requested
print(time.process_time() - started, [name for name in ("torch", "boto3", "numpy") if name in sys.modules])
"""
    answers = [
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
        ).stdout.split(" ", 1)
        for _ in range(5)
    ]
    assert {heavy.strip() for _, heavy in answers} == {"[]"}
    assert min(float(seconds) for seconds, _ in answers) < 0.05
