"""Which processes a cloud has: what the tests about its end look at."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path


def of_cloud(state_dir: Path, *pids: int) -> list[str]:
    """Command lines of all processes that belong to the cloud of `state_dir`, and of those with the given pids.

    The emulator and the functions name the folder in their command line; a warden names the emulator's pid.
    """
    listing = subprocess.run(
        ["ps", "-axww", "-o", "pid=,stat=,args="], capture_output=True, text=True, check=True
    ).stdout
    found = []
    for line in listing.splitlines():
        pid, state, arguments = line.split(None, 2) if len(line.split(None, 2)) == 3 else (*line.split(None, 1), "")
        is_warden = any(arguments.endswith(f"warden.py {number}") for number in pids)
        is_driver = "hold_cloud" in arguments
        mine = str(state_dir) in arguments or int(pid) in pids or is_warden
        if mine and not is_driver and not state.startswith("Z"):
            found.append(arguments)
    return found


def wait_until(condition: Callable[[], bool], *, within_seconds: float) -> bool:
    deadline = time.monotonic() + within_seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def heed_ctrl_c() -> None:
    """For a child before it begins: a shell starts what it puts into the background with Ctrl-C ignored, and a test run
    from there would hand that on to the very process that is to be interrupted."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
