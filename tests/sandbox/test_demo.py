"""`make demo` as a person starts it: its exit code, its summary, and that nothing of it runs on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SUMMARY = REPOSITORY / ".sandbox" / "summary.json"

pytestmark = pytest.mark.end_to_end


def processes_that_mention(text: str) -> list[str]:
    """Command lines and environments of this machine's processes that hold the text, this one's aside."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in told and int(folder.name) != os.getpid():
            found.append(told.replace(b"\0", b" ").decode(errors="replace")[:200])
    return found


def test_the_demo_holds_every_invariant_and_leaves_nothing_behind() -> None:
    SUMMARY.unlink(missing_ok=True)
    shown = subprocess.run(
        [sys.executable, "-m", "sandbox.demo"], cwd=REPOSITORY, capture_output=True, text=True, timeout=420, check=False
    )
    assert shown.returncode == 0, shown.stdout[-6_000:] + shown.stderr[-2_000:]
    summary = json.loads(SUMMARY.read_text())
    assert all(summary["invariants"].values())
    runs = {run["name"].partition("/")[2]: run for run in summary["runs"]}
    healthy, frozen, refused = runs["healthy"], runs["frozen"], runs["bad"]
    assert healthy["phase"] == frozen["phase"] == "succeeded"
    assert frozen["cause"] == "hang"
    assert frozen["seconds_hang_to_detected"] > 0
    assert frozen["attempts"][1]["resumed_from_step"] > 0
    assert refused["phase"] == "refused"
    told = {
        name: (run["phase"], run["cause"]) for name, run in runs.items() if name not in ("healthy", "frozen", "bad")
    }
    assert told == {
        "killed": ("succeeded", "hardware"),
        "broken": ("failed", "user_error"),
        "crowded": ("succeeded", "capacity"),
        "spot": ("succeeded", None),
        "person": ("stopped", "stopped_by_person"),
    }
    state = shown.stdout.split("its log is ")[1].split("/emulator.log")[0]
    assert processes_that_mention(state) == []
