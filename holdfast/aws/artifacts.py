"""Published releases and teams' own code in the bucket."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from holdfast.aws.errors import FAILED_READ, MISSING, code_of, is_denied, words_of
from holdfast.core.deployment import Deployment
from holdfast.core.layout import bundle_prefix, source_prefix

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

SOURCE_LIMIT_BYTES = 512 * 1024 * 1024
_CHUNK_BYTES = 4 * 1024 * 1024


class SourceError(ValueError):
    """A team's tarball cannot be taken, in words for its author."""


class Artifacts:
    """Bundles are content-addressed, so a deployment document that was read once is kept for the function's life."""

    def __init__(self, *, s3: S3Client, bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._deployments: dict[str, Deployment] = {}

    def deployment(self, bundle: str) -> Deployment:
        """Raises botocore's errors; a bundle that is named by a run or by the parameter has been published."""
        if bundle not in self._deployments:
            body = self._s3.get_object(Bucket=self._bucket, Key=f"{bundle_prefix(bundle)}deployment.json")[
                "Body"
            ].read()
            self._deployments[bundle] = Deployment.model_validate_json(body)
        return self._deployments[bundle]

    def take_source(self, uri: str, team: str) -> str:
        """Copy the tarball to where a running lineage keeps it; its hex SHA-256.

        Overwriting the original later changes nothing for runs that are registered. Raises SourceError, in words, and
        botocore's error where Holdfast itself may not read or copy it.
        """
        key = uri.removeprefix(f"s3://{self._bucket}/")
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=key)
            if answer["ContentLength"] > SOURCE_LIMIT_BYTES:
                size = answer["ContentLength"]
                raise SourceError(f"has {size} bytes; at most {SOURCE_LIMIT_BYTES} are taken: put data into a channel")
            digest = hashlib.sha256()
            for chunk in answer["Body"].iter_chunks(_CHUNK_BYTES):
                digest.update(chunk)
            kept = f"{source_prefix(team, f'sha256-{digest.hexdigest()}')}source.tar.gz"
            # Only these very bytes: a file that was overwritten since it was hashed is refused by S3.
            self._s3.copy_object(
                Bucket=self._bucket,
                Key=kept,
                CopySource={"Bucket": self._bucket, "Key": key},
                CopySourceIfMatch=answer["ETag"],
                # Its author's tags stay behind: copying them would take permissions that nothing else here needs.
                TaggingDirective="REPLACE",
            )
        except FAILED_READ as error:
            if code_of(error) in MISSING:
                raise SourceError("does not exist") from None
            if code_of(error) in ("PreconditionFailed", "412"):
                raise SourceError("was overwritten while it was read; drop the manifest again") from None
            if is_denied(error):
                raise  # Holdfast's own trouble: the manifest is not refused for it
            raise SourceError(f"cannot be read: {words_of(error)}") from None
        return digest.hexdigest()
