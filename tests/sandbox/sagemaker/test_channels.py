from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.sagemaker.channels import local_name
from sandbox.sagemaker.storage import StorageError, inside, location


@pytest.mark.parametrize(
    ("key", "prefix", "expected"),
    [
        ("data/train/a.txt", "data/train/", "a.txt"),
        ("data/train/deep/a.txt", "data/train", "deep/a.txt"),
        ("data/train/a.txt", "data/train/a.txt", "a.txt"),
        ("data/part-0001", "data/part-", "part-0001"),
        ("a.txt", "", "a.txt"),
        ("part-1", "part", "part-1"),
    ],
)
def test_an_object_lands_below_its_channel_by_what_the_prefix_names(key: str, prefix: str, expected: str) -> None:
    assert local_name(key, prefix) == expected


@pytest.mark.parametrize("name", ["../escape", "a/../../escape", "/etc/passwd"])
def test_a_key_cannot_land_outside_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(StorageError, match="lies outside its folder"):
        inside(tmp_path, name)
    assert inside(tmp_path, "a/..b") == tmp_path / "a/..b"


def test_a_location_needs_a_bucket() -> None:
    assert location("s3://bucket") == location("s3://bucket/")
    assert location("s3://bucket/a/b").prefix == "a/b"
    with pytest.raises(ValueError, match="'https://x' is not an s3:// URI"):
        location("https://x")
