"""The record of denied IAM decisions: one line of JSON each, `denied.jsonl` in the emulator's state folder.

AWS says to a caller that it was denied, and to the account in CloudTrail. Here one file says it of every caller alike:
of functions whose answer nobody reads, and of what a service asks a role for without any call that could be seen.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

DENIALS_FILE = "denied.jsonl"


@dataclass(frozen=True, kw_only=True)
class Denial:
    """`principal` is an ARN, `action` as in a policy (`s3:PutObject`), `resource` the ARN that was asked for or `*`."""

    at: float
    """Epoch seconds."""
    principal: str
    action: str
    resource: str

    @property
    def role(self) -> str:
        """Name of the role behind an assumed role's session; empty for anybody else."""
        kind, _, rest = self.principal.rpartition(":")[2].partition("/")
        return rest.partition("/")[0] if kind == "assumed-role" else ""


class DenialLog:
    """Appends to the file. Thread-safe: decisions are made on the event loop and on the planes' threads."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / DENIALS_FILE
        self._lock = threading.Lock()

    def add(self, *, principal: str, action: str, resource: str) -> None:
        denial = Denial(at=time.time(), principal=principal, action=action, resource=resource)
        with self._lock, self._file.open("a") as file:
            file.write(json.dumps(asdict(denial)) + "\n")


def read_denials(state_dir: Path) -> list[Denial]:
    """All of them so far, oldest first. A line that is being written at this moment is left for the next reading."""
    try:
        text = (state_dir / DENIALS_FILE).read_text()
    except FileNotFoundError:
        return []
    return [Denial(**json.loads(line)) for line in text[: text.rfind("\n") + 1].splitlines()]
