"""Small objects in S3 with conditional writes: the lease and the end-yourself request live there.

An interface, so that what is decided about them can be tested in memory. boto3 is imported only when a store is
opened: an image without it, or a network without S3, trains all the same and is told what it goes without.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

# A lease and a control request are a few hundred bytes; more than this is not one of ours.
LARGEST_OBJECT_BYTES = 64 * 1024


class ObjectConflictError(Exception):
    """The object is not what the condition said: someone else wrote in between (S3 answers 412 or 409)."""


class ObjectsUnavailableError(Exception):
    """The store cannot be asked now, in words: no boto3, no credentials, no network, no permission."""


@dataclass(frozen=True)
class StoredObject:
    text: str
    etag: str


class ObjectStore(Protocol):
    def get(self, uri: str) -> StoredObject | None:
        """The object, or None where there is none. Raises ObjectsUnavailableError."""

    def put_if(self, uri: str, text: str, etag: str | None) -> None:
        """Writes if the object still has this ETag, or, for None, if there is none. Raises ObjectConflictError or
        ObjectsUnavailableError."""


def split_s3_uri(uri: str) -> tuple[str, str]:
    """(bucket, key). Raises ObjectsUnavailableError, in words, for anything else."""
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket or not key:
        raise ObjectsUnavailableError(f"{uri!r} is not an address such as s3://bucket/key")
    return bucket, key


class S3Objects:
    """ObjectStore over boto3. Raises ObjectsUnavailableError where boto3 is missing or finds no region."""

    def __init__(self, env: Mapping[str, str]) -> None:
        # SageMaker sets AWS_REGION in the container; boto3 itself reads AWS_DEFAULT_REGION only.
        region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or None
        try:
            boto3 = importlib.import_module("boto3")
            config = importlib.import_module("botocore.config")
            self._errors = importlib.import_module("botocore.exceptions")
        except ImportError as error:
            raise ObjectsUnavailableError(f"the image has no boto3 ({error})") from None
        try:
            self._client: Any = boto3.session.Session(region_name=region).client(
                "s3",
                config=config.Config(
                    connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 3}
                ),
            )
        except (self._errors.BotoCoreError, ValueError) as error:
            raise ObjectsUnavailableError(f"boto3 cannot make an S3 client ({error})") from None
        self._condition = threading.local()
        self._client.meta.events.register("before-call.s3.PutObject", self._add_condition)

    def get(self, uri: str) -> StoredObject | None:
        bucket, key = split_s3_uri(uri)
        try:
            answer = self._client.get_object(Bucket=bucket, Key=key)
            data = answer["Body"].read(LARGEST_OBJECT_BYTES + 1)
        except self._errors.ClientError as error:
            # Without s3:ListBucket a missing key is a 403 (S3's documented answer), which cannot be told from a
            # denied one: only NoSuchKey means "there is none".
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return None
            raise ObjectsUnavailableError(f"GET {uri}: {error}") from None
        except (self._errors.BotoCoreError, OSError) as error:
            raise ObjectsUnavailableError(f"GET {uri}: {error}") from None
        if len(data) > LARGEST_OBJECT_BYTES:
            raise ObjectsUnavailableError(
                f"GET {uri}: larger than {LARGEST_OBJECT_BYTES} bytes, so it is not Holdfast's"
            )
        return StoredObject(data.decode("utf-8", "replace"), answer["ETag"])

    def sizes(self, uri: str) -> dict[str, int]:
        """Bytes of each object below the prefix, by what its key has after it. Raises ObjectsUnavailableError."""
        bucket, prefix = split_s3_uri(uri)
        try:
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            return {entry["Key"][len(prefix) :]: entry["Size"] for page in pages for entry in page.get("Contents", ())}
        except (self._errors.ClientError, self._errors.BotoCoreError, OSError) as error:
            raise ObjectsUnavailableError(f"LIST {uri}: {error}") from None

    def put_if(self, uri: str, text: str, etag: str | None) -> None:
        bucket, key = split_s3_uri(uri)
        self._condition.header = ("If-None-Match", "*") if etag is None else ("If-Match", etag)
        try:
            self._client.put_object(Bucket=bucket, Key=key, Body=text.encode(), ContentType="application/json")
        except self._errors.ClientError as error:
            status = error.response["ResponseMetadata"].get("HTTPStatusCode")
            # 412: the condition does not hold. 409: a concurrent write to the key. 404: If-Match and no such object.
            if status in (404, 409, 412) and error.response["Error"]["Code"] != "NoSuchBucket":
                raise ObjectConflictError(f"PUT {uri}: {error}") from None
            raise ObjectsUnavailableError(f"PUT {uri}: {error}") from None
        except (self._errors.BotoCoreError, OSError) as error:
            raise ObjectsUnavailableError(f"PUT {uri}: {error}") from None
        finally:
            self._condition.header = None

    def _add_condition(self, params: Mapping[str, Any], **_: Any) -> None:
        # As a header and not as IfMatch=: botocore knows that parameter since 1.35.69 only (November 2024), and many
        # training images carry an older one, whose refusal would silently cost them the fence. Added before signing.
        header = getattr(self._condition, "header", None)
        if header is not None:
            params["headers"][header[0]] = header[1]
