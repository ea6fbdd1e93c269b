"""The end-yourself request: the watcher puts an object, the launcher polls it and ends the job non-zero.

A job that *fails* gets SageMaker's own unbilled node repair; one that is stopped through StopTrainingJob does not. So
the watcher asks here first.
"""

from __future__ import annotations

import threading
from typing import Callable

from holdfast_agent.contract import ContractError, EndRequest, parse_end_request
from holdfast_agent.objects import ObjectStore, ObjectsUnavailableError


def end_request_for(objects: ObjectStore, uri: str, job: str, attempt: int) -> EndRequest | None:
    """The request at `uri` if it is for this very job and attempt. Raises ObjectsUnavailableError, ContractError."""
    stored = objects.get(uri)
    if stored is None:
        return None
    request = parse_end_request(stored.text)
    return request if (request.job, request.attempt) == (job, attempt) else None


class ControlPoll(threading.Thread):
    """Polls until a request for this job comes, then calls `on_request` once. Never fails the job: what goes wrong
    is said once for each kind of error."""

    def __init__(
        self,
        *,
        open_objects: Callable[[], ObjectStore],
        uri: str,
        job: str,
        attempt: int,
        every_seconds: float,
        on_request: Callable[[EndRequest], None],
        say: Callable[[str], None],
    ) -> None:
        super().__init__(name="holdfast-control", daemon=True)
        self._open_objects = open_objects
        self._uri = uri
        self._job = job
        self._attempt = attempt
        self._every_seconds = every_seconds
        self._on_request = on_request
        self._say = say
        self._said: set[str] = set()
        self._ended = threading.Event()

    def stop(self) -> None:
        self._ended.set()

    def run(self) -> None:
        try:
            objects = self._open_objects()
        except ObjectsUnavailableError as error:
            self._say(f"end-yourself requests are not read: {error}")
            return
        while not self._ended.is_set():
            request = self._read(objects)
            if request is not None:
                self._on_request(request)
                return
            self._ended.wait(self._every_seconds)

    def _read(self, objects: ObjectStore) -> EndRequest | None:
        try:
            return end_request_for(objects, self._uri, self._job, self._attempt)
        except (ObjectsUnavailableError, ContractError) as error:
            kind = type(error).__name__
            if kind not in self._said:
                self._said.add(kind)
                self._say(f"the end-yourself request cannot be read, and is tried again: {error}")
            return None
