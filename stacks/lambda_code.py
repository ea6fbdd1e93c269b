"""The functions' code: one zip for all of them, our packages with their pinned dependencies.

pip installs the dependencies' wheels for the function's platform, whatever machine synthesizes: no Docker. The zip and
its hash depend on the inputs alone (sources, requirements, platform), and both are kept in `.build/`, so that a second
synth installs nothing and an unchanged function is not deployed again.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aws_cdk as cdk
import jsii
from aws_cdk import aws_lambda as lambda_

from holdfast.core.config import Functions

REQUIREMENTS = "lambdas/requirements.txt"
# What the functions import. Not the command line, not the planning, not the agent's parts that only a container runs.
_SOURCES = (
    "holdfast/__init__.py",
    "holdfast/bundle.py",
    "holdfast/core/**/*.py",
    "holdfast/core/**/*.json",
    "holdfast/aws/**/*.py",
    "holdfast_agent/__init__.py",
    "holdfast_agent/contract.py",
    "lambdas/*.py",
)
# Raise when the same inputs have to give another zip.
_FORM = "1"
_INSTALLERS_NOTES = ("RECORD", "REQUESTED", "INSTALLER", "direct_url.json")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # The zip format's own first moment
_LAMBDA_LIMIT_BYTES = 250 * 1024 * 1024  # Unzipped, layers included (AWS Lambda quotas)


class LambdaCodeError(RuntimeError):
    """The functions' code cannot be put together, in words."""


@dataclass(frozen=True)
class Platform:
    """What the functions run on. `native`: this very machine and interpreter, so pip needs no cross-install."""

    machine: str
    python: str
    native: bool

    @staticmethod
    def of(functions: Functions) -> Platform:
        machine = {"arm64": "aarch64", "host": platform.machine()}.get(functions.architecture, functions.architecture)
        # macOS says arm64 for what Linux calls aarch64.
        machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(machine, machine)
        own = f"{sys.version_info.major}.{sys.version_info.minor}"
        native = functions.architecture == "host" and functions.python == "host"
        return Platform(machine, own if functions.python == "host" else functions.python, native)

    @property
    def name(self) -> str:
        return f"{'host' if self.native else self.machine}-python{self.python}"

    @property
    def architecture(self) -> lambda_.Architecture:
        return lambda_.Architecture.ARM_64 if self.machine == "aarch64" else lambda_.Architecture.X86_64

    @property
    def runtime(self) -> lambda_.Runtime:
        return lambda_.Runtime(f"python{self.python}", lambda_.RuntimeFamily.PYTHON)

    def pip_arguments(self) -> list[str]:
        if self.native:
            return []
        # manylinux2014 needs glibc 2.17, which every Lambda runtime has.
        return [
            *("--platform", f"manylinux2014_{self.machine}"),
            *("--implementation", "cp", "--python-version", self.python),
        ]


def lambda_code(*, root: Path, functions: Functions) -> lambda_.Code:
    """The code asset of every function. Raises LambdaCodeError."""
    bundling = _Bundling(LambdaZip(root=root, platform=Platform.of(functions)))
    return lambda_.Code.from_asset(
        str(root / "lambdas"),
        asset_hash=bundling.lambda_zip.digest,
        asset_hash_type=cdk.AssetHashType.CUSTOM,
        bundling=cdk.BundlingOptions(
            image=cdk.DockerImage.from_registry("never-used:the-local-bundling-always-answers"),
            local=bundling,
            output_type=cdk.BundlingOutput.ARCHIVED,
        ),
    )


@jsii.implements(cdk.ILocalBundling)
class _Bundling:
    """CDK calls this instead of Docker; not at all when the cloud assembly holds the asset's hash already."""

    def __init__(self, lambda_zip: LambdaZip) -> None:
        self.lambda_zip = lambda_zip

    def try_bundle(self, output_dir: str, options: object = None, **_: object) -> bool:  # noqa: ARG002 - CDK passes it
        shutil.copyfile(self.lambda_zip.build(), Path(output_dir) / "lambda.zip")
        return True


class LambdaZip:
    """The zip of one platform, built at most once for its inputs."""

    def __init__(self, *, root: Path, platform: Platform) -> None:
        self._root = root
        self._platform = platform
        self._requirements = (root / REQUIREMENTS).read_bytes()
        self._sources = {path.relative_to(root).as_posix(): path.read_bytes() for path in _source_files(root)}

    @property
    def digest(self) -> str:
        """Hex SHA-256 of all that the zip is made from."""
        hasher = hashlib.sha256(self._dependencies_digest.encode())
        for name, content in sorted(self._sources.items()):
            hasher.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
        return hasher.hexdigest()

    def build(self) -> Path:
        """The zip's path below `.build/`. Raises LambdaCodeError."""
        built = self._built(f"lambda-{self._platform.name}-{self.digest[:16]}.zip")
        if built.is_file():
            return built
        dependencies = self._dependencies()
        with _finished_at_once(built) as unfinished:
            shutil.copyfile(dependencies, unfinished)
            with zipfile.ZipFile(unfinished, "a") as archive:
                for name, content in sorted(self._sources.items()):
                    _add(archive, name, content)
        return built

    @property
    def _dependencies_digest(self) -> str:
        return hashlib.sha256(f"{_FORM}\0{self._platform.name}\0".encode() + self._requirements).hexdigest()

    def _dependencies(self) -> Path:
        built = self._built(f"dependencies-{self._platform.name}-{self._dependencies_digest[:16]}.zip")
        if built.is_file():
            return built
        with tempfile.TemporaryDirectory() as folder:
            self._install(Path(folder))
            files = {path.relative_to(folder).as_posix(): path for path in _dependency_files(Path(folder))}
            size = sum(path.stat().st_size for path in files.values())
            if size > _LAMBDA_LIMIT_BYTES:
                raise LambdaCodeError(f"{REQUIREMENTS} unpacks to {size:,} bytes; Lambda takes {_LAMBDA_LIMIT_BYTES:,}")
            with _finished_at_once(built) as unfinished, zipfile.ZipFile(unfinished, "w") as archive:
                for name, path in sorted(files.items()):
                    _add(archive, name, path.read_bytes())
        return built

    def _install(self, folder: Path) -> None:
        command = [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"),
            # The list is the whole closure. Resolving anew would judge environment markers by this interpreter, not by
            # the function's; and no source distribution may be compiled for the wrong machine.
            *("--no-deps", "--only-binary=:all:", "--no-compile"),
            *self._platform.pip_arguments(),
            *("--target", str(folder), "--requirement", str(self._root / REQUIREMENTS)),
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise LambdaCodeError(f"pip could not install {REQUIREMENTS} for {self._platform.name}:\n{done.stderr}")

    def _built(self, name: str) -> Path:
        return self._root / ".build" / name


@contextmanager
def _finished_at_once(path: Path) -> Iterator[Path]:
    """A file that is there whole or not at all, also with two synths side by side."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.stem}.", suffix=".unfinished")
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        unfinished.chmod(0o644)  # mkstemp's own is for its maker alone
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _source_files(root: Path) -> Iterator[Path]:
    for pattern in _SOURCES:
        yield from root.glob(pattern)


def _dependency_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        # Console scripts name this machine's interpreter, and RECORD their digests.
        left_out = inside.parts[0] == "bin" or "__pycache__" in inside.parts or inside.name in _INSTALLERS_NOTES
        if path.is_file() and not left_out:
            yield path


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, date_time=_EPOCH)
    entry.external_attr = 0o100644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)
