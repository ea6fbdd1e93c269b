from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator

import pytest

from holdfast.aws.custom_resource import ResponseUrlError
from holdfast.aws.publish import (
    LARGEST_BUNDLE_BYTES,
    MOST_FILES,
    PublicationError,
    answer_cloudformation,
    publish_bundle,
)
from holdfast.bundle import bundle_digest
from tests.aws.conftest import BUCKET, Aws
from tests.response_url import CloudFormation, listening

FILES = {"agent/__main__.py": b"start()", "code/tiny_gpt/source.tar.gz": b"\x1f\x8b", "deployment.json": b"{}"}
PLENTY_MS = 100_000


def _zip(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _uploaded(aws: Aws, content: bytes, digest: str = bundle_digest(FILES)) -> dict[str, str]:
    """The custom resource's properties, its asset uploaded."""
    aws.s3.create_bucket(Bucket="assets")
    aws.s3.put_object(Bucket="assets", Key="bundle.zip", Body=content)
    return {"ServiceToken": "arn", "AssetBucket": "assets", "AssetKey": "bundle.zip", "Digest": digest}


def _published(aws: Aws) -> dict[str, bytes]:
    listed = aws.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return {one["Key"]: aws.s3.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read() for one in listed}


def test_a_bundle_lies_under_its_digest_file_by_file(aws: Aws) -> None:
    properties = _uploaded(aws, _zip(FILES))
    prefix = publish_bundle(aws.s3, bucket=BUCKET, properties=properties, milliseconds_left=lambda: PLENTY_MS)
    assert prefix == f"templates/{bundle_digest(FILES)}/"
    assert _published(aws) == {f"{prefix}{name}": content for name, content in FILES.items()}


def test_publishing_again_changes_nothing(aws: Aws) -> None:
    properties = _uploaded(aws, _zip(FILES))
    for _ in range(2):
        publish_bundle(aws.s3, bucket=BUCKET, properties=properties, milliseconds_left=lambda: PLENTY_MS)
    assert set(_published(aws).values()) == set(FILES.values())


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"../status/research/run.json": b""}, "outside its prefix"),
        ({"/etc/passwd": b""}, "outside its prefix"),
        ({"agent/../../x": b""}, "outside its prefix"),
        ({"agent\\x": b""}, "outside its prefix"),
        ({"agent/.hidden/x": b""}, "outside its prefix"),
        ({f"agent/{number}": b"" for number in range(MOST_FILES + 1)}, "at most 2,000"),
        ({"deployment.json": b"{ }"}, "holds the bundle sha256-"),
    ],
)
def test_a_bundle_that_is_not_what_it_says_is_refused_whole(aws: Aws, files: dict[str, bytes], words: str) -> None:
    properties = _uploaded(aws, _zip(files))
    with pytest.raises(PublicationError, match=words):
        publish_bundle(aws.s3, bucket=BUCKET, properties=properties, milliseconds_left=lambda: PLENTY_MS)
    assert _published(aws) == {}


def test_a_bundle_that_unpacks_to_gigabytes_is_refused_unread(aws: Aws) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(LARGEST_BUNDLE_BYTES + 1))
    properties = _uploaded(aws, buffer.getvalue())
    with pytest.raises(PublicationError, match="unpacks to 67,108,865 bytes"):
        publish_bundle(aws.s3, bucket=BUCKET, properties=properties, milliseconds_left=lambda: PLENTY_MS)


def test_an_asset_that_is_no_zip_is_said_to_be_none(aws: Aws) -> None:
    properties = _uploaded(aws, b"not a zip")
    with pytest.raises(PublicationError, match="not a zip"):
        publish_bundle(aws.s3, bucket=BUCKET, properties=properties, milliseconds_left=lambda: PLENTY_MS)


@pytest.mark.parametrize("name", ["AssetBucket", "AssetKey", "Digest"])
def test_a_property_that_is_missing_is_named(aws: Aws, name: str) -> None:
    properties = _uploaded(aws, _zip(FILES))
    del properties[name]
    with pytest.raises(PublicationError, match=f"property {name} is missing"):
        publish_bundle(aws.s3, bucket=BUCKET, properties=properties, milliseconds_left=lambda: PLENTY_MS)


def test_a_digest_that_is_a_path_is_refused(aws: Aws) -> None:
    properties = _uploaded(aws, _zip(FILES), digest="../manifests")
    with pytest.raises(PublicationError, match="not sha256- and 64 hex digits"):
        publish_bundle(aws.s3, bucket=BUCKET, properties=properties, milliseconds_left=lambda: PLENTY_MS)


def test_a_function_whose_time_runs_out_keeps_enough_of_it_to_answer(aws: Aws) -> None:
    left = iter((PLENTY_MS, 19_999))
    with pytest.raises(PublicationError, match=r"time ran out before .*code/tiny_gpt/source\.tar\.gz"):
        publish_bundle(
            aws.s3, bucket=BUCKET, properties=_uploaded(aws, _zip(FILES)), milliseconds_left=lambda: next(left)
        )
    assert len(_published(aws)) == 1


@pytest.fixture
def cloudformation() -> Iterator[CloudFormation]:
    with listening() as service:
        yield service


def test_a_success_is_answered_with_the_prefix_as_the_resources_name(cloudformation: CloudFormation) -> None:
    answer_cloudformation(cloudformation.event("Create"), lambda: "templates/sha256-1/")
    assert cloudformation.answers == [
        {
            "Status": "SUCCESS",
            "Reason": "published",
            "PhysicalResourceId": "templates/sha256-1/",
            "StackId": "stack",
            "RequestId": "request",
            "LogicalResourceId": "Bundle",
        }
    ]
    # The URL was signed with an empty one; S3 refuses any other.
    assert cloudformation.content_types == [""]


def test_whatever_goes_wrong_is_answered_in_words_and_keeps_the_resources_name(cloudformation: CloudFormation) -> None:
    def fail() -> str:
        raise KeyError("x" * 10_000)

    outcome = answer_cloudformation(cloudformation.event("Update", PhysicalResourceId="templates/old/"), fail)
    (answer,) = cloudformation.answers
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("FAILED", "templates/old/")
    assert answer["Reason"].startswith("KeyError: 'xxx")
    # CloudFormation refuses an answer of more than 4,096 bytes, and then hangs.
    assert len(json.dumps(answer)) < 4_096
    assert outcome.status == "FAILED"


def test_a_deleted_resource_is_answered_and_publishes_and_removes_nothing(cloudformation: CloudFormation) -> None:
    event = cloudformation.event("Delete", PhysicalResourceId="templates/old/")
    answer_cloudformation(event, lambda: pytest.fail("published"))
    (answer,) = cloudformation.answers
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "templates/old/")


def test_an_answer_that_is_refused_is_given_again(cloudformation: CloudFormation) -> None:
    cloudformation.refusals = 2
    answer_cloudformation(cloudformation.event("Create"), lambda: "templates/sha256-1/")
    assert [answer["Status"] for answer in cloudformation.answers] == ["SUCCESS"]


def test_an_answer_that_cannot_be_given_is_an_error_so_that_lambda_calls_again(cloudformation: CloudFormation) -> None:
    cloudformation.refusals = 3
    with pytest.raises(OSError, match="503"):
        answer_cloudformation(cloudformation.event("Create"), lambda: "templates/sha256-1/")
    assert cloudformation.answers == []


def test_a_response_url_that_is_a_file_is_not_written() -> None:
    event = {**CloudFormation(url="file:///tmp/x").event("Create")}
    with pytest.raises(ResponseUrlError, match="not a web address"):
        answer_cloudformation(event, lambda: "templates/sha256-1/")
