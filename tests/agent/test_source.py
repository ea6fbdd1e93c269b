from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast_agent import source
from holdfast_agent.source import SourceError, unpack_source
from tests.agent.host_trees import tarball

Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", content: bytes = b"", mode: int = 0o644) -> Member:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size, entry.mode = kind, link, len(content), mode
    return entry, content


def link(name: str, target: str) -> Member:
    return member(name, tarfile.SYMTYPE, target)


def archive(folder: Path, *members: Member) -> Path:
    path = folder / "source.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for entry, content in members:
            tar.addfile(entry, io.BytesIO(content))
    return path


def unpack(path: Path, target: Path) -> None:
    unpack_source(path, hashlib.sha256(path.read_bytes()).hexdigest(), target)


def test_the_tree_is_unpacked_with_its_folders_links_and_executable_bits(tmp_path: Path) -> None:
    path = archive(
        tmp_path,
        member("./train.py", content=b"print()"),
        member("tools/run.sh", content=b"#!/bin/sh", mode=0o4755),
        member("empty", tarfile.DIRTYPE),
        link("tools/again.py", "../train.py"),
        link("latest", "tools"),
    )
    unpack(path, tmp_path / "code")
    assert (tmp_path / "code/tools/again.py").read_bytes() == b"print()"
    assert (tmp_path / "code/latest/run.sh").read_bytes() == b"#!/bin/sh"
    assert (tmp_path / "code/empty").is_dir()
    assert stat.S_IMODE((tmp_path / "code/tools/run.sh").stat().st_mode) == 0o755


def test_an_earlier_tree_is_replaced_whole(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/old.py").write_text("old")
    unpack(archive(tmp_path, member("train.py", content=b"new")), tmp_path / "code")
    assert [path.name for path in (tmp_path / "code").iterdir()] == ["train.py"]


UNSAFE = {
    "absolute path": [member("/train.py")],
    "upward path": [member("../train.py")],
    "upward path in the middle": [member("a/../../train.py")],
    "absolute link": [link("out", "/etc")],
    "upward link": [link("out", "..")],
    "upward link of a deeper folder": [link("a/out", "../../x")],
    "file through a link": [link("out", "../.."), member("out/train.py", content=b"x")],
    "link through a folder that becomes a link": [
        link("a/b/x", "c/../../../.."),
        link("a/b/c", "."),
    ],
    "links that lead out together": [link("a", "b/.."), link("b", "c"), member("c/d", content=b"")],
    "link over a file": [member("train.py", content=b"x"), link("train.py", "other")],
    "file over a link": [member("other", content=b"x"), link("train.py", "other"), member("train.py", content=b"y")],
    "folder over a link": [member("d/x", content=b"x"), link("e", "d"), member("e", tarfile.DIRTYPE)],
    "link to itself": [link("loop", "loop"), member("loop/x", content=b"x")],
    "hard link": [member("train.py", content=b"x"), member("hard", tarfile.LNKTYPE, "train.py")],
    "hard link out": [member("hard", tarfile.LNKTYPE, "/etc/passwd")],
    "character device": [member("null", tarfile.CHRTYPE)],
    "block device": [member("disk", tarfile.BLKTYPE)],
    "fifo": [member("pipe", tarfile.FIFOTYPE)],
}


@pytest.mark.parametrize("name", UNSAFE)
def test_an_unsafe_archive_is_refused_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    inner = tmp_path / "deep" / "er"
    inner.mkdir(parents=True)
    with pytest.raises(SourceError):
        unpack(archive(inner, *UNSAFE[name]), inner / "code")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "er", "source.tar.gz"]


def flood_by_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(source, "LARGEST_UNPACKED_BYTES", 1_000)
    return archive(folder, member("a", content=b"0" * 600), member("b", content=b"0" * 600))


def flood_by_number(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(source, "MOST_MEMBERS", 3)
    return archive(folder, *(member(str(number)) for number in range(4)))


@pytest.mark.parametrize("flood", [flood_by_size, flood_by_number])
def test_an_archive_over_the_bounds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flood: Callable[[Path, pytest.MonkeyPatch], Path]
) -> None:
    with pytest.raises(SourceError, match="more than"):
        unpack(flood(tmp_path, monkeypatch), tmp_path / "code")
    assert not (tmp_path / "code").exists()


@pytest.mark.parametrize("damage", [lambda data: data[:-40], lambda data: b"not a tarball", lambda data: b""])
def test_a_damaged_archive_is_refused_in_words(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "source.tar.gz"
    path.write_bytes(damage(tarball({"train.py": os.urandom(5_000)})))
    with pytest.raises(SourceError, match="cannot be unpacked"):
        unpack(path, tmp_path / "code")


def test_another_digest_than_the_pinned_one_is_refused_before_anything_is_unpacked(tmp_path: Path) -> None:
    path = archive(tmp_path, member("train.py"))
    with pytest.raises(SourceError, match="changed after registration"):
        unpack_source(path, "0" * 64, tmp_path / "code")
    assert [path.name for path in (tmp_path).iterdir()] == ["source.tar.gz"]


def test_a_missing_archive_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"holds no source\.tar\.gz"):
        unpack_source(tmp_path / "source.tar.gz", "0" * 64, tmp_path / "code")
