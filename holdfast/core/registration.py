"""What becomes of a run when a manifest was read: a new run, a changed one, a resumed one, or a refusal in words.

Pure. Reading the manifest, minting the uid and copying the team's code are the caller's; so is writing the result, on
the condition that the run is still of `existing`'s version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.field_errors import FieldError
from holdfast.core.layout import run_id
from holdfast.core.manifest import Manifest
from holdfast.core.model import Ledger, Notice, Phase, Pins, Run, digest_of
from holdfast.core.notices import notice

# Read by the watcher at each look. All other fields are part of the training job and cannot change while it lives.
_APPLIED_NOW = ("watch.", "notify.", "state", "limits.max_restarts", "limits.backoff_seconds")


@dataclass(frozen=True)
class Registration:
    """`run` is None where a manifest was refused and there is no run. `changed`: `run` has to be written.

    `words` is for people. `errors` is empty where the manifest was accepted.
    """

    run: Run | None
    changed: bool
    words: str
    errors: tuple[FieldError, ...] = ()

    @property
    def accepted(self) -> bool:
        return not self.errors


def register(
    existing: Run | None, manifest: Manifest, *, team: str, name: str, pins: Pins, spec_hash: str, uid: str, now: float
) -> Registration:
    """`pins` and `uid` are those that a run would get if it began now; a run that goes on keeps its own."""
    if existing is None:
        run = Run(team, name, uid, manifest, spec_hash, pins, registered_at=now, why="registered")
        return Registration(run, True, f"{run.id} is registered.")
    if spec_hash == existing.spec_hash:
        return same_again(existing)
    before, after = existing.manifest.generation, manifest.generation
    if after < before:
        wrong = f"is {after}, and the run is at generation {before} already"
        right = f"{before}, or higher once the run has finished"
        return refuse(existing, team, name, (FieldError("generation", wrong, right),))
    if after > before:
        return _next_generation(existing, manifest, pins, spec_hash, uid, now)
    if existing.phase is Phase.SUCCEEDED:
        wrong = f"is still {after}, and the run has succeeded"
        right = f"raise it to {after + 1} to run again, from nothing"
        return refuse(existing, team, name, (FieldError("generation", wrong, right),))
    return _changed(existing, manifest, pins, spec_hash)


def refuse(existing: Run | None, team: str, name: str, errors: tuple[FieldError, ...]) -> Registration:
    """A run that there is goes on under the manifest before; the errors are kept on it and its people are told."""
    words = refusal_words(team, name, errors, goes_on=existing is not None and not existing.phase.terminal)
    said = tuple(str(error) for error in errors)
    if existing is None:
        return Registration(None, False, words, errors)
    if existing.refused == said:
        return Registration(existing, False, words, errors)
    told = notice(existing, "refused", words, key=digest_of(said)[:16])
    notices = existing.notices if told is None else (*existing.notices, told)
    return Registration(replace(existing, refused=said, notices=notices, status_due=True), True, words, errors)


def refusal_words(team: str, name: str, errors: tuple[FieldError, ...], *, goes_on: bool) -> str:
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    rest = "The run goes on under the manifest before." if goes_on else "Nothing was started."
    return "\n".join([f"The manifest of {run_id(team, name)} was refused ({count}). {rest}", *map(str, errors)])


def refusal_notice(team: str, name: str, errors: tuple[FieldError, ...]) -> Notice:
    """For a manifest that was refused and has no run, so no record that could owe the notice."""
    identity = run_id(team, name)
    return Notice(
        id=f"{identity}/refused/{digest_of([str(error) for error in errors])[:16]}",
        team=team,
        kind="refused",
        subject=f"Holdfast: {identity} manifest refused"[:100],
        body=refusal_words(team, name, errors, goes_on=False)[:8_000],
    )


def untaken_notice(team: str, name: str, words: str) -> Notice:
    """For a manifest that could not be judged since Holdfast was denied a call."""
    identity = run_id(team, name)
    return Notice(
        id=f"{identity}/untaken/{digest_of(words)[:16]}",
        team=team,
        kind="denied",
        subject=f"Holdfast: {identity} manifest not taken yet"[:100],
        body=f"The manifest of {identity} could not be taken yet. {words}"[:8_000],
    )


def name_clash(key: str, siblings: Collection[str]) -> FieldError | None:
    """`siblings` are the keys in the same folder. Two files of one stem, such as a.yaml and a.json, name one run."""
    stem = key.rpartition(".")[0]
    others = sorted(other for other in siblings if other != key and other.rpartition(".")[0] == stem)
    if not others:
        return None
    files = " and ".join(other.rpartition("/")[2] for other in (key, *others))
    return FieldError("", f"names the same run as another file: {files}", "keep one of them and delete the other")


# ---------------------------------------------------------------------------------------------------------------------


def same_again(existing: Run) -> Registration:
    """The same meaning as registered, in the same bytes or in others."""
    if existing.refused:
        run = replace(existing, refused=(), status_due=True)
        return Registration(run, True, f"{run.id} is as registered before; the refused version is forgotten.")
    words = f"{existing.id} is registered in this form already; nothing changes."
    if existing.phase is Phase.STOPPED and existing.manifest.state == "running":
        words += " To resume it, set state: stopped and then state: running."
    if existing.phase is Phase.FAILED:
        words += " It has failed; a changed manifest resumes it from its last sealed checkpoint."
    if existing.phase is Phase.SUCCEEDED:
        words += f" It has finished; raise generation to {existing.manifest.generation + 1} to run it again."
    return Registration(existing, False, words)


def _next_generation(
    existing: Run, manifest: Manifest, pins: Pins, spec_hash: str, uid: str, now: float
) -> Registration:
    before = existing.manifest.generation
    if not existing.phase.terminal:
        wrong = f"is {manifest.generation}, while generation {before} is {existing.phase.value}"
        right = f"leave it at {before}, or end the run first with state: stopped and raise it once the run is stopped"
        return refuse(existing, existing.team, existing.name, (FieldError("generation", wrong, right),))
    words = f"Generation {manifest.generation} begins from nothing; attempt numbers go on at {existing.next_number}."
    run = replace(
        existing,
        uid=uid,
        manifest=manifest,
        spec_hash=spec_hash,
        pins=pins,
        registered_at=now,
        phase=Phase.ACCEPTED,
        why=f"generation {manifest.generation} registered",
        cause=None,
        due_at=None,
        hold=None,
        ledger=Ledger(),
        suspicion=None,
        refused=(),
        note=words,
        health="",
        alerted=False,
        status_due=True,
    )
    return Registration(run, True, words)


def _changed(existing: Run, manifest: Manifest, pins: Pins, spec_hash: str) -> Registration:
    words = change_words(existing.manifest, manifest)
    run = replace(
        existing,
        manifest=manifest,
        spec_hash=spec_hash,
        pins=_kept_pins(existing.manifest, existing.pins, manifest, pins),
        refused=(),
        note=words,
        status_due=True,
    )
    if existing.hold is not None:
        # The hold was for what the manifest asked for before; a smaller wish may fit at once.
        run = replace(run, hold=None, due_at=None)
    # A failed run too: its checkpoints are worth as much as those of one that was stopped, and a changed manifest says
    # that somebody looked. Only a new generation begins from nothing.
    if existing.phase in (Phase.STOPPED, Phase.FAILED) and manifest.state == "running":
        words = f"The run resumes from its last sealed checkpoint. {words}"
        run = replace(
            run,
            phase=Phase.ACCEPTED,
            why="resumed by its manifest",
            cause=None,
            due_at=None,
            hold=None,
            ledger=replace(existing.ledger, charged={}),
            suspicion=None,
            alerted=False,
            health="",
            note=words,
        )
    return Registration(run, True, words)


def _kept_pins(before: Manifest, kept: Pins, after: Manifest, new: Pins) -> Pins:
    """A lineage moves only where its author asked: an upgrade of Holdfast, a moved catalogue entry or an overwritten
    tarball in between must not come along with a changed watch."""
    if after.template != before.template:
        # The template may exist in the newer bundle only.
        return new
    pins = kept
    if after.image != before.image:
        pins = replace(pins, image_uri=new.image_uri)
    if after.source != before.source:
        pins = replace(pins, code_prefix=new.code_prefix, code_sha256=new.code_sha256, entry_point=new.entry_point)
    return pins


def change_words(before: Manifest, after: Manifest) -> str:
    """Field by field what is applied now and what at the next attempt."""
    changes = list(_changes(_flat(before), _flat(after)))
    now = [words for field, words in changes if field.startswith(_APPLIED_NOW)]
    later = [words for field, words in changes if not field.startswith(_APPLIED_NOW)]
    parts = []
    if now:
        parts.append(f"Applied now: {', '.join(now)}.")
    if later:
        parts.append(f"At the next attempt: {', '.join(later)}.")
    return " ".join(parts)[:4_000]


def _changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for field in sorted(before.keys() | after.keys()):
        old, new = before.get(field, "none"), after.get(field, "none")
        if old != new:
            yield field, f"{field} ({_cut(old)} -> {_cut(new)})"


def _flat(manifest: Manifest) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    waiting: list[tuple[str, Any]] = [("", manifest.model_dump(mode="json", exclude={"name"}))]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend((f"{path}.{name}" if path else name, child) for name, child in value.items())
        elif path == "data":
            waiting.extend((f"data.{channel['channel']}", channel) for channel in value)
        else:
            fields[path] = value
    return fields


def _cut(value: Any) -> str:
    text = "none" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
