"""A manifest was dropped: read it, register the run or refuse it in words. Never raises for what is in the file."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from holdfast.aws.artifacts import Artifacts, SourceError
from holdfast.aws.errors import FAILED_READ, MISSING, call_and_words, code_of, is_denied
from holdfast.aws.publisher import Publisher
from holdfast.aws.store import ConflictError, Store
from holdfast.core.denied import denial_words
from holdfast.core.deployment import Deployment
from holdfast.core.field_errors import FieldError
from holdfast.core.layout import MANIFESTS, ManifestKeyError, parse_manifest_key
from holdfast.core.manifest import Manifest
from holdfast.core.manifest_checks import advise
from holdfast.core.model import Notice, Run, manifest_mark, spec_hash
from holdfast.core.plain_document import MAX_BYTES
from holdfast.core.read_manifest import ManifestErrors, read_manifest
from holdfast.core.record_size import bounded
from holdfast.core.registration import (
    Registration,
    name_clash,
    refusal_notice,
    refuse,
    register,
    same_again,
    untaken_notice,
)
from holdfast.core.request import pin
from holdfast.core.status import refused_status, untaken_status

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

# One byte more than a manifest may have: enough for the reader to say that it is too long.
READ_BYTES = MAX_BYTES + 1
TRIES = 5
TRIED_AGAIN = (
    "It is tried again for some minutes, by Lambda and by the next comparison of manifests/ with the table. Once the "
    "permission is back after that, drop the manifest again."
)
EMPTY_ETAG = '"d41d8cd98f00b204e9800998ecf8427e"'  # the MD5 of nothing


@dataclass(frozen=True)
class Taken:
    """One line on what became of a manifest."""

    run: str
    accepted: bool
    words: str


class IntakeDeniedError(Exception):
    """AWS denied intake a call; which one, and what to do. The manifest is neither registered nor refused."""


class Intake:
    """`mint_uid` gives a new uid, `now` epoch seconds, `bundle` the digest of the published release."""

    def __init__(
        self,
        *,
        s3: S3Client,
        bucket: str,
        store: Store,
        artifacts: Artifacts,
        publisher: Publisher,
        bundle: Callable[[], str],
        mint_uid: Callable[[], str],
        now: Callable[[], float],
    ) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._store = store
        self._artifacts = artifacts
        self._publisher = publisher
        self._bundle = bundle
        self._mint_uid = mint_uid
        self._now = now

    def take(self, key: str) -> Taken:
        """The object as it is now, whatever the event said of it. Raises botocore's errors and ConflictError.

        For a denied call, people are told as far as the other permissions reach, and IntakeDeniedError is raised:
        Lambda calls again, and keeps the event if that is in vain.
        """
        try:
            return self._take(key)
        except ClientError as error:
            if not is_denied(error):
                raise
            words = denial_words([call_and_words(error)], TRIED_AGAIN)
            self._tell_denied(key, words)
            raise IntakeDeniedError(f"{key} was not taken. {words}") from None

    def _tell_denied(self, key: str, words: str) -> None:
        """Each way of telling by itself: what is denied is one of them, more often than not."""
        with suppress(ManifestKeyError, *FAILED_READ):
            team, name = parse_manifest_key(key)
            if self._store.get(team, name) is None:
                self._publisher.put_status(team, name, untaken_status(team, name, words, self._now()))
        with suppress(ManifestKeyError, *FAILED_READ):
            team, name = parse_manifest_key(key)
            self._publisher.notify(untaken_notice(team, name, words))

    def _take(self, key: str) -> Taken:
        try:
            team, name = parse_manifest_key(key)
        except ManifestKeyError as error:
            return self._refuse_name(key, str(error))
        for _ in range(TRIES):
            # The run before the text, and both anew at each try: whoever saves a newer text in between makes this save
            # conflict. The other way round an older manifest could be written over a newer one.
            existing = self._store.get(team, name)
            found = self._read(key)
            if found is None:
                return Taken(f"{team}/{name}", False, "the manifest is gone; deleting one changes nothing")
            text, etag = found
            mark = manifest_mark(key, etag)
            if existing is not None and existing.taken == mark and not existing.refused:
                # A doubled event, or a sweep beside it. The bytes were judged when they came: a config that changed
                # since must not refuse what runs.
                return Taken(existing.id, True, same_again(existing).words)
            registration = _marked(self._register(existing, key, team, name, text), mark)
            try:
                return self._settle(registration, team, name)
            except ConflictError:
                continue
        raise ConflictError(f"{team}/{name}: written by others {TRIES} times in a row")

    def _register(self, existing: Run | None, key: str, team: str, name: str, text: bytes) -> Registration:
        bundle = self._bundle()
        deployment = self._artifacts.deployment(bundle)
        clash = name_clash(key, self._siblings(key))
        manifest = read_manifest(text, team=team, run=name, deployment=deployment)
        errors = (
            *(() if clash is None else (clash,)),
            *(manifest.errors if isinstance(manifest, ManifestErrors) else ()),
        )
        if errors or isinstance(manifest, ManifestErrors):
            return refuse(existing, team, name, errors)
        try:
            source = None if manifest.source is None else self._artifacts.take_source(manifest.source.archive, team)
        except SourceError as error:
            return refuse(
                existing, team, name, (FieldError("source.archive", str(error), "a gzipped tarball that is there"),)
            )
        return self._accept(existing, team, name, manifest, deployment, bundle, source)

    def _accept(
        self,
        existing: Run | None,
        team: str,
        name: str,
        manifest: Manifest,
        deployment: Deployment,
        bundle: str,
        source_sha256: str | None,
    ) -> Registration:
        registration = register(
            existing,
            manifest,
            team=team,
            name=name,
            pins=pin(manifest, deployment, bundle=bundle, team=team, source_sha256=source_sha256),
            spec_hash=spec_hash(manifest),
            uid=self._mint_uid(),
            now=self._now(),
        )
        notes = advise(manifest, deployment)
        if not notes or not registration.changed or registration.run is None:
            return registration
        noted = replace(registration.run, note=" ".join((registration.run.note, *notes)).strip())
        return replace(registration, run=noted)

    def _settle(self, registration: Registration, team: str, name: str) -> Taken:
        if registration.run is None:
            self._publisher.put_status(
                team, name, refused_status(team, name, tuple(str(one) for one in registration.errors), self._now())
            )
            self._publisher.notify(refusal_notice(team, name, registration.errors))
        elif registration.changed:
            # The status object is due on the record, so a crash after this line leaves it to the next tick.
            saved = self._store.save(bounded(registration.run))
            try:
                self._publisher.status(saved, self._now())
            except ClientError as error:
                if not is_denied(error):
                    raise
                # The run is registered, so the manifest was taken; the reconciler owes the status from here on.
                words = f"{registration.words} {denial_words([call_and_words(error)])}"
                return Taken(f"{team}/{name}", registration.accepted, words)
        return Taken(f"{team}/{name}", registration.accepted, registration.words)

    def _refuse_name(self, key: str, words: str) -> Taken:
        """A file whose place names no run: its author finds the status at the same place below status/."""
        place = key.removeprefix(MANIFESTS)
        team = place.partition("/")[0]
        if re.fullmatch(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}", place) and ".." not in place:
            # With its ending: research/llm.txt must not write over the status of the run research/llm.
            name = place.partition("/")[2]
            self._publisher.put_status(team, name, refused_status(team, name, (words,), self._now()))
        shown = re.sub(r"[^A-Za-z0-9_./-]", "?", place)[:200]
        self._publisher.notify(
            Notice(
                id=f"refused-name/{shown}",
                team=shown.partition("/")[0],
                kind="refused",
                subject="Holdfast: manifest refused",
                body=words,
            )
        )
        return Taken(shown, False, words)

    def _read(self, key: str) -> tuple[bytes, str] | None:
        """The manifest and its ETag; None where there is none."""
        try:
            # A range, since a stranger may drop ten gigabytes. An empty object has no range to give.
            answer = self._s3.get_object(Bucket=self._bucket, Key=key, Range=f"bytes=0-{READ_BYTES - 1}")
            return answer["Body"].read(), answer["ETag"]
        except FAILED_READ as error:
            if code_of(error) in ("InvalidRange", "416"):
                return b"", EMPTY_ETAG
            if code_of(error) in MISSING:
                return None
            raise

    def _siblings(self, key: str) -> tuple[str, ...]:
        stem = key.rpartition(".")[0]
        page = self._s3.list_objects_v2(Bucket=self._bucket, Prefix=f"{stem}.", MaxKeys=100)
        return tuple(one["Key"] for one in page.get("Contents", []))


def _marked(registration: Registration, mark: str) -> Registration:
    """Remember which object was judged, also where it was refused or says the same in other bytes."""
    run = registration.run
    if run is None or run.taken == mark:
        return registration
    return replace(registration, run=replace(run, taken=mark), changed=True)
