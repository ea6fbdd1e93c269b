"""The launcher as a real process, with small scripts in the place of training."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from holdfast_agent.contract import EndRequest, render_end_request
from tests.agent.conftest import S3Server
from tests.agent.host_trees import REPORT, free_port, make_host


def fingerprint(folder: Path) -> list[tuple[str, bytes]]:
    return sorted(
        (str(path.relative_to(folder)), path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )


def test_the_script_gets_its_hyperparameters_and_the_package_and_the_channels_stay_as_they_were(tmp_path: Path) -> None:
    tree = make_host(tmp_path, REPORT, hyperparameters={"steps": "3", "note": "two words"})
    before = fingerprint(tree.base / "input")
    launched = tree.run()
    assert launched.process.returncode == 0, launched.output
    assert "arguments ['--note', 'two words', '--steps', '3']" in launched.output
    assert "[holdfast/1] phase=start attempt=1 detail=host=algo-1" in launched.output
    assert "[holdfast/1] phase=end attempt=1 detail=exit=0" in launched.output
    assert "fencing is off: the job was given no lease" in launched.output
    assert fingerprint(tree.base / "input") == before
    assert tree.failure == ""


def test_code_that_differs_from_its_pinned_digest_is_not_started(tmp_path: Path) -> None:
    tree = make_host(tmp_path, REPORT, code_sha256="0" * 64)
    launched = tree.run()
    assert launched.process.returncode == 87
    assert "changed after registration" in tree.failure
    assert "arguments" not in launched.output
    assert "Traceback" not in launched.output


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"entry_point": "absent.py"}, "entry point 'absent.py' is not a file"),
        ({"entry_point": "../../config/hyperparameters.json"}, "is not a file of the code archive"),
        ({"launch": "mpi"}, "launch 'mpi' is unknown; use torchrun or python"),
    ],
)
def test_a_job_that_cannot_be_started_says_why(tmp_path: Path, context: dict[str, str], words: str) -> None:
    tree = make_host(tmp_path, REPORT, **context)
    launched = tree.run()
    assert launched.process.returncode == 87
    assert "Traceback" not in launched.output
    assert words in tree.failure
    # The control plane tells a refusal by how the failure file begins, and a person by the host that is named.
    assert tree.failure.startswith("Holdfast: host algo-1: ")
    assert f"[holdfast] {tree.failure}\n" in launched.output


def test_an_environment_that_is_not_holdfasts_is_refused_with_every_variable_named(tmp_path: Path) -> None:
    tree = make_host(tmp_path, REPORT)
    tree.environment.update({"HOLDFAST_ATTEMPT": "two", "HOLDFAST_KEEP": "x", "HOLDFAST_CHECKPOINT_KEEP": "few"})
    launched = tree.run()
    assert launched.process.returncode == 87
    assert "HOLDFAST_ATTEMPT='two'" in tree.failure
    assert "HOLDFAST_CHECKPOINT_KEEP='few'" in tree.failure
    assert tree.failure.startswith("Holdfast: host algo-1: ")


def test_a_refusal_before_the_hosts_are_known_begins_as_the_others(tmp_path: Path) -> None:
    tree = make_host(tmp_path, REPORT)
    (tree.base / "input" / "config" / "resourceconfig.json").write_text("[]")
    assert tree.run().process.returncode == 87
    assert tree.failure.startswith("Holdfast: ")
    assert "resourceconfig.json is not a JSON object" in tree.failure


PARSES = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--note")
parser.add_argument("--empty")
parser.add_argument("-v", action="store_true")
parser.add_argument("-1", action="store_true")
print("parsed", vars(parser.parse_args()))
"""


def test_values_that_look_like_options_reach_the_scripts_parser(tmp_path: Path) -> None:
    # A parser with an option that looks like a negative number takes no negative number as a word of its own.
    values = {"lr": "-1e-3", "note": "--verbose", "empty": ""}
    launched = make_host(tmp_path, PARSES, hyperparameters=values).run()
    assert launched.process.returncode == 0, launched.output
    assert "parsed {'lr': -0.001, 'note': '--verbose', 'empty': '', 'v': False, '1': False}" in launched.output


FAILS = """import sys, traceback
def work():
    raise ValueError('no weights')
try:
    work()
except ValueError:
    traceback.print_exc()
    sys.exit(7)
"""


def test_a_scripts_error_is_in_the_failure_file_and_its_code_is_the_launchers(tmp_path: Path) -> None:
    tree = make_host(tmp_path, FAILS)
    launched = tree.run()
    assert launched.process.returncode == 7
    assert tree.failure == "host algo-1: the script ended with exit code 7: ValueError: no weights (train.py:3 in work)"


def test_a_killed_script_ends_as_128_plus_its_signal(tmp_path: Path) -> None:
    tree = make_host(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert tree.run().process.returncode == 137
    assert "was killed by SIGKILL" in tree.failure


# --- SIGTERM ----------------------------------------------------------------------------------------------------------

POLITE = """
import sys, time, holdfast_agent
holdfast_agent.stop_requested()
print("running")
while not holdfast_agent.stop_requested():
    time.sleep(0.02)
print("saved and left")
sys.exit(143)
"""
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("running")
time.sleep(600)
"""

LEAVES_A_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("left", child.pid)
child.returncode = 0  # so that Python does not warn of a child that it leaves behind
"""


def test_sigterm_reaches_the_script_which_may_save_and_leave(tmp_path: Path) -> None:
    tree = make_host(tmp_path, POLITE)
    with tree.running() as launched:
        launched.until("running")
        launched.process.terminate()
        assert launched.wait(10) == 143
        assert "saved and left" in launched.output
        assert tree.failure == ""


def test_a_script_that_ignores_sigterm_is_killed_after_the_grace_with_all_it_started(tmp_path: Path) -> None:
    tree = make_host(tmp_path, STUBBORN, environment={"HOLDFAST_STOP_GRACE_SECONDS": "0.5"})
    with tree.running() as launched:
        launched.until("running")
        assert len(launched.left_behind()) == 3
        started = time.monotonic()
        launched.process.terminate()
        assert launched.wait(10) == 143
        assert time.monotonic() - started >= 0.5
        assert launched.left_behind() == []


def test_a_second_sigterm_changes_nothing(tmp_path: Path) -> None:
    tree = make_host(tmp_path, POLITE.replace('print("saved', 'time.sleep(0.5)\nprint("saved'))
    with tree.running() as launched:
        launched.until("running")
        for _ in range(3):
            launched.process.terminate()
            time.sleep(0.15)
        assert launched.wait(10) == 143
        assert "saved and left" in launched.output
        assert tree.failure == ""


@pytest.mark.skipif(sys.platform != "linux", reason="a death of the parent is signalled on Linux only")
@pytest.mark.parametrize("launch", ["python", "torchrun"])
def test_a_script_whose_launcher_is_killed_does_not_train_on(tmp_path: Path, launch: str) -> None:
    tree = make_host(tmp_path, POLITE, launch=launch, environment={"MASTER_PORT": free_port()})
    with tree.running() as launched:
        launched.until("running")
        launched.process.kill()
        launched.wait(10)
        deadline = time.monotonic() + 20
        while launched.left_behind() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert launched.left_behind() == []
        assert "saved and left" in launched.output


DIES = """
import os, signal, sys, time
rank = int(os.environ["RANK"])
print("running", rank, flush=True)
if rank == 1:
    os.kill(os.getppid() if sys.argv[1:] == ["--whom", "torchrun"] else os.getpid(), signal.SIGKILL)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("whom", "words"),
    [
        ("worker", "rank 1 failed first here and was killed by SIGKILL"),
        ("torchrun", "the script was killed by SIGKILL"),
    ],
)
def test_a_killed_worker_or_torchrun_ends_the_host_with_all_of_it(tmp_path: Path, whom: str, words: str) -> None:
    tree = make_host(
        tmp_path,
        DIES,
        launch="torchrun",
        processes_per_host=2,
        hyperparameters={"whom": whom},
        environment={"MASTER_PORT": free_port()},
    )
    with tree.running() as launched:
        assert launched.wait() == 137, launched.output
        assert launched.left_behind() == []
    assert words in tree.failure


def test_what_a_script_leaves_behind_ends_with_the_job(tmp_path: Path) -> None:
    tree = make_host(tmp_path, LEAVES_A_CHILD)
    with tree.running() as launched:
        assert launched.wait(10) == 0, launched.output
        assert "left " in launched.output
        assert launched.left_behind() == []


# --- the watcher's request --------------------------------------------------------------------------------------------

FROZEN = """
import os, signal
print("running", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
import time; time.sleep(600)
"""


def request(attempt: int, job: str = "dev-research-moby-0123abcd-a002") -> str:
    return render_end_request(EndRequest(job, attempt, "hung: no step for 300 s", 1.0))


@pytest.mark.parametrize("script", [FROZEN, STUBBORN])
def test_a_script_that_is_stopped_or_deaf_is_ended_when_the_watcher_asks(
    tmp_path: Path, s3: S3Server, script: str
) -> None:
    key = f"control/{tmp_path.name}.json"
    tree = make_host(
        tmp_path,
        script,
        attempt=2,
        job="dev-research-moby-0123abcd-a002",
        control_uri=s3.uri(key),
        environment={**s3.environment, "HOLDFAST_CONTROL_POLL_SECONDS": "0.1", "HOLDFAST_END_GRACE_SECONDS": "0.5"},
    )
    s3.put(key, request(1, "dev-research-moby-0123abcd-a001"))
    with tree.running() as launched:
        launched.until("running")
        time.sleep(0.6)
        assert launched.process.poll() is None  # the request of another attempt is not this one's
        s3.put(key, request(2))
        assert launched.wait(10) == 85
        assert launched.left_behind() == []
    assert tree.failure == "host algo-1: ended on the watcher's request: hung: no step for 300 s"
