"""The asset that is deployed, unpacked: does it hold all that its handlers import, for the machine it runs on?"""

from __future__ import annotations

import json
import os
import platform
import re
import struct
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from holdfast.aws.settings import IntakeSettings, PublishSettings, ReconcileSettings
from holdfast.core.config import Functions
from stacks.lambda_code import LambdaZip, Platform

ROOT = Path(__file__).resolve().parents[2]
HANDLERS = ("lambdas.intake", "lambdas.reconcile", "lambdas.publish")
# e_machine of the ELF header: EM_X86_64 and EM_AARCH64
ELF_MACHINES = {"x86_64": 62, "aarch64": 183}

# Standard library and asset, nothing else: -I -S leaves out site-packages and PYTHON* variables.
IMPORT_ALONE = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
handler = importlib.import_module(sys.argv[2]).handler
assert callable(handler)
files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
print(json.dumps({"path": sys.path, "files": [file for file in files if file]}))
"""


def _unpacked(target: Platform, folder: Path) -> Path:
    with zipfile.ZipFile(LambdaZip(root=ROOT, platform=target).build()) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="session")
def host_asset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _unpacked(Platform.of(Functions(architecture="host", python="host")), tmp_path_factory.mktemp("host"))


@pytest.fixture(scope="session")
def arm_asset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _unpacked(Platform.of(Functions()), tmp_path_factory.mktemp("arm64"))


def _settings() -> dict[str, str]:
    told = (
        IntakeSettings(bucket="b", table="t", bundle_parameter="/p", topic_arn="arn"),
        ReconcileSettings(
            bucket="b",
            table="t",
            environment="dev",
            topic_arn="arn",
            poll_seconds=60,
            status_refresh_seconds=600,
            intake_function="f",
        ),
        PublishSettings(bucket="b"),
    )
    return {name: value for settings in told for name, value in settings.to_env().items()}


def _import_alone(asset: Path, module: str) -> subprocess.CompletedProcess[str]:
    # What Lambda itself sets for every function (its developer guide, "Defined runtime environment variables").
    lambdas_own = {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_LAMBDA_FUNCTION_NAME": "f"}
    return subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", IMPORT_ALONE, str(asset), module],
        env={"PATH": os.environ["PATH"], **lambdas_own, **_settings()},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("module", HANDLERS)
def test_a_handler_is_imported_from_the_asset_alone(host_asset: Path, module: str) -> None:
    done = _import_alone(host_asset, module)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    library = Path(os.__file__).parent
    strangers = [
        file
        for file in said["files"]
        if not Path(file).is_relative_to(host_asset)
        and (not Path(file).is_relative_to(library) or "site-packages" in Path(file).parts)
    ]
    assert strangers == []


@pytest.mark.parametrize("missing", ["wrapt", "jmespath", "typing_extensions.py", "holdfast_agent"])
def test_a_dependency_missing_from_the_asset_would_be_noticed(host_asset: Path, missing: str) -> None:
    hidden = (host_asset / missing).rename(host_asset / f"hidden-{missing}")
    try:
        done = _import_alone(host_asset, "lambdas.reconcile")
    finally:
        hidden.rename(host_asset / missing)
    assert done.returncode != 0
    assert missing.removesuffix(".py") in done.stderr


def test_every_compiled_file_is_of_the_functions_architecture_and_python(arm_asset: Path) -> None:
    compiled = sorted(arm_asset.rglob("*.so"))
    assert {path.relative_to(arm_asset).parts[0] for path in compiled} >= {"pydantic_core", "yaml", "wrapt"}
    for path in compiled:
        assert _elf_machine(path) == ELF_MACHINES["aarch64"], path
        assert ".cpython-313-aarch64-" in path.name, path


def test_an_asset_for_another_architecture_would_be_told_apart(host_asset: Path) -> None:
    machines = {_elf_machine(path) for path in host_asset.rglob("*.so")}
    assert machines == {ELF_MACHINES[platform.machine()]}
    assert len(set(ELF_MACHINES.values())) == 2


def test_both_platforms_carry_the_same_versions(host_asset: Path, arm_asset: Path) -> None:
    assert _versions(host_asset) == _versions(arm_asset)


def test_the_asset_holds_what_is_listed_and_all_that_this_needs(host_asset: Path) -> None:
    versions = _versions(host_asset)
    assert versions == _listed("lambdas/requirements.txt")
    for distribution in _distributions(host_asset):
        for text in distribution.requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                found = versions.get(canonicalize_name(needed.name))
                assert found, f"{distribution.name} needs {text}"
                assert needed.specifier.contains(found, prereleases=True), f"{distribution.name} needs {text}"


def test_functions_and_repository_are_pinned_to_the_same_versions() -> None:
    everywhere = _listed("requirements.txt")
    assert {name: everywhere.get(name) for name in _listed("lambdas/requirements.txt")} == _listed(
        "lambdas/requirements.txt"
    )


def test_the_asset_carries_no_tests_no_byte_code_and_nothing_of_the_command_line(host_asset: Path) -> None:
    names = {path.relative_to(host_asset).as_posix() for path in host_asset.rglob("*") if path.is_file()}
    own = {name for name in names if name.split("/")[0] in ("holdfast", "holdfast_agent", "lambdas")}
    assert "holdfast/core/reconcile.py" in own
    assert not [name for name in own if name.startswith(("holdfast/cli", "holdfast/planning"))]
    assert {name for name in own if name.startswith("holdfast_agent/")} == {
        "holdfast_agent/__init__.py",
        "holdfast_agent/contract.py",
    }
    assert not [name for name in names if name.endswith(".pyc") or name.startswith(("tests/", "bin/"))]


def _elf_machine(path: Path) -> int:
    header = path.read_bytes()[:20]
    assert header[:4] == b"\x7fELF"
    (machine,) = struct.unpack("<H", header[18:20])
    return int(machine)


def _distributions(asset: Path) -> list[Distribution]:
    return [PathDistribution(path) for path in sorted(asset.glob("*.dist-info"))]


def _versions(asset: Path) -> dict[str, str]:
    return {canonicalize_name(one.name): one.version for one in _distributions(asset)}


def _listed(name: str) -> dict[str, str]:
    pinned = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)$", (ROOT / name).read_text(), re.MULTILINE)
    return {canonicalize_name(package): version for package, version in pinned}
