"""A host's output on its way to CloudWatch Logs: read line by line, kept for a moment, sent in batches."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, BinaryIO

from botocore.exceptions import BotoCoreError, ClientError

from sandbox.sagemaker.access import LOG_GROUP
from sandbox.sagemaker.line_faults import Delivered
from sandbox.sagemaker.storage import Clients

logger = logging.getLogger("sandbox.sagemaker")

# PutLogEvents: 10,000 events and 1,048,576 bytes a call, 26 bytes of overhead an event (API reference).
_MAX_EVENTS = 10_000
_MAX_BYTES = 1_048_576
_OVERHEAD_BYTES = 26
_MAX_LINE_BYTES = 256 * 1024 - _OVERHEAD_BYTES

Line = tuple[float, str]
"""When it was read (epoch seconds), and the text."""


class LogsError(Exception):
    """The role may not write the job's logs; the text is CloudWatch's."""


def open_streams(clients: Clients, hosts: list[str], epoch: int) -> list[str]:
    """Make `<host>-<epoch>` for each host, and the group if the account has none; the streams' names.

    Epochs count seconds, and a job may start anew within one: the next free one is taken, for no two lives of a job
    share a stream. Raises LogsError.
    """
    logs = clients.client("logs")
    while True:
        names = [f"{host}-{epoch}" for host in hosts]
        try:
            for name in names:
                _create_stream(logs, name)
            return names
        except logs.exceptions.ResourceAlreadyExistsException:
            epoch += 1
        except ClientError as error:
            raise LogsError(error.response["Error"]["Message"]) from error


def _create_stream(logs: Any, name: str) -> None:
    try:
        logs.create_log_stream(logGroupName=LOG_GROUP, logStreamName=name)
    except logs.exceptions.ResourceNotFoundException:
        _create_group(logs)
        logs.create_log_stream(logGroupName=LOG_GROUP, logStreamName=name)


def _create_group(logs: Any) -> None:
    with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):  # another job was first
        logs.create_log_group(logGroupName=LOG_GROUP)


def _whole(text: str) -> Delivered:
    return Delivered(text, text)


class HostLog:
    """One host's stream. `on_line` sees each line as it is read, on the reading thread, for the metrics in it.

    `delivered` says what of a line's text goes where: all of it, unless a fault parts the two.
    """

    def __init__(
        self,
        clients: Clients,
        stream: str,
        on_line: Callable[[Line], None],
        delivered: Callable[[str], Delivered] = _whole,
    ) -> None:
        self.stream = stream
        self._clients = clients
        self._on_line = on_line
        self._delivered = delivered
        self._lock = threading.Lock()
        self._waiting: deque[Line] = deque()
        self._reader: threading.Thread | None = None

    def follow(self, output: BinaryIO) -> None:
        """Read on a thread of its own until the host's last process has closed its output."""
        self._reader = threading.Thread(target=self._read, args=(output,), name=f"{self.stream} reader", daemon=True)
        self._reader.start()

    def read_to_the_end(self, seconds: float) -> None:
        """Wait for the end of the output."""
        if self._reader is not None:
            self._reader.join(seconds)

    @property
    def empty(self) -> bool:
        """Whether all that was read has been sent."""
        with self._lock:
            return not self._waiting

    def add(self, text: str) -> None:
        now, parts = time.time(), self._delivered(text)
        if parts.log is not None:
            with self._lock:
                self._waiting.append((now, parts.log))
        if parts.metrics is not None:
            self._on_line((now, parts.metrics))

    def flush(self, *, read_before: float | None) -> None:
        """Send the lines that were read before that moment, all with None. What cannot be sent is lost, and is said."""
        while True:
            batch = self._batch(read_before)
            if not batch:
                return
            try:
                self._clients.client("logs").put_log_events(
                    logGroupName=LOG_GROUP,
                    logStreamName=self.stream,
                    logEvents=[{"timestamp": int(at * 1000), "message": text} for at, text in batch],
                )
            except (ClientError, BotoCoreError) as error:
                logger.warning("%s: %d lines lost: %s", self.stream, len(batch), error)

    def _read(self, output: BinaryIO) -> None:
        with output:
            while raw := output.readline(_MAX_LINE_BYTES):
                # CloudWatch refuses an event without text.
                self.add(raw.decode("utf-8", "replace").rstrip("\r\n") or " ")

    def _batch(self, read_before: float | None) -> list[Line]:
        batch: list[Line] = []
        size = 0
        with self._lock:
            while self._waiting and len(batch) < _MAX_EVENTS:
                at, text = self._waiting[0]
                size += len(text.encode()) + _OVERHEAD_BYTES
                if (read_before is not None and at >= read_before) or (batch and size > _MAX_BYTES):
                    break
                batch.append(self._waiting.popleft())
        return batch
