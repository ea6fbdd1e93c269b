"""The emulator's process: `python -m sandbox.cloud.emulator --port N --state-dir DIR`.

MiniStack, in process, with IAM enforced, on loopback only, with the sandbox's extensions in place before the first
request. `sandbox.cloud.lifecycle` starts and ends it; started by hand it serves until SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from sandbox.cloud import hooks
from sandbox.cloud.guard import ProcessGuard
from sandbox.cloud.state import LOCK_FILE, READY_FILE

LOOPBACK = "127.0.0.1"
_LONGEST_TEMPORARY = 40
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+-]+")
DEFAULT_PLANES = ("sandbox.sagemaker", "sandbox.cloud.fsx")


class StartError(Exception):
    """The emulator cannot start; the text says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Options:
    port: int
    """0: any free port."""
    state_dir: Path
    region: str
    account: str
    planes: tuple[str, ...]
    parent_fd: int | None
    """The read end of a pipe whose write end the parent holds: the emulator ends when it closes."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)  # children stay in this group, and the warden kills the whole group
    try:
        run(options)
    except (StartError, hooks.HookMissingError) as error:
        print(f"sandbox: {error}", file=sys.stderr)
        return 1
    return 0


def run(options: Options) -> None:
    """Serve until told to end. Raises StartError or HookMissingError before anything is served."""
    options.state_dir.mkdir(parents=True, exist_ok=True)
    lock = _lock(options.state_dir)  # held until the process ends
    (options.state_dir / READY_FILE).unlink(missing_ok=True)
    listener = _listen(options.port)
    guard = ProcessGuard(os.getpgrp())
    try:
        port = listener.getsockname()[1]
        temporary = _temporary_folder(options.state_dir)
        guard.remove_at_the_end(temporary)
        _configure_ministack(options, port)
        tempfile.tempdir = str(temporary)
        hooks.check()
        from sandbox.cloud import server  # noqa: PLC0415 - imports MiniStack, which must see its settings first

        services = server.extend(
            endpoint_url=f"http://{LOOPBACK}:{port}",
            region=options.region,
            account=options.account,
            state_dir=options.state_dir,
            guard=guard,
            planes=options.planes,
        )
        # Not asyncio.run: that would wait for every thread, and a thread may wait an hour for a custom resource.
        asyncio.new_event_loop().run_until_complete(server.serve(listener, services, options.parent_fd))
        shutil.rmtree(temporary, ignore_errors=True)
    finally:
        lock.close()


def _parse(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m sandbox.cloud.emulator", description="Holdfast's embedded AWS.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (0: any free one)")
    parser.add_argument("--state-dir", type=Path, required=True, help="folder for the emulator's files")
    parser.add_argument("--region", default="us-east-1")
    parser.add_argument("--account", default="000000000000")
    parser.add_argument("--plane", action="append", help=f"module to plug in; default: {', '.join(DEFAULT_PLANES)}")
    parser.add_argument("--no-planes", action="store_true", help="MiniStack's own services only")
    parser.add_argument("--parent-fd", type=int, help="end when this pipe closes")
    given = parser.parse_args(arguments)
    return Options(
        port=given.port,
        state_dir=given.state_dir.absolute(),
        region=given.region,
        account=given.account,
        planes=() if given.no_planes else tuple(given.plane or DEFAULT_PLANES),
        parent_fd=given.parent_fd,
    )


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except OSError as error:
        text = f"port {port} on {LOOPBACK} cannot be used: {error.strerror}; --port 0 takes a free one"
        raise StartError(text) from error
    listener.listen(128)
    return listener


def _lock(state_dir: Path) -> TextIO:
    lock = (state_dir / LOCK_FILE).open("w")
    for _ in range(10):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError:
            time.sleep(0.05)  # somebody who tidies up looks at the lock for an instant, see state.py
    raise StartError(f"{state_dir} belongs to an emulator that is running; give another --state-dir")


def _temporary_folder(state_dir: Path) -> Path:
    """Where this emulator's temporary files go: below the state folder where its path allows, else in one of its own.

    Job hosts make Unix sockets there, whose paths have 107 bytes, and reach their trees through a link in it where the
    state folder's path would need quoting in a shell.
    """
    folder = state_dir / "tmp"
    shutil.rmtree(folder, ignore_errors=True)
    if len(str(folder)) > _LONGEST_TEMPORARY or not _PLAIN_PATH.fullmatch(str(folder)):
        return Path(tempfile.mkdtemp(prefix="holdfast-", dir="/tmp"))  # macOS's own is too long
    folder.mkdir()
    return folder


def _configure_ministack(options: Options, port: int) -> None:
    """MiniStack reads its settings from the environment, most of them when it is imported."""
    home = options.state_dir / "home"
    home.mkdir(exist_ok=True)
    os.environ.update(
        {
            "AUTH": "true",
            "GATEWAY_PORT": str(port),
            "MINISTACK_HOST": LOOPBACK,
            "MINISTACK_REGION": options.region,
            "MINISTACK_ACCOUNT_ID": options.account,
            "LAMBDA_EXECUTOR": "local",
            "IOT_MTLS_ENABLED": "0",  # would listen on a port of its own
            "SFTP_ENABLED": "0",
            # MiniStack sweeps containers of other MiniStacks at start: another emulator on this machine is not ours.
            "DOCKER_HOST": "unix:///nonexistent/holdfast-sandbox-uses-no-docker",
            # What the functions inherit: no file of the person at the keyboard, and no X-Ray daemon to send to.
            "HOME": str(home),
            "TZ": "UTC",
            "POWERTOOLS_TRACE_DISABLED": "true",
        }
    )


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: threads that wait for a function or a poll would be joined first. The warden ends the children.
    os._exit(code)
