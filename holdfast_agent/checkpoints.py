"""Checkpoints that are whole or not there.

    checkpoints = holdfast_agent.Checkpoints.from_env()
    restored = checkpoints.restore()
    if restored is not None:
        state = restored.load("state.pt")
    ...
    checkpoints.save(step, {"state.pt": state}, loss=loss)

Call both on every rank. Rank 0 writes, on its host only; with SageMaker's sync every host has a copy after a restart.

A save is written in a staging folder (staging.py), which is renamed into place; its seal is renamed into it last. What
is old is deleted only once something newer is safe (retention.py).
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import math
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from holdfast_agent.beat import Beat, heartbeat
from holdfast_agent.contract import ContractError, JobContext, Lease, Seal, render_seal, step_folder, step_of_folder
from holdfast_agent.lease import Fence, FencedError, LeaseUnknownError
from holdfast_agent.lines import say
from holdfast_agent.objects import ObjectsUnavailableError, S3Objects
from holdfast_agent.ranks import Ranks
from holdfast_agent.retention import OpenCopy, Retention, S3Copy, SyncedCopy
from holdfast_agent.sealing import NotRestorableError, inspect_folder, unseal_and_remove, verify_files, write_files
from holdfast_agent.staging import Staging

INCARNATION = "HOLDFAST_INCARNATION"
"""Set by the launcher on the leader host: 1 and up for a lease that was taken, 0 where fencing is off."""


@dataclass(frozen=True)
class Restored:
    """A checkpoint that is whole on every host."""

    step: int
    folder: Path
    seal: Seal

    def load(self, name: str, map_location: Any = "cpu") -> Any:
        """An object that was saved through torch. Only tensors and plain values are loaded (weights_only), because a
        pickle from a bucket can run code. Raises KeyError for a name that is not sealed."""
        return importlib.import_module("torch").load(self._path(name), map_location=map_location, weights_only=True)

    def read(self, name: str) -> bytes:
        """A file that was saved as bytes. Raises KeyError for a name that is not sealed."""
        return self._path(name).read_bytes()

    def _path(self, name: str) -> Path:
        if name not in {entry.path for entry in self.seal.files}:
            raise KeyError(f"checkpoint of step {self.step} has no {name!r}")
        return self.folder / name


class Checkpoints:
    """The sealed checkpoints of one run below `root`; at least `keep` of them stay, and never fewer than two.

    `open_fence` is called before each seal and gives None where fencing is off; `open_copy` before each deletion and
    gives None where nothing copies deletions to S3; `clock` gives epoch seconds.
    """

    def __init__(
        self,
        root: Path,
        *,
        run: str,
        uid: str,
        lease: Lease,
        keep: int,
        ranks: Ranks,
        beat: Beat,
        open_fence: Callable[[], Fence | None] = lambda: None,
        open_copy: OpenCopy = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root = root
        self._run = run
        self._uid = uid
        self._lease = lease
        self._retention = Retention(keep, open_copy)
        self._ranks = ranks
        self._beat = beat
        self._open_fence = open_fence
        self._clock = clock
        self._staging = Staging(root, lease)
        # Steps that restore() found damaged. Retention must not count them among the good ones that it may rely on.
        self._damaged: set[int] = set()
        # Steps that this process wrote over another folder. What S3 has of them may be the other's.
        self._replaced: set[int] = set()

    @staticmethod
    def from_env(local: str | os.PathLike[str] | None = None) -> Checkpoints:
        """Those of the job that the launcher started this script for; outside of any job those in the folder `local`,
        to try the script at home. Raises ContractError, in words, outside of a job without `local`."""
        if "HOLDFAST_RUN" not in os.environ:
            if local is None:
                raise ContractError(
                    "this process is in no Holdfast job (HOLDFAST_RUN is not set); to try the script at home, name a "
                    "folder for its checkpoints: Checkpoints.from_env(local='checkpoints')"
                )
            at_home = Lease(0, 0)
            ranks, beat = Ranks.from_env(os.environ), heartbeat()
            return Checkpoints(Path(local), run="local", uid="local", lease=at_home, keep=3, ranks=ranks, beat=beat)
        context = JobContext.from_env(os.environ)
        incarnation = os.environ.get(INCARNATION, "")
        lease = Lease(context.attempt, int(incarnation) if incarnation.isdigit() else 0)
        open_objects = functools.cache(lambda: S3Objects(os.environ))
        return Checkpoints(
            root=Path(context.checkpoint_path),
            run=context.run,
            uid=context.uid,
            lease=lease,
            keep=context.checkpoint_keep,
            ranks=Ranks.from_env(os.environ),
            beat=heartbeat(),
            open_fence=_fence_opener(context, lease, open_objects),
            open_copy=_copy_opener(context, open_objects),
        )

    # --- save ---------------------------------------------------------------------------------------------------------

    def save(self, step: int, files: Mapping[str, Any], loss: float | None = None) -> Seal | None:
        """Writes, seals and then deletes what exceeds `keep`; blocks until it is durable on disk.

        Values are bytes, or objects for torch.save. A `loss` that is not finite is sealed as such and never restored.
        Returns the seal; None on other ranks than 0, and where nobody can say who holds the lease now (said in words;
        nothing is sealed then). A step that is sealed and whole already is not written again: its seal is returned.
        Raises FencedError where a newer attempt owns the checkpoints, OSError for a full disk.
        """
        if self._ranks.rank != 0:
            return None
        there = self._sealed_already(step)
        if there is not None:
            return there
        self._beat.phase("checkpoint", step=step)
        try:
            seal = self._write_anew(step, files, loss)
        except LeaseUnknownError as unknown:
            say(f"checkpoint of step {step} is not sealed, because the lease cannot be checked: {unknown}")
            return None
        self._damaged.discard(step)
        self._beat.phase("sealed", step=step)
        self._delete_old(just_saved=step)
        return seal

    def _sealed_already(self, step: int) -> Seal | None:
        """The seal of a step that is whole here. To write it again would risk a good checkpoint for an equal one."""
        place = self._root / step_folder(step)
        if step in self._damaged or not place.is_dir():
            return None
        try:
            seal = inspect_folder(place, self._run)
            verify_files(place, seal)
            self._check_fence()
        except (NotRestorableError, OSError):
            return None
        except LeaseUnknownError:
            pass  # nothing is written, so nobody's permission is needed
        say(f"the checkpoint of step {step} is sealed and whole already, by attempt {seal.attempt}; it stays as it is")
        return seal

    def _write_anew(self, step: int, files: Mapping[str, Any], loss: float | None) -> Seal:
        try:
            return self._write(step, files, loss)
        except FileNotFoundError as gone:
            # Somebody tidied up below the running job. Once more, from nothing; a second time it is the job's error.
            say(f"the checkpoint of step {step} was deleted while it was written, and is written again: {gone}")
            return self._write(step, files, loss)

    def _write(self, step: int, files: Mapping[str, Any], loss: float | None) -> Seal:
        try:
            staged = self._staging.fresh() / step_folder(step)
            staged.mkdir()
            sealed_files = write_files(staged, files)
            # Before the folder is put in place, so that a fenced writer leaves nothing where the sync sees it.
            self._check_fence()
            seal = Seal(
                run=self._run,
                uid=self._uid,
                attempt=self._lease.attempt,
                incarnation=self._lease.incarnation,
                step=step,
                world_size=self._ranks.world,
                files=sealed_files,
                loss_finite=loss is None or math.isfinite(float(loss)),
                sealed_at=self._clock(),
            )
            if self._staging.put_in_place(staged, seal):
                self._replaced.add(step)
            return seal
        finally:
            self._staging.clear()

    def _check_fence(self) -> None:
        fence = self._open_fence()
        if fence is not None:
            fence.check()

    def _delete_old(self, just_saved: int) -> None:
        good, reasons = self._inspect_all()
        for step in self._damaged & good.keys():
            del good[step]
            reasons[step] = "restore found it damaged"
        for step in self._retention.deletable(good, reasons.keys(), just_saved=just_saved, replaced=self._replaced):
            try:
                unseal_and_remove(self._root / step_folder(step))
            except OSError as error:
                # The new one is sealed: a save must not fail for what could not be tidied up.
                say(f"the old checkpoint of step {step} cannot be deleted: {error}")

    # --- restore ------------------------------------------------------------------------------------------------------

    def restore(self) -> Restored | None:
        """The newest checkpoint that is sealed, finite, of this run and undamaged on every host; None if there is none.

        With torch.distributed initialised all ranks must call it, and all get the same step. Says which newer ones
        were skipped and why.
        """
        if self._ranks.world > 1 and _distributed() is None:
            say("restore() before torch.distributed is initialised: each rank decides alone")
        seals, reasons = self._inspect_all()
        mine = {step: hashlib.sha256(render_seal(seal).encode()).hexdigest() for step, seal in seals.items()}
        everywhere = _gather(mine)
        chosen: int | None = None
        for step in sorted(set().union(*everywhere), reverse=True):
            if len({held.get(step) for held in everywhere}) > 1:
                reasons.setdefault(step, "it is not the same, whole checkpoint on every host")
                continue
            problems = [problem for problem in _gather(self._damage(step, seals[step])) if problem is not None]
            if not problems:
                chosen = step
                break
            reasons[step] = problems[0]
        self._damaged = {step for step in reasons if chosen is None or step > chosen}
        self._say_skipped(reasons, chosen)
        if chosen is None:
            return None
        self._beat.phase("resume", step=chosen)
        if self._ranks.rank == 0:
            self._say_differences(seals[chosen])
        return Restored(chosen, self._root / step_folder(chosen), seals[chosen])

    def _inspect_all(self) -> tuple[dict[int, Seal], dict[int, str]]:
        seals: dict[int, Seal] = {}
        reasons: dict[int, str] = {}
        for step, folder in self._folders().items():
            try:
                seals[step] = inspect_folder(folder, self._run)
            except (NotRestorableError, OSError) as reason:
                reasons[step] = str(reason)
        return seals, reasons

    def _damage(self, step: int, seal: Seal) -> str | None:
        """Checked by one rank a host: the others would read the same bytes of the same disk again."""
        if self._ranks.local_rank != 0:
            return None
        try:
            verify_files(self._root / step_folder(step), seal)
        except NotRestorableError as reason:
            return str(reason)
        return None

    def _say_skipped(self, reasons: Mapping[int, str], chosen: int | None) -> None:
        if self._ranks.local_rank != 0:
            return
        for step in sorted(reasons, reverse=True):
            if chosen is None or step > chosen:
                say(f"restore skips the checkpoint of step {step}: {reasons[step]}")
        if chosen is None and self._ranks.rank == 0:
            say(f"no checkpoint to resume from in {self._root}")

    def _say_differences(self, seal: Seal) -> None:
        # Not refused: a run that was registered again has a new uid, and a full state dict fits any number of ranks.
        if seal.uid != self._uid:
            say(f"the checkpoint of step {seal.step} was written under uid {seal.uid}; this job has uid {self._uid}")
        if seal.world_size != self._ranks.world:
            say(f"the checkpoint of step {seal.step} was written by {seal.world_size} ranks; now {self._ranks.world}")

    def _folders(self) -> dict[int, Path]:
        try:
            found = {step_of_folder(path.name): path for path in self._root.iterdir() if path.is_dir()}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return {step: path for step, path in found.items() if step is not None}


def _fence_opener(
    context: JobContext, lease: Lease, open_objects: Callable[[], S3Objects]
) -> Callable[[], Fence | None]:
    def open_fence() -> Fence | None:
        if not context.lease_uri or lease.incarnation == 0:
            return None
        try:
            return Fence(open_objects(), context.lease_uri, lease)
        except ObjectsUnavailableError as error:
            raise LeaseUnknownError(str(error)) from None

    return open_fence


def _copy_opener(context: JobContext, open_objects: Callable[[], S3Objects]) -> OpenCopy:
    def open_copy() -> SyncedCopy | None:
        if context.checkpoint_store != "sync":
            return None
        if not context.checkpoint_uri:
            raise ObjectsUnavailableError("the job was not told where its checkpoints lie in S3")
        return S3Copy(open_objects(), context.checkpoint_uri)

    return open_copy


def _distributed() -> Any:
    """torch.distributed where the script has initialised it, else None; never imports torch."""
    module = sys.modules.get("torch.distributed")
    if module is None or not module.is_available() or not module.is_initialized():
        return None
    return module


def _gather(value: Any) -> list[Any]:
    """`value` of every rank, by rank; only this one's where nothing is distributed."""
    distributed = _distributed()
    if distributed is None:
        return [value]
    gathered: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(gathered, value)
    return gathered


__all__ = ["Checkpoints", "FencedError", "Restored"]
