"""Which checkpoints may be deleted.

SageMaker's sync copies deletions too, and uploads files in no order that is documented. So a checkpoint that is deleted
here is soon deleted in S3, perhaps before the newer one that was to replace it is whole there; a host that dies in
between takes the only whole copy with it. Hence: nothing is deleted before a newer sealed one is whole in S3.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Callable, Optional, Protocol

from holdfast_agent.contract import SEAL_NAME, Seal, render_seal, step_folder
from holdfast_agent.lines import say
from holdfast_agent.objects import ObjectsUnavailableError

LEAST_KEPT = 2
"""However few a job asks to keep: the newest may be damaged, or on its way to S3 still."""


class SyncedCopy(Protocol):
    """What SageMaker's sync has made of the checkpoints in S3."""

    def holds(self, seal: Seal) -> bool:
        """Whether every file of the sealed checkpoint is there with its size, and its seal. Raises
        ObjectsUnavailableError."""


class Sizes(Protocol):
    def sizes(self, uri: str) -> Mapping[str, int]:
        """Bytes of each object below the prefix, by what its key has after it. Raises ObjectsUnavailableError."""


class S3Copy:
    """SyncedCopy at `uri`, the S3Uri of the job's CheckpointConfig."""

    def __init__(self, objects: Sizes, uri: str) -> None:
        self._objects = objects
        self._uri = uri.rstrip("/")

    def holds(self, seal: Seal) -> bool:
        found = self._objects.sizes(f"{self._uri}/{step_folder(seal.step)}/")
        wanted = {entry.path: entry.bytes for entry in seal.files}
        wanted[SEAL_NAME] = len(render_seal(seal).encode())
        return all(found.get(name) == size for name, size in wanted.items())


# None: nothing copies deletions, the folder is the store itself. Raises ObjectsUnavailableError.
OpenCopy = Callable[[], Optional[SyncedCopy]]


class Retention:
    """`keep` sealed checkpoints stay, at least two; one more where S3 cannot be asked."""

    def __init__(self, keep: int, open_copy: OpenCopy = lambda: None) -> None:
        self._keep = max(LEAST_KEPT, keep)
        self._open_copy = open_copy
        self._said: set[str] = set()

    def deletable(
        self,
        good: Mapping[int, Seal],
        other: AbstractSet[int],
        *,
        just_saved: int,
        replaced: AbstractSet[int] = frozenset(),
    ) -> list[int]:
        """Steps that may go. `good` are those that could be restored, `other` the unsealed, damaged and non-finite.

        `replaced` are steps that were written over an earlier folder: S3 may still hold that one's files, of the very
        same sizes, so they are no proof of anything.
        """
        surplus = _surplus(good, other, just_saved, self._keep)
        if not surplus:
            return []
        try:
            copy = self._open_copy()
            if copy is None:
                return surplus
            whole = next((step for step in sorted(good, reverse=True) if self._is_whole(copy, good, step, replaced)), 0)
        except ObjectsUnavailableError as error:
            self._say_once(
                f"whether a checkpoint has reached S3 cannot be seen, so one more than {self._keep} stays: {error}"
            )
            return _surplus(good, other, just_saved, self._keep + 1)
        waiting = [step for step in surplus if step >= whole]
        if waiting:
            self._say_once("older checkpoints stay until a newer one is whole in S3")
        return [step for step in surplus if step < whole]

    @staticmethod
    def _is_whole(copy: SyncedCopy, good: Mapping[int, Seal], step: int, replaced: AbstractSet[int]) -> bool:
        return step not in replaced and copy.holds(good[step])

    def _say_once(self, words: str) -> None:
        kind = words[:40]
        if kind not in self._said:
            self._said.add(kind)
            say(words)


def _surplus(good: Mapping[int, Any], other: AbstractSet[int], just_saved: int, keep: int) -> list[int]:
    # The one just sealed stays even if steps of an abandoned, longer attempt count higher.
    kept = set(sorted(good)[-keep:]) | ({just_saved} & set(good))
    if not kept:
        return []
    # Bad ones go once a good one is newer; newer ones may still be of use to a person.
    return sorted([step for step in good if step not in kept] + [step for step in other if step < max(kept)])
