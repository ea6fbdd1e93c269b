"""S3 as a job's host uses it: with the role's credentials, listing whole prefixes, file by file."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

# Without threads of its own: the plane's threads share two cores with the training itself.
_TRANSFER = TransferConfig(use_threads=False)


class Clients(Protocol):
    def client(self, service: str) -> Any: ...


class StorageError(Exception):
    """A call to S3 was refused or failed. The text is as SageMaker quotes S3: `AccessDenied (403): Access Denied`."""

    def __init__(self, code: str, status: int, message: str) -> None:
        super().__init__(f"{code} ({status}): {message}")
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Location:
    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


def location(uri: str) -> Location:
    """Raises ValueError for anything but s3://bucket or s3://bucket/prefix."""
    found = re.fullmatch(r"s3://([^/]+)/?(.*)", uri, re.DOTALL)
    if found is None:
        raise ValueError(f"{uri!r} is not an s3:// URI")
    return Location(*found.groups())


def keys(clients: Clients, at: Location) -> Iterator[str]:
    """All keys under a prefix, in S3's order. Raises StorageError."""
    yield from (entry["Key"] for page in _pages(clients, at) for entry in page.get("Contents", []))


def has_objects(clients: Clients, at: Location) -> bool:
    """Whether at least one key starts with the prefix. Raises StorageError."""
    with _SpokenErrors():
        answer = clients.client("s3").list_objects_v2(Bucket=at.bucket, Prefix=at.prefix, MaxKeys=1)
    return bool(answer.get("Contents"))


def inside(folder: Path, name: str) -> Path:
    """`folder/name`. Raises StorageError for a key that would land outside the folder."""
    if name.startswith("/") or ".." in name.split("/"):
        raise StorageError("ClientError", 400, f"the key's local name {name!r} lies outside its folder")
    return folder / name


def download(clients: Clients, bucket: str, key: str, to: Path) -> None:
    """Raises StorageError."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with _SpokenErrors(), to.open("wb") as file:
        clients.client("s3").download_fileobj(bucket, key, file, Config=_TRANSFER)


def upload(clients: Clients, source: Path, bucket: str, key: str, kms_key_id: str | None = None) -> None:
    """Upload what the file holds at the moments of reading; it may be written meanwhile.

    Raises StorageError, or OSError if the file vanishes.
    """
    extra = {} if kms_key_id is None else {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key_id}
    with source.open("rb") as file, _SpokenErrors():
        clients.client("s3").upload_fileobj(_Stream(file), bucket, key, ExtraArgs=extra, Config=_TRANSFER)


def delete(clients: Clients, bucket: str, key: str) -> None:
    """Raises StorageError."""
    with _SpokenErrors():
        clients.client("s3").delete_object(Bucket=bucket, Key=key)


class _Stream:
    """A file that cannot be sought. The transfer then takes each part into memory before it announces its length, so a
    file that shrinks or grows meanwhile cannot leave a request half sent."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def read(self, size: int = -1) -> bytes:
        with self._lock:
            return self._file.read(size)


def _pages(clients: Clients, at: Location) -> Iterator[dict[str, Any]]:
    pages = iter(clients.client("s3").get_paginator("list_objects_v2").paginate(Bucket=at.bucket, Prefix=at.prefix))
    while True:
        with _SpokenErrors():
            page = next(pages, None)
        if page is None:
            return
        yield page


# A HEAD has no body, so its errors come with the HTTP status for a code.
_HEAD_ERRORS = {"403": ("AccessDenied", "Access Denied"), "404": ("NoSuchKey", "The specified key does not exist.")}


class _SpokenErrors:
    """Turns botocore's exceptions into StorageError."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ClientError):
            said = error.response["Error"]
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            code, message = _HEAD_ERRORS.get(said["Code"], (said["Code"], said["Message"]))
            raise StorageError(code, status, message) from error
        if isinstance(error, BotoCoreError):
            raise StorageError(type(error).__name__, 0, str(error)) from error
