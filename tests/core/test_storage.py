"""How long the bucket keeps what: S3's rules are told when the config is read, and not by a failed deployment."""

from __future__ import annotations

import pytest

from holdfast.core.read_config import ConfigError, read_config
from tests.core.test_read_config import SOUND


def storage(lifetimes: str) -> str:
    return SOUND + f"storage:\n  lifetimes:\n    {lifetimes}\n"


@pytest.mark.parametrize(
    ("lifetimes", "words"),
    [
        ("data: {infrequent_after_days: 29}", "storage.lifetimes.data.infrequent_after_days"),
        ("data: {infrequent_after_days: 30, archive_after_days: 59}", "write 60 or more"),
        ("output: {archive_after_days: 90, delete_after_days: 90}", "has to come after the move on day 90"),
        ("checkpoints: {delete_after_days: 365}", "would leave a seal without its files"),
        ("status: {delete_after_days: 9}", "storage.lifetimes.status"),
    ],
)
def test_what_s3_or_a_restart_would_not_bear_is_refused_in_words(lifetimes: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_config(storage(lifetimes))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "lifetimes",
    [
        "data: {infrequent_after_days: 30, archive_after_days: 60, delete_after_days: 61}",
        "output: {archive_after_days: 0, delete_after_days: 1}",
        "checkpoints: {infrequent_after_days: 45}",
    ],
)
def test_what_s3_takes_is_taken(lifetimes: str) -> None:
    assert read_config(storage(lifetimes)).storage.lifetimes
