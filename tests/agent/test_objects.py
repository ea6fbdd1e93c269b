from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast_agent.contract import Lease
from holdfast_agent.lease import take_lease
from holdfast_agent.objects import LARGEST_OBJECT_BYTES, ObjectConflictError, ObjectsUnavailableError, S3Objects
from tests.agent.conftest import S3Server


@pytest.fixture
def objects(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Objects:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return S3Objects(s3.environment)


def test_an_object_that_is_not_there_is_none(objects: S3Objects, s3: S3Server) -> None:
    assert objects.get(s3.uri("nothing")) is None


def test_an_exclusive_create_succeeds_once(objects: S3Objects, s3: S3Server) -> None:
    objects.put_if(s3.uri("once"), "first", None)
    with pytest.raises(ObjectConflictError):
        objects.put_if(s3.uri("once"), "second", None)
    assert s3.text("once") == "first"


def test_a_write_on_a_stale_etag_conflicts_and_on_the_newest_succeeds(objects: S3Objects, s3: S3Server) -> None:
    uri = s3.uri("changing")
    s3.put("changing", "one")
    stale = objects.get(uri)
    s3.put("changing", "two")
    newest = objects.get(uri)
    assert stale is not None
    assert newest is not None
    with pytest.raises(ObjectConflictError):
        objects.put_if(uri, "three", stale.etag)
    objects.put_if(uri, "three", newest.etag)
    assert s3.text("changing") == "three"


def test_leaders_that_start_at_once_get_different_incarnations(objects: S3Objects, s3: S3Server) -> None:
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda _: take_lease(objects, s3.uri("race"), 1), range(4)))
    assert sorted(taken) == [Lease(1, 1), Lease(1, 2), Lease(1, 3), Lease(1, 4)]


def test_a_missing_bucket_and_a_huge_object_are_unavailable_in_words(objects: S3Objects, s3: S3Server) -> None:
    with pytest.raises(ObjectsUnavailableError, match="NoSuchBucket"):
        objects.put_if("s3://no-such-bucket/key", "text", None)
    s3.put("huge", "x" * (LARGEST_OBJECT_BYTES + 1))
    with pytest.raises(ObjectsUnavailableError, match="larger than"):
        objects.get(s3.uri("huge"))


def test_a_listing_has_every_object_below_the_prefix_and_none_beside_it(objects: S3Objects, s3: S3Server) -> None:
    for number in range(3):
        s3.put(f"listing/step-1/part-{number}", "x" * number)
    s3.put("listing/step-10/part-0", "beside")
    assert objects.sizes(s3.uri("listing/step-1/")) == {"part-0": 0, "part-1": 1, "part-2": 2}
    assert objects.sizes(s3.uri("listing/none/")) == {}
    with pytest.raises(ObjectsUnavailableError, match="NoSuchBucket"):
        objects.sizes("s3://no-such-bucket/prefix/")


@pytest.mark.parametrize("uri", ["https://bucket/key", "s3://bucket", "s3:///key", "key"])
def test_what_is_no_s3_address_is_refused(objects: S3Objects, uri: str) -> None:
    with pytest.raises(ObjectsUnavailableError, match="not an address"):
        objects.get(uri)


def test_an_image_without_boto3_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ObjectsUnavailableError, match="has no boto3"):
        S3Objects({})
