"""Folders of the emulators below `.sandbox/`: one each, kept for a look after the fact, the oldest dropped."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path

LOCK_FILE = "lock"
"""Held (flock) by the emulator that owns the folder; the kernel lets go of it when the process ends."""
READY_FILE = "ready.json"
LOG_FILE = "emulator.log"

_PREFIX = "cloud-"


def new_state_dir(root: Path, *, keep: int = 2) -> Path:
    """A fresh folder below `root` for one emulator. Of the folders whose emulator has ended, the newest `keep` stay."""
    root.mkdir(parents=True, exist_ok=True)
    ended = sorted((found for found in root.glob(_PREFIX + "*") if not _in_use(found)), key=_age_key, reverse=True)
    for old in ended[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root)).absolute()


def _age_key(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _in_use(folder: Path) -> bool:
    """Whether an emulator runs there. A folder without a lock yet has just been made by somebody: in use."""
    try:
        with (folder / LOCK_FILE).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False
