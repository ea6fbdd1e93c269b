"""The failure file: what SageMaker shows as FailureReason (the first 1,024 characters of /opt/ml/output/failure count).

It names the error that came first. When one rank dies, the others fail a moment later with a closed connection, and
whoever reads the last traceback reads the last victim's.
"""

from __future__ import annotations

import os
import re
import signal
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from holdfast_agent.lines import STDERR, say

FAILURE_CHARACTERS = 1024
REFUSAL = "Holdfast: "
"""How the failure file of a script that was not started begins, for whoever reads FailureReason. SageMaker puts
"AlgorithmError: " before it."""
_TAIL_LINES = 2000

_RANK_PREFIX = re.compile(r"^\[rank(\d+)\]: ?")
_FRAME = re.compile(r'^\s+File "([^"]+)", line (\d+), in (\S+)')
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
# How a rank reads whose peer went away: a consequence, never the cause.
_CONSEQUENCE = re.compile(
    r"Connection closed by peer|Connection reset by peer|Timed out waiting \d+ms for (send|recv)|ncclRemoteError"
    r"|NCCL communicator was aborted|failed to recv, got 0 bytes|Broken pipe"
)
# torchrun's own report, which names the rank that failed first.
_ROOT_CAUSE = re.compile(
    r"Root Cause \(first observed failure\):.*?rank\s*:\s*(\d+) \(local_rank.*?exitcode\s*:\s*(-?\d+)", re.DOTALL
)


@dataclass(frozen=True)
class ScriptError:
    rank: int | None
    text: str
    where: str

    @property
    def is_consequence(self) -> bool:
        return _CONSEQUENCE.search(self.text) is not None


@dataclass(frozen=True)
class RootCause:
    rank: int
    exit_code: int


class ErrorTail:
    """Passes the script's stderr on, one write a line, and keeps its end."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_TAIL_LINES)

    def take(self, line: bytes) -> None:
        self._lines.append(line[:1000].decode("utf-8", "replace").rstrip("\r\n"))
        while line:
            try:
                line = line[os.write(STDERR, line) :]
            except OSError:
                return

    def lines(self) -> list[str]:
        return list(self._lines)


def root_cause(lines: Iterable[str]) -> RootCause | None:
    found = _ROOT_CAUSE.search("\n".join(lines))
    return RootCause(int(found.group(1)), int(found.group(2))) if found else None


def script_errors(lines: Iterable[str]) -> list[ScriptError]:
    """The exceptions whose tracebacks stand in the lines, in order. Of a chain of exceptions only the last counts.

    torch prefixes each line of a traceback with its rank once the ranks are connected; lines of different ranks are
    read apart, so they may be mixed.
    """
    errors: list[ScriptError] = []
    open_where: dict[int | None, str | None] = {}
    chained: dict[int | None, ScriptError | None] = {}
    for line in lines:
        prefix = _RANK_PREFIX.match(line)
        rank = int(prefix.group(1)) if prefix else None
        text = line[prefix.end() :] if prefix else line
        if text.startswith("Traceback (most recent call last):"):
            earlier = chained.pop(rank, None)
            if earlier is not None and earlier in errors:
                errors.remove(earlier)
            open_where[rank] = ""
        elif rank in open_where:
            frame = _FRAME.match(text)
            if frame and ("site-packages" not in frame.group(1) or not open_where[rank]):
                open_where[rank] = f"{Path(frame.group(1)).name}:{frame.group(2)} in {frame.group(3)}"
            elif text and not text[0].isspace():
                error = ScriptError(rank, text.strip(), open_where.pop(rank) or "")
                errors.append(error)
                chained[rank] = error
        elif text.strip() and not text.startswith(_CHAINED):
            chained.pop(rank, None)
    return [error for error in errors if not error.text.startswith("torch.distributed.elastic.")]


def first_error(errors: list[ScriptError], cause: RootCause | None) -> ScriptError | None:
    """The one that ended the script: the root rank's own if torch tagged it, else the last that is no consequence
    (earlier ones were caught and logged)."""
    own = [error for error in errors if cause is not None and error.rank == cause.rank]
    candidates = own or errors
    causes = [error for error in candidates if not error.is_consequence]
    if cause is not None and not own:
        # The root rank died without a word (a signal): its victims' errors would only mislead.
        return causes[-1] if causes else None
    ended_it = causes or candidates
    return ended_it[-1] if ended_it else None


def describe_exit(code: int) -> str:
    """An exit code in words; negative ones are signals, as subprocess gives them."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (the kernel ends a container that is out of memory so)" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"


def shell_code(code: int) -> int:
    """128 + n for a signal n, as shells do."""
    return code if code >= 0 else 128 - code


def describe_failure(host: str, code: int, lines: list[str]) -> str:
    """The failure file's text for a script that ended with `code`."""
    cause = root_cause(lines)
    error = first_error(script_errors(lines), cause)
    if cause is None:
        words = f"host {host}: the script {describe_exit(code)}"
    else:
        words = f"host {host}: rank {cause.rank} failed first here and {describe_exit(cause.exit_code)}"
    if error is not None:
        words += f": {error.text}"
        if error.where:
            words += f" ({error.where})"
        if error.is_consequence:
            words += "; a consequence: a process on another host or rank ended before it"
    return words[:FAILURE_CHARACTERS]


def write_failure(base: Path, words: str) -> None:
    """Raises nothing: a disk that is full must not hide the exit code, and the words are in the log too."""
    try:
        folder = base / "output"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "failure").write_text(words[:FAILURE_CHARACTERS], encoding="utf-8")
    except OSError as error:
        say(f"the failure file cannot be written: {error}")
