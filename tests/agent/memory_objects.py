"""S3's conditional writes in memory, for everything that decides about the lease and the control object."""

from __future__ import annotations

from holdfast_agent.objects import ObjectConflictError, ObjectsUnavailableError, StoredObject


class MemoryObjects:
    """`conflicts` writes fail as if someone else had written first; `down` makes every call fail."""

    def __init__(self) -> None:
        self.stored: dict[str, StoredObject] = {}
        self.conflicts = 0
        self.down = False
        self._writes = 0

    def get(self, uri: str) -> StoredObject | None:
        if self.down:
            raise ObjectsUnavailableError("the network is gone")
        return self.stored.get(uri)

    def put_if(self, uri: str, text: str, etag: str | None) -> None:
        if self.down:
            raise ObjectsUnavailableError("the network is gone")
        found = self.stored.get(uri)
        if self.conflicts > 0 or (found.etag if found else None) != etag:
            self.conflicts -= 1
            raise ObjectConflictError(uri)
        self.put(uri, text)

    def put(self, uri: str, text: str) -> None:
        self._writes += 1
        self.stored[uri] = StoredObject(text, f'"{self._writes}"')
