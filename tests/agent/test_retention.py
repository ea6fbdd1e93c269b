from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_agent.contract import Seal, SealedFile, render_seal, step_folder
from holdfast_agent.objects import ObjectsUnavailableError, S3Objects
from holdfast_agent.retention import Retention, S3Copy, SyncedCopy
from tests.agent.conftest import S3Server


def seal(step: int, *files: SealedFile) -> Seal:
    return Seal("t/r", "u", 1, 1, step, 1, files or (SealedFile("state.bin", 4, "0" * 64),), True, 1.0)


def seals(*steps: int) -> dict[int, Seal]:
    return {step: seal(step) for step in steps}


class Whole:
    """A copy in S3 that has these steps."""

    def __init__(self, *steps: int) -> None:
        self.steps = steps
        self.asked: list[int] = []

    def holds(self, seal: Seal) -> bool:
        self.asked.append(seal.step)
        return seal.step in self.steps


def unreadable() -> SyncedCopy | None:
    raise ObjectsUnavailableError("the image has no boto3")


def test_where_nothing_copies_deletions_the_newest_stay_and_older_ones_go() -> None:
    assert Retention(2).deletable(seals(10, 20, 30, 40), set(), just_saved=40) == [10, 20]


@pytest.mark.parametrize("keep", [-1, 0, 1, 2])
def test_two_stay_whatever_the_job_asks(keep: int) -> None:
    assert Retention(keep).deletable(seals(10, 20, 30), set(), just_saved=30) == [10]
    assert Retention(keep).deletable(seals(10, 20), set(), just_saved=20) == []


@pytest.mark.parametrize(
    ("in_s3", "gone"), [((), []), ((10,), []), ((10, 20), [10]), ((30,), [10, 20]), ((10, 20, 30, 40), [10, 20])]
)
def test_only_what_is_older_than_one_that_is_whole_in_s3_may_go(in_s3: tuple[int, ...], gone: list[int]) -> None:
    retention = Retention(2, lambda: Whole(*in_s3))
    assert retention.deletable(seals(10, 20, 30, 40), set(), just_saved=40) == gone


def test_s3_is_not_asked_while_there_is_nothing_to_delete() -> None:
    copy = Whole()
    assert Retention(2, lambda: copy).deletable(seals(10, 20), set(), just_saved=20) == []
    assert copy.asked == []


def test_where_s3_cannot_be_read_one_more_stays_and_that_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    retention = Retention(2, unreadable)
    assert retention.deletable(seals(10, 20, 30), set(), just_saved=30) == []
    assert retention.deletable(seals(10, 20, 30, 40), set(), just_saved=40) == [10]
    said = capfd.readouterr().err
    assert said.count("one more than 2 stays: the image has no boto3") == 1


def test_bad_ones_go_once_a_good_one_is_newer_and_newer_ones_stay() -> None:
    assert Retention(2).deletable(seals(10, 30), {20, 40}, just_saved=30) == [20]


def test_bad_ones_wait_for_s3_too_because_only_this_hosts_copy_may_be_bad() -> None:
    assert Retention(2, Whole).deletable(seals(10, 30), {20}, just_saved=30) == []
    assert Retention(2, lambda: Whole(30)).deletable(seals(10, 30), {20}, just_saved=30) == [20]


def test_the_one_just_saved_stays_under_higher_steps_of_an_abandoned_attempt() -> None:
    assert Retention(2).deletable(seals(10, 20, 50, 60), set(), just_saved=20) == [10]


def test_a_step_that_was_written_over_another_is_no_proof() -> None:
    retention = Retention(2, lambda: Whole(20, 40))
    good = seals(10, 20, 30, 40)
    assert retention.deletable(good, set(), just_saved=40, replaced={40}) == [10]
    assert retention.deletable(good, set(), just_saved=40) == [10, 20]


@given(
    st.sets(st.integers(1, 40), min_size=1), st.sets(st.integers(1, 40)), st.sets(st.integers(1, 40)), st.integers(0, 4)
)
def test_of_the_whole_ones_in_s3_the_newest_always_stays(
    good: set[int], other: set[int], in_s3: set[int], keep: int
) -> None:
    whole = in_s3 & good
    gone = Retention(keep, lambda: Whole(*whole)).deletable(seals(*good), other - good, just_saved=max(good))
    assert not whole or max(whole) not in gone
    assert len(good - set(gone)) >= min(2, len(good))
    if not whole:
        assert gone == []


# --- the copy in S3 ---------------------------------------------------------------------------------------------------


class Listed:
    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = dict(sizes)
        self.asked = ""

    def sizes(self, uri: str) -> Mapping[str, int]:
        self.asked = uri
        return self._sizes


TWO = seal(20, SealedFile("a.bin", 3, "0" * 64), SealedFile("ranks/1/b.bin", 0, "0" * 64))
ALL = {"a.bin": 3, "ranks/1/b.bin": 0, "seal.json": len(render_seal(TWO).encode())}


@pytest.mark.parametrize("uri", ["s3://b/checkpoints/t/r/g001/", "s3://b/checkpoints/t/r/g001"])
def test_a_checkpoint_is_whole_in_s3_with_every_file_and_its_seal(uri: str) -> None:
    listed = Listed({**ALL, "left-over.bin": 7})
    assert S3Copy(listed, uri).holds(TWO)
    assert listed.asked == f"s3://b/checkpoints/t/r/g001/{step_folder(20)}/"


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_checkpoint_is_not_whole_in_s3_with_a_file_missing_or_of_another_size(name: str) -> None:
    assert not S3Copy(Listed({found: size for found, size in ALL.items() if found != name}), "s3://b/c").holds(TWO)
    assert not S3Copy(Listed({**ALL, name: ALL[name] + 1}), "s3://b/c").holds(TWO)


def test_s3_itself_says_what_it_has(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    copy = S3Copy(S3Objects(s3.environment), s3.uri("retention/"))
    folder = f"retention/{step_folder(20)}/"
    s3.put(folder + "a.bin", "abc")
    s3.put(folder + "ranks/1/b.bin", "")
    assert not copy.holds(TWO)
    s3.put(folder + "seal.json", render_seal(TWO))
    assert copy.holds(TWO)
