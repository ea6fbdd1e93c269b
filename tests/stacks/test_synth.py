"""`cdk synth` as its own process: what it reads, what it never asks, and what it says to a person's mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stacks.application import config_of_context
from stacks.lambda_code import LambdaZip, Platform
from tests.stacks.synthesis import ROOT

# CDK's own code runs in a Node process that the Python bindings start: both are cut off.
NO_NETWORK_IN_NODE = """
const refuse = () => { throw new Error('asked the network'); };
require('net').Socket.prototype.connect = refuse;
require('dns').lookup = refuse;
require('child_process').execFileSync = require('child_process').spawnSync = refuse;
"""
NO_NETWORK_IN_PYTHON = """
import os, runpy, socket, sys
def refuse(*_):
    raise RuntimeError("asked the network")
socket.socket.connect = socket.getaddrinfo = refuse
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def _environment(tmp_path: Path, config: str, folder: str, **more: str) -> dict[str, str]:
    """What the CDK command line gives an app, and nothing of AWS: no keys, no profile, no region."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    silenced = {name: value for name, value in os.environ.items() if name.startswith("JSII_SILENCE_")}
    context = {**json.loads((ROOT / "cdk.json").read_text())["context"], "config": config}
    own = {
        "CDK_CONTEXT_JSON": json.dumps(context),
        "CDK_OUTDIR": str(tmp_path / folder),
        "AWS_EC2_METADATA_DISABLED": "1",
    }
    return {**kept, **silenced, **own, **more}


def _synth(
    tmp_path: Path,
    *,
    config: str = "config/sandbox.yaml",
    folder: str = "out",
    start: tuple[str, ...] = (),
    **more: str,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *start, str(ROOT / "app.py")],
        env=_environment(tmp_path, config, folder, **more),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def _written(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("tree.json", "manifest.json", "cdk.out")
    }


def test_two_synths_in_two_folders_give_the_same_bytes_asset_by_asset(tmp_path: Path) -> None:
    first, second = _synth(tmp_path, folder="first"), _synth(tmp_path, folder="second")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    written = _written(tmp_path / "first")
    assert [name for name in written if name.endswith(".template.json")] == [
        "holdfast-sandbox-access.template.json",
        "holdfast-sandbox-control-plane.template.json",
        "holdfast-sandbox-observability.template.json",
        "holdfast-sandbox-quotas.template.json",
        "holdfast-sandbox-storage.template.json",
    ]
    assert any(name.endswith(".zip") for name in written)
    assert written == _written(tmp_path / "second")


def test_a_synth_asks_no_network_and_starts_no_program(tmp_path: Path) -> None:
    LambdaZip(root=ROOT, platform=_sandbox_platform()).build()  # Once; pip is what brings wheels
    hook = tmp_path / "no_network.cjs"
    hook.write_text(NO_NETWORK_IN_NODE)
    done = _synth(tmp_path, start=("-c", NO_NETWORK_IN_PYTHON), NODE_OPTIONS=f"--require={hook}")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "holdfast-sandbox-storage.template.json").is_file()


@pytest.mark.parametrize(
    "command",
    [
        ("node", "-e", "require('net').connect(9, '127.0.0.1')"),
        ("node", "-e", "require('child_process').execFileSync('git', ['status'])"),
        (sys.executable, "-c", NO_NETWORK_IN_PYTHON, "ask.py"),
    ],
)
def test_what_cuts_the_synth_off_would_have_been_noticed(tmp_path: Path, command: tuple[str, ...]) -> None:
    hook = tmp_path / "no_network.cjs"
    hook.write_text(NO_NETWORK_IN_NODE)
    (tmp_path / "ask.py").write_text("import socket\nsocket.create_connection(('127.0.0.1', 9))\n")
    environment = {"PATH": os.environ["PATH"], "NODE_OPTIONS": f"--require={hook}"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode != 0
    assert "asked the network" in done.stderr


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("", "holdfast: say which account: -c config=config/<account>.yaml"),
        ("config/nobody.yaml", "holdfast: -c config=config/nobody.yaml: there is no such file"),
    ],
)
def test_a_persons_mistake_is_answered_in_one_line_and_not_with_a_traceback(
    tmp_path: Path, config: str, words: str
) -> None:
    done = _synth(tmp_path, config=config)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_python_without_the_packages_is_told_of_make_and_not_with_a_traceback(tmp_path: Path) -> None:
    done = _synth(tmp_path, start=("-I", "-S"))
    assert done.returncode == 1
    assert "has no module aws_cdk; use make synth or make deploy" in done.stderr
    assert "Traceback" not in done.stderr


def _sandbox_platform() -> Platform:
    return Platform.of(config_of_context("config/sandbox.yaml", ROOT).functions)
