"""Publishes a release's bundle: from the zip that `cdk deploy` uploaded to objects under `templates/<digest>/`.

Runs as a CloudFormation custom resource, so whatever happens is answered (`custom_resource.py`).
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.aws.custom_resource import Outcome, answer
from holdfast.bundle import bundle_digest
from holdfast.core.layout import bundle_prefix

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

# A bundle is source code. What is larger is not one, and would not fit into the function's memory.
LARGEST_BUNDLE_BYTES = 64 * 1024 * 1024
MOST_FILES = 2_000
# Kept back for the answer to CloudFormation.
ANSWER_MILLISECONDS = 20_000

_SAFE_NAME = re.compile(r"[A-Za-z0-9_+@-][A-Za-z0-9_.+@-]*(/[A-Za-z0-9_+@-][A-Za-z0-9_.+@-]*)*")
_DIGEST = re.compile(r"sha256-[0-9a-f]{64}")
_LONGEST_REASON = 1_000  # CloudFormation refuses an answer of more than 4,096 bytes


class PublicationError(ValueError):
    """The bundle cannot be published, in words that CloudFormation shows to whoever deploys."""


def publish_bundle(
    s3: S3Client, *, bucket: str, properties: Mapping[str, Any], milliseconds_left: Callable[[], int]
) -> str:
    """The prefix that now holds the whole bundle, in `bucket`. Raises PublicationError or botocore's errors."""
    source, key, digest = (_property(properties, name) for name in ("AssetBucket", "AssetKey", "Digest"))
    if not _DIGEST.fullmatch(digest):
        raise PublicationError(f"Digest {digest!r} is not sha256- and 64 hex digits")
    files = _unpack(_download(s3, source, key))
    if bundle_digest(files) != digest:
        raise PublicationError(f"s3://{source}/{key} holds the bundle {bundle_digest(files)}, not {digest}")
    prefix = bundle_prefix(digest)
    for name, content in sorted(files.items()):
        if milliseconds_left() < ANSWER_MILLISECONDS:
            raise PublicationError(f"the function's time ran out before {prefix}{name}; deploy again")
        s3.put_object(Bucket=bucket, Key=f"{prefix}{name}", Body=content)
    return prefix


def answer_cloudformation(event: Mapping[str, Any], publish: Callable[[], str]) -> Outcome:
    """Carries out `publish` unless the resource is deleted, and PUTs the outcome to the event's ResponseURL.

    Runs pin bundles, so a deleted resource removes nothing. Raises OSError where CloudFormation cannot be reached:
    Lambda then calls the function again.
    """
    outcome = _outcome(event, publish)
    answer(event, outcome)
    return outcome


def _outcome(event: Mapping[str, Any], publish: Callable[[], str]) -> Outcome:
    known = str(event.get("PhysicalResourceId") or "unpublished")
    if event["RequestType"] == "Delete":
        return Outcome("SUCCESS", "bundles stay: runs pin them", known)
    try:
        return Outcome("SUCCESS", "published", publish())
    except Exception as error:  # noqa: BLE001 - whatever it is, a deployment that is told nothing hangs
        return Outcome("FAILED", f"{type(error).__name__}: {error}"[:_LONGEST_REASON], known)


def _property(properties: Mapping[str, Any], name: str) -> str:
    value = properties.get(name)
    if not isinstance(value, str) or not value:
        raise PublicationError(f"the custom resource's property {name} is missing")
    return value


def _download(s3: S3Client, bucket: str, key: str) -> bytes:
    body = s3.get_object(Bucket=bucket, Key=key)["Body"].read(LARGEST_BUNDLE_BYTES + 1)
    if len(body) > LARGEST_BUNDLE_BYTES:
        raise PublicationError(f"s3://{bucket}/{key} is larger than {LARGEST_BUNDLE_BYTES:,} bytes")
    return body


def _unpack(content: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            _check(entries)
            # zipfile reads no more than the size that an entry states, and that was bounded above.
            return {entry.filename: archive.read(entry) for entry in entries}
    except zipfile.BadZipFile as error:
        raise PublicationError(f"the asset is not a zip: {error}") from None


def _check(entries: list[zipfile.ZipInfo]) -> None:
    if len(entries) > MOST_FILES:
        raise PublicationError(f"the bundle has {len(entries):,} files; at most {MOST_FILES:,}")
    size = sum(entry.file_size for entry in entries)
    if size > LARGEST_BUNDLE_BYTES:
        raise PublicationError(f"the bundle unpacks to {size:,} bytes; at most {LARGEST_BUNDLE_BYTES:,}")
    names = [entry.filename for entry in entries]
    for name in names:
        if not _SAFE_NAME.fullmatch(name):
            raise PublicationError(f"the bundle has a file named {name!r}, which could end up outside its prefix")
    if len(set(names)) != len(names):
        raise PublicationError("the bundle has two files of one name")
