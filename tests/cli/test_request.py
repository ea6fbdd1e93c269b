"""`holdfast request`: the very request that the deployment would send, without AWS."""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import yaml
from typer.testing import Result

from holdfast.bundle import build_bundle
from holdfast.core.manifest import Manifest
from holdfast.core.model import spec_hash
from holdfast.core.read_config import read_config
from holdfast.core.read_manifest import read_manifest
from holdfast.core.request import build_request, pin
from tests.cli.conftest import SOUND

Command = Callable[..., Result]
Drop = Callable[..., Path]
ROOT = Path(__file__).parents[2]
ADDRESS = "s3://holdfast-sandbox-000000000000-us-east-1/data/research/code.tar.gz"


def test_json_is_the_request_that_the_deployed_code_would_build(run: Command, drop: Drop) -> None:
    done = run("request", "--json", drop(), "--attempt", "3", "--uid", "some-uid")
    assert done.exit_code == 0
    bundle = build_bundle(ROOT, read_config((ROOT / "config/sandbox.yaml").read_bytes()))
    manifest = read_manifest(SOUND.encode(), team="research", run="tiny", deployment=bundle.deployment)
    assert isinstance(manifest, Manifest)
    assert json.loads(done.stdout) == build_request(
        deployment=bundle.deployment,
        team="research",
        run="tiny",
        uid="some-uid",
        manifest=manifest,
        pins=pin(manifest, bundle.deployment, bundle=bundle.digest, team="research"),
        attempt_number=3,
        spec_hash=spec_hash(manifest),
    )


def test_for_people_it_is_the_same_as_yaml(run: Command, drop: Drop) -> None:
    people, program = run("request", drop()), run("request", "--json", drop())
    assert yaml.safe_load(people.stdout) == json.loads(program.stdout)


def test_the_uid_that_cannot_be_known_is_said_to_be_minted_at_registration(run: Command, drop: Drop) -> None:
    document = json.loads(run("request", "--json", drop()).stdout)
    assert document["Environment"]["HOLDFAST_UID"] == "minted-at-registration"


def test_notes_go_to_standard_error_so_that_standard_output_stays_a_request(run: Command, drop: Drop) -> None:
    done = run("request", "--json", drop(SOUND.replace("stall_after_seconds: 600", "")))
    assert "stall_after_seconds" in done.stderr
    json.loads(done.stdout)


def test_a_refused_manifest_has_no_request(run: Command, drop: Drop) -> None:
    done = run("request", "--json", drop(SOUND + "role: x\n"))
    assert done.exit_code == 1
    assert json.loads(done.stdout)["errors"][0]["field"] == "role"


def test_a_teams_own_code_needs_its_tarball_for_the_digest(run: Command, drop: Drop, tmp_path: Path) -> None:
    manifest = drop(SOUND + f"source: {{archive: '{ADDRESS}', entry_point: train.py}}\n")
    without = run("request", "--json", manifest)
    assert without.exit_code == 2
    assert "--source-archive" in without.stderr
    archive = packed(tmp_path, "train.py")
    done = run("request", "--json", manifest, "--source-archive", archive)
    assert done.exit_code == 0
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert json.loads(done.stdout)["Environment"]["HOLDFAST_CODE_SHA256"] == digest
    assert run("request", manifest, "--source-archive", tmp_path / "none").exit_code == 2


def packed(folder: Path, *names: str, mode: Literal["w:gz", "w"] = "w:gz") -> Path:
    archive = folder / "code.tar.gz"
    with tarfile.open(archive, mode) as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name))
    return archive


@pytest.mark.parametrize("name", ["src/train.py", "./src/train.py"])
def test_a_tarball_holds_its_entry_point_however_its_packer_writes_the_path(
    run: Command, drop: Drop, tmp_path: Path, name: str
) -> None:
    manifest = drop(SOUND + f"source: {{archive: '{ADDRESS}', entry_point: src/train.py}}\n")
    assert run("request", manifest, "--source-archive", packed(tmp_path, "a.txt", name)).exit_code == 0


def test_a_tarball_without_the_entry_point_is_refused_with_what_it_holds(
    run: Command, drop: Drop, tmp_path: Path
) -> None:
    manifest = drop(SOUND + f"source: {{archive: '{ADDRESS}', entry_point: train.py}}\n")
    done = run("request", manifest, "--source-archive", packed(tmp_path, "mycode/train.py"))
    assert done.exit_code == 2
    assert "holds no file train.py, the source's entry_point; it holds: mycode/train.py" in done.stderr


def test_a_tarball_that_is_not_gzipped_or_no_tarball_is_refused_in_words(
    run: Command, drop: Drop, tmp_path: Path
) -> None:
    manifest = drop(SOUND + f"source: {{archive: '{ADDRESS}', entry_point: train.py}}\n")
    whole = packed(tmp_path, "train.py").read_bytes()
    plain = packed(tmp_path, "train.py", mode="w").read_bytes()
    for content in (plain, b"some code", b"", whole[:40], gzip.compress(b"text")):
        archive = tmp_path / "code.tar.gz"
        archive.write_bytes(content)
        done = run("request", manifest, "--source-archive", archive)
        assert done.exit_code == 2, content[:10]
        assert "is no gzipped tarball" in done.stderr
        assert "tar czf code.tar.gz -C <folder> ." in done.stderr


def test_a_tarball_for_a_manifest_without_a_source_is_a_mistake(run: Command, drop: Drop, tmp_path: Path) -> None:
    done = run("request", drop(), "--source-archive", tmp_path / "x")
    assert done.exit_code == 2
    assert "has no source" in done.stderr


def test_attempt_numbers_begin_at_one(run: Command, drop: Drop) -> None:
    assert run("request", drop(), "--attempt", "0").exit_code == 2
