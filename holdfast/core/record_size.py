"""Keeps a run's record small: DynamoDB refuses an item above 400 KB, and a run that cannot be written is lost."""

from __future__ import annotations

import json
from dataclasses import replace

from holdfast.core.model import KEPT_ATTEMPTS, Attempt, Notice, Run, dump_attempt, dump_run

KEPT_NOTICES = 6
RECORD_LIMIT_BYTES = 300_000
_ERRORS = 10
# Bytes of one text as the record holds it, in JSON with escapes: a letter outside ASCII takes six, a smiley twelve.
_WORDS = 1_500
_BODY = 4_000


def surplus(run: Run) -> tuple[Attempt, ...]:
    """Attempts to be archived, the oldest first. All have ended, since only the newest one can live."""
    return run.attempts[:-KEPT_ATTEMPTS]


def without_surplus(run: Run) -> Run:
    return replace(run, attempts=run.attempts[-KEPT_ATTEMPTS:])


def history_line(run: Run, attempt: Attempt) -> str:
    """One line of JSON, with its newline: such objects can be joined as they are."""
    line = {"run": run.id, "uid": run.uid, "attempt": json.loads(dump_attempt(attempt))}
    return json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n"


def bounded(run: Run) -> Run:
    """The same run with every text and list cut to what its record has room for.

    The newest notices stay. They pile up only while none can be sent, and then the status object tells the same.
    """
    short = replace(
        run,
        why=_cut(run.why),
        note=_cut(run.note),
        health=_cut(run.health),
        denied=_cut(run.denied),
        refused=tuple(_cut(one) for one in run.refused[:_ERRORS]),
        attempts=tuple(replace(one, reason=_cut(one.reason)) for one in run.attempts),
        notices=tuple(_short(one) for one in run.notices[-KEPT_NOTICES:]),
    )
    while short.notices and len(dump_run(short)) > RECORD_LIMIT_BYTES:
        short = replace(short, notices=short.notices[1:])
    return short


def _short(one: Notice) -> Notice:
    return replace(one, body=_cut(one.body, _BODY))


def _cut(text: str, limit: int = _WORDS) -> str:
    size = len(json.dumps(text)) - 2
    if size <= limit:
        return text
    # Cut by the average letter; where the dearer letters come first, once more.
    return _cut(text[: (limit - 3) * len(text) // size - 1] + "...", limit)
