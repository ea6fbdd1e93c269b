from __future__ import annotations

import platform
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from holdfast.core.config import Functions
from stacks.lambda_code import LambdaCodeError, LambdaZip, Platform
from tests.stacks.synthesis import ROOT

ARM = Platform("aarch64", "3.13", native=False)
HOST = Platform.of(Functions(architecture="host", python="host"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository of its own with the parts that go into the zip."""
    for name in ("holdfast", "holdfast_agent", "lambdas"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_host_is_this_machine_and_this_interpreter() -> None:
    assert HOST.native
    assert HOST.python == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert HOST.pip_arguments() == []


def test_another_platform_is_installed_for_by_its_wheels() -> None:
    arm = Platform.of(Functions(architecture="arm64", python="3.13"))
    assert (arm, arm.native) == (ARM, False)
    assert arm.pip_arguments() == [
        *("--platform", "manylinux2014_aarch64"),
        *("--implementation", "cp", "--python-version", "3.13"),
    ]


def test_this_machine_with_another_python_is_not_the_host() -> None:
    other = Platform.of(Functions(architecture="host", python="3.14"))
    assert other.machine in (platform.machine(), "aarch64")
    assert not other.native


def test_a_change_of_code_requirements_or_platform_is_another_asset(tree: Path) -> None:
    def digest(platform: Platform = HOST) -> str:
        return LambdaZip(root=tree, platform=platform).digest

    first = digest()
    assert digest() == first
    assert digest(ARM) != first
    source = tree / "holdfast" / "core" / "layout.py"
    source.write_text(source.read_text() + "\n")
    changed = digest()
    assert changed != first
    requirements = tree / "lambdas" / "requirements.txt"
    requirements.write_text(requirements.read_text() + "# one more line\n")
    assert digest() not in (first, changed)


def test_a_change_elsewhere_leaves_the_asset_alone(tree: Path) -> None:
    before = LambdaZip(root=tree, platform=HOST).digest
    (tree / "README.md").write_text("new")
    (tree / "holdfast" / "cli" / "new.py").write_text("new")
    (tree / "holdfast_agent" / "new.py").write_text("new")
    (tree / "lambdas" / "README.md").write_text("new")
    assert LambdaZip(root=tree, platform=HOST).digest == before


def test_a_requirement_that_cannot_be_installed_is_said_in_words(tree: Path) -> None:
    (tree / "lambdas" / "requirements.txt").write_text(f"{tree / 'missing-1.0-py3-none-any.whl'}\n")
    with pytest.raises(LambdaCodeError, match=r"pip could not install lambdas/requirements\.txt for host-python"):
        LambdaZip(root=tree, platform=HOST).build()
    assert not list((tree / ".build").glob("*"))


def test_the_same_inputs_give_the_same_bytes_and_no_second_install(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "lambdas" / "requirements.txt").write_text("")
    first = LambdaZip(root=tree, platform=HOST).build()
    content = first.read_bytes()
    monkeypatch.setattr(LambdaZip, "_install", lambda *_: pytest.fail("installed again"))
    assert LambdaZip(root=tree, platform=HOST).build() == first
    (tree / "lambdas" / "intake.py").write_text("# changed\n")
    second = LambdaZip(root=tree, platform=HOST).build()
    assert second.read_bytes() != content
    with zipfile.ZipFile(second) as archive:
        assert archive.read("lambdas/intake.py") == b"# changed\n"
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
