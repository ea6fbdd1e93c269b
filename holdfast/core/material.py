"""Which part of a run's record is worth a write."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.model import Run


def material(run: Run) -> Run:
    """The record without what changes at every look. Two records that are equal here need no write."""
    attempts = tuple(
        replace(
            one,
            last_step=None,
            last_step_at=None,
            described=None if one.described is None else replace(one.described, described_at=0.0),
        )
        for one in run.attempts
    )
    return replace(run, attempts=attempts, health="", written_at=0.0)
