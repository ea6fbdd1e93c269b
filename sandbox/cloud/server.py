"""MiniStack with the sandbox's extensions, served. Imports MiniStack: `emulator.py` sets its settings first."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

from hypercorn.asyncio import serve as hypercorn_serve
from hypercorn.config import Config
from ministack import app

from sandbox.cloud import (
    async_invocation,
    cloudformation_types,
    cloudformation_wait,
    custom_resources,
    finer_authorization,
    function_logs,
    iam,
    lambda_workers,
    log_events,
)
from sandbox.cloud.denials import DenialLog
from sandbox.cloud.guard import ProcessGuard
from sandbox.cloud.secure_transport import behind_tls
from sandbox.cloud.services import Services
from sandbox.cloud.state import READY_FILE

SHUTDOWN_SECONDS = 15.0
"""How long an orderly end may take before the process ends itself and the warden kills the rest."""


def extend(
    *, endpoint_url: str, region: str, account: str, state_dir: Path, guard: ProcessGuard, planes: Sequence[str]
) -> Services:
    """Put every extension in place, and plug in the planes."""
    if not app.AUTH:
        raise RuntimeError("MiniStack was imported before its settings were made: IAM would not be enforced")
    cloudformation_types.install()
    cloudformation_wait.install()
    custom_resources.install()
    async_invocation.install(endpoint_url)
    lambda_workers.isolate(state_dir)
    finer_authorization.install()
    iam.record_denials(DenialLog(state_dir))
    function_logs.install()
    log_events.install()
    services = Services(endpoint_url=endpoint_url, region=region, account=account, state_dir=state_dir, guard=guard)
    install_services(services, planes)
    return services


def install_services(services: Services, planes: Sequence[str]) -> None:
    """Plug in each plane: a module with a function `install(context: CloudContext) -> None`."""
    for plane in planes:
        importlib.import_module(plane).install(services)


async def serve(listener: socket.socket, services: Services, parent_fd: int | None) -> None:
    """Answer requests until a signal, or until the pipe `parent_fd` closes."""
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.keep_alive_timeout = 75
    ending = _ending(parent_fd)
    _say_ready(services.state_dir, services.endpoint_url)

    async def until_the_end() -> None:
        await ending.wait()
        _force_the_end_after(SHUTDOWN_SECONDS)
        # While requests are still served: a training job that is being stopped writes its last files and logs.
        await asyncio.to_thread(services.shut_down)
        # Functions that still run: their answers are what the last requests wait for. This process ignores it by now.
        os.killpg(os.getpgrp(), signal.SIGTERM)

    await hypercorn_serve(behind_tls(app.app), config, shutdown_trigger=until_the_end)  # type: ignore[arg-type]


def _ending(parent_fd: int | None) -> asyncio.Event:
    loop = asyncio.get_running_loop()
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, ending.set)
    if parent_fd is not None:
        threading.Thread(target=_wait_for_parent, args=(parent_fd, loop, ending), daemon=True).start()
    return ending


def _wait_for_parent(parent_fd: int, loop: asyncio.AbstractEventLoop, ending: asyncio.Event) -> None:
    while os.read(parent_fd, 1024):
        pass
    # The parent is gone, whatever killed it. The deadline starts here: the loop itself may be stuck.
    _force_the_end_after(SHUTDOWN_SECONDS)
    loop.call_soon_threadsafe(ending.set)


def _force_the_end_after(seconds: float) -> None:
    timer = threading.Timer(seconds, os._exit, args=(1,))
    timer.daemon = True
    timer.start()


def _say_ready(state_dir: Path, endpoint_url: str) -> None:
    """The socket already listens: whoever reads this file may connect, and is answered once the loop runs."""
    partial = state_dir / (READY_FILE + ".partial")
    partial.write_text(json.dumps({"endpoint_url": endpoint_url, "pid": os.getpid()}))
    partial.rename(state_dir / READY_FILE)
