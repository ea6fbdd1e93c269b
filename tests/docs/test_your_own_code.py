"""The page on one's own code: what it shows is run, at home and under the agent, as a reader would run it.

Not run here: `aws` (tests/sandbox/whole/test_own_code.py does what those lines say) and `pip`, which asks an index.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.layout import job_name
from holdfast.core.model import Attempt
from holdfast.core.status import status_of
from holdfast_agent.contract import parse_heartbeat, step_folder
from tests.agent.host_trees import HostTree, Launched, make_hosts
from tests.agent.test_tiny_gpt import free_port
from tests.builders import a_run
from tests.docs.pages import OWN_CODE, ROOT, blocks, commands, files, write_files

TRAIN, TORCH = "mycode/train.py", "torchcode/train.py"


def documents(language: str) -> Iterator[Any]:
    return (json.loads(block.text) for block in blocks(OWN_CODE) if block.language == language)


def steps_of(output: str) -> list[int]:
    beats = (parse_heartbeat(line) for line in output.splitlines())
    return [beat.step for beat in beats if beat is not None and beat.phase == "step" and beat.step is not None]


# ---------------------------------------------------------------------------------------------------------------------
# At home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    write_files(folder, OWN_CODE)
    return folder


def at_home(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    command, *words = shlex.split(line)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return subprocess.run(
        [sys.executable if command == ".venv/bin/python" else command, *words],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_every_command_of_the_page_is_of_a_kind_that_is_tested() -> None:
    kinds = {shlex.split(line)[0] for line in commands(OWN_CODE)}
    assert kinds == {".venv/bin/python", ".venv/bin/holdfast", ".venv/bin/pip", "aws", "tar"}


def test_the_scripts_run_at_home_and_the_second_start_goes_on_where_the_first_stopped(home: Path) -> None:
    lines = [line for line in commands(OWN_CODE) if line.startswith(".venv/bin/python ")]
    first, second, distributed = (at_home(home, line) for line in lines)
    assert [done.returncode for done in (first, second, distributed)] == [0, 0, 0], distributed.stderr
    assert steps_of(first.stdout)[0] == 1
    assert steps_of(second.stdout)[0] == 41
    assert steps_of(second.stdout)[-1] == 60
    assert json.loads((home / "model" / "weight.json").read_text()) == pytest.approx(3, abs=0.01)
    assert (home / "torch-checkpoints" / step_folder(40) / "seal.json").is_file()


def test_the_tarball_holds_the_entry_point_where_the_manifest_says(home: Path) -> None:
    line = next(line for line in commands(OWN_CODE) if line.startswith("tar "))
    assert at_home(home, line).returncode == 0
    assert "./train.py" in at_home(home, "tar tzf code.tar.gz").stdout.splitlines()


# ---------------------------------------------------------------------------------------------------------------------
# Under the agent


def host(folder: Path, code: dict[str, str], attempt: int = 1, **keywords: Any) -> HostTree:
    packed = {name: text.encode() for name, text in code.items()}
    return make_hosts(folder, packed, attempt=attempt, **keywords)[0]


def stopped_at(tree: HostTree, words: str) -> Launched:
    with tree.running() as launched:
        launched.until(words)
        launched.process.terminate()
        launched.wait()
    return launched


def test_the_script_without_torch_leaves_when_told_to_and_goes_on_in_the_next_attempt(tmp_path: Path) -> None:
    code = {"train.py": files(OWN_CODE)[TRAIN]}
    cut = stopped_at(host(tmp_path, code, hyperparameters={"steps": "500", "step_seconds": "0.02"}), "phase=step")
    assert cut.process.returncode == 143, cut.output
    sealed = max(int(path.parent.name[5:]) for path in (tmp_path / "algo-1" / "checkpoints").glob("*/seal.json"))
    assert sealed < 500
    hyperparameters = {"steps": str(sealed + 60), "step_seconds": "0"}
    resumed = host(tmp_path, code, attempt=2, hyperparameters=hyperparameters).run()
    assert resumed.process.returncode == 0, resumed.output
    assert f"phase=resume attempt=2 step={sealed}\n" in resumed.output
    assert steps_of(resumed.output)[0] == sealed + 1
    assert (tmp_path / "algo-1" / "model" / "weight.json").is_file()


def test_the_torch_script_stops_and_goes_on_with_two_processes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = {"train.py": files(OWN_CODE)[TORCH]}
    two: dict[str, Any] = {
        "launch": "torchrun",
        "processes_per_host": 2,
        "environment": {"OMP_NUM_THREADS": "1", "MASTER_PORT": free_port()},
    }
    cut = stopped_at(host(tmp_path, code, hyperparameters={"steps": "1000000"}, **two), "phase=sealed")
    assert cut.process.returncode == 143, cut.output
    sealed = max(int(path.parent.name[5:]) for path in (tmp_path / "algo-1" / "checkpoints").glob("*/seal.json"))
    resumed = host(tmp_path, code, attempt=2, hyperparameters={"steps": str(sealed + 10)}, **two).run()
    assert resumed.process.returncode == 0, resumed.output
    assert f"phase=resume attempt=2 step={sealed}\n" in resumed.output


@pytest.mark.parametrize(
    ("entry_point", "beside", "path"),
    [
        ("train.py", "vendor/extra.py", "vendor"),
        ("src/train.py", "extra.py", "."),
        ("src/train.py", "src/extra.py", ""),
    ],
)
def test_modules_are_found_where_the_page_says_and_relative_paths_lead_into_the_tarball(
    tmp_path: Path, entry_point: str, beside: str, path: str
) -> None:
    code = {entry_point: "import extra; print(extra.WORD, open('notes.txt').read())", beside: "WORD = 'found'"}
    tree = host(tmp_path, {**code, "notes.txt": "notes"}, entry_point=entry_point, environment={"PYTHONPATH": path})
    done = tree.run()
    assert done.process.returncode == 0, done.output
    assert "found notes" in done.output


# ---------------------------------------------------------------------------------------------------------------------
# What is shown to be read


def test_the_status_that_the_page_shows_has_the_keys_of_a_real_one() -> None:
    shown = next(document for document in documents("json") if "phase" in document)
    attempt = Attempt(1, "a-job", {}, "digest", 0.0)
    real = status_of(a_run(attempts=(attempt,)), now=0.0)
    assert list(shown) == list(real)
    assert list(shown["attempts"][0]) == list(real["attempts"][0])
    assert list(shown["manifest"]) == list(real["manifest"])
    assert shown["attempts"][0]["job"] == job_name("sandbox", "research", "my-run", 1)


def test_the_manifests_address_is_where_the_page_copies_the_tarball_to() -> None:
    copied = next(line for line in commands(OWN_CODE) if line.startswith("aws s3 cp code.tar.gz"))
    assert f"archive: {copied.split()[-1]}\n" in files(OWN_CODE)["my-run.yaml"]
