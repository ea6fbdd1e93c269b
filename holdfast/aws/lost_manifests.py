"""Manifests whose S3 event never came: compares the bucket with the table and hands the difference to intake."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.aws.errors import FAILED_READ, words_of
from holdfast.aws.store import Store
from holdfast.core.layout import MANIFESTS, ManifestKeyError, parse_manifest_key
from holdfast.core.model import manifest_mark

if TYPE_CHECKING:
    from mypy_boto3_lambda.client import LambdaClient
    from mypy_boto3_s3.client import S3Client

HANDED_A_SWEEP = 50


@dataclass(frozen=True)
class Handed:
    """`whole`: every upload of the window was compared. Only then may the next window begin after this one."""

    keys: tuple[str, ...] = ()
    whole: bool = False
    error: str = ""


class LostManifests:
    """Calls the intake function with the event that was lost, so that a manifest is judged in one place alone."""

    def __init__(
        self,
        *,
        s3: S3Client,
        lambda_: LambdaClient,
        store: Store,
        bucket: str,
        intake_function: str,
        now: Callable[[], float],
    ) -> None:
        self._s3 = s3
        self._lambda = lambda_
        self._store = store
        self._bucket = bucket
        self._intake_function = intake_function
        self._now = now

    def hand_over(self, since: float, to: float, *, until: float) -> Handed:
        """Uploads from `since` to `to` (epoch seconds, S3's LastModified). Never raises botocore's errors."""
        handed: list[str] = []
        try:
            for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=MANIFESTS):
                for one in page.get("Contents", []):
                    if not since <= one["LastModified"].timestamp() <= to or self._taken(one["Key"], one["ETag"]):
                        continue
                    if len(handed) >= HANDED_A_SWEEP or self._now() >= until:
                        return Handed(tuple(handed))
                    self._hand(one["Key"], one["ETag"], one["Size"])
                    handed.append(one["Key"])
        except FAILED_READ as error:
            return Handed(tuple(handed), error=f"manifests: {words_of(error)}")
        return Handed(tuple(handed), whole=True)

    def _taken(self, key: str, etag: str) -> bool:
        """Whether these very bytes were judged already. Judged again, a newer config could refuse what runs."""
        try:
            team, name = parse_manifest_key(key)
        except ManifestKeyError:
            return False
        run = self._store.get(team, name)
        return run is not None and run.taken == manifest_mark(key, etag)

    def _hand(self, key: str, etag: str, size: int) -> None:
        event = {
            "version": "0",
            "id": f"holdfast-sweep-{etag.strip(chr(34))}",
            "detail-type": "Object Created",
            "source": "aws.s3",
            "account": "",
            "time": datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": "",
            "resources": [],
            "detail": {
                "version": "0",
                "bucket": {"name": self._bucket},
                "object": {"key": key, "size": size, "etag": etag.strip('"')},
                "reason": "PutObject",
            },
        }
        # Event: intake's own retries and its queue of failed calls apply, and the sweep does not wait.
        self._lambda.invoke(
            FunctionName=self._intake_function, InvocationType="Event", Payload=json.dumps(event).encode()
        )
