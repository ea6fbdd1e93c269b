"""The machine's process table: who descends from whom, and what CPU time and memory a host's processes take.

Linux reads /proc; elsewhere `ps` is asked, which is slower and does not count the CPU time of processes that ended.
Standard library only: the host's shim (shim.py) runs it in an isolated interpreter.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    state: str
    """First letter of `ps`'s state: R S D T(stopped) Z(zombie)."""
    cpu_seconds: float
    """User and system time, of its own and of the children that it has waited for."""
    resident_bytes: int


def table() -> dict[int, Process]:
    """Every process on the machine that can be seen."""
    return _from_proc() if (_PROC / "self/stat").exists() else _from_ps()


def descendants(ancestor: int, processes: dict[int, Process] | None = None) -> list[Process]:
    """Children of `ancestor`, their children and so on, parents first; zombies are left out."""
    known = table() if processes is None else processes
    children: dict[int, list[Process]] = {}
    for process in known.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [ancestor]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.append(child)
            waiting.append(child.pid)
    return [process for process in found if not process.state.startswith("Z")]


def with_environment(name: str, value: str) -> list[int]:
    """Processes that were started with this variable (Linux; empty elsewhere). Finds what has lost its parents."""
    wanted = f"{name}={value}".encode()
    found = []
    for folder in _PROC.glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue  # ended meanwhile, or somebody else's
    return found


def _from_proc() -> dict[int, Process]:
    found = {}
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text(errors="replace")
        except OSError:
            continue  # ended meanwhile
        # The command's name is in brackets and may hold anything; the fields after it are fixed (proc(5)).
        fields = text[text.rindex(")") + 2 :].split()
        pid = int(folder.name)
        ticks = sum(int(field) for field in fields[11:15])
        found[pid] = Process(pid, int(fields[1]), fields[0], ticks / _TICKS, int(fields[21]) * _PAGE)
    return found


def _from_ps() -> dict[int, Process]:
    listing = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,stat=,time=,rss="], capture_output=True, text=True, check=True
    ).stdout
    found = {}
    for line in listing.splitlines():
        pid, parent, state, cpu_time, resident = line.split()
        found[int(pid)] = Process(int(pid), int(parent), state, _seconds(cpu_time), int(resident) * 1024)
    return found


def _seconds(cpu_time: str) -> float:
    """`[days-][hours:]minutes:seconds` of ps."""
    days, _, rest = cpu_time.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + int(days or 0) * 86400
