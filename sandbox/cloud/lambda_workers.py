"""Lambda functions see the standard library, AWS's SDK and their own asset, nothing else.

MiniStack runs every Python function on its own interpreter, whose site-packages hold Powertools, pydantic, torch...: a
dependency missing from the bundle would be found there, and the mistake would show only on AWS. So functions start in
the same interpreter with `-I -S` (no site-packages, no PYTHON* variables) through a launcher that adds one folder to
the end of the path, with what AWS's own Python runtimes ship: boto3 and what it needs
(https://docs.aws.amazon.com/lambda/latest/dg/python-package.html; CDK's bucket notification handler relies on it).
"""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from ministack.core import lambda_runtime

RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six", "urllib3")

_START = """\
import sys
worker = sys.argv.pop(1)
sys.path.append({runtime!r})
with open(worker) as source:
    code = compile(source.read(), worker, "exec")
exec(code, {{"__name__": "__main__", "__file__": worker}})
"""


def isolate(folder: Path) -> None:
    """From now on start Python functions in an isolated interpreter. `folder` gets the launcher and the runtime."""
    runtime = folder / "lambda-runtime"
    _link_packages(runtime)
    launcher = _write_launcher(folder, runtime)
    lambda_runtime._detect_runtime_binary = _with_launcher(lambda_runtime._detect_runtime_binary, launcher)


def _with_launcher(detect: Callable[[str], tuple[str, str]], launcher: Path) -> Callable[[str], tuple[str, str]]:
    def detect_isolated(runtime: str) -> tuple[str, str]:
        binary, worker = detect(runtime)
        return (str(launcher), worker) if runtime.startswith("python") else (binary, worker)

    return detect_isolated


def _write_launcher(folder: Path, runtime: Path) -> Path:
    """MiniStack starts `[binary, script]`, with no place for flags: so the binary is a script that adds them."""
    start = folder / "lambda_start.py"
    start.write_text(_START.format(runtime=str(runtime)))
    launcher = folder / "python-isolated"
    launcher.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S {shlex.quote(str(start))} "$@"\n')
    launcher.chmod(0o755)
    return launcher


def _link_packages(runtime: Path) -> None:
    runtime.mkdir(exist_ok=True)
    for name in RUNTIME_PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"{name} is not installed; AWS's Lambda runtime has it, so the sandbox needs it")
        origin = Path(spec.origin)
        source = origin.parent if origin.name == "__init__.py" else origin
        link = runtime / source.name
        link.unlink(missing_ok=True)
        link.symlink_to(source)
