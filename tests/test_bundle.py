"""The bundle: whole, deterministic, and nothing in it that does not belong."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from holdfast.bundle import Bundle, BundleError, build_bundle, bundle_digest, stored_gzip
from holdfast.core.config import AccountConfig, Team
from holdfast.core.deployment import Deployment
from holdfast.core.read_config import ConfigError

CONFIG = AccountConfig(
    environment="dev",
    account="123456789012",
    region="us-east-1",
    teams={"research": Team()},
    instance_types=("ml.m5.xlarge",),
)
JOB = "name: tiny\ndescription: A model.\nentry_point: train.py\n"
FILES = {
    "holdfast_agent/channel_main.py": "print('main')\n",
    "holdfast_agent/__init__.py": "",
    "holdfast_agent/launch.py": "x = 1\n",
    "job_templates/tiny/job.yaml": JOB,
    "job_templates/tiny/train.py": "print('train')\n",
    "job_templates/tiny/model/net.py": "y = 2\n",
}


def a_tree(root: Path, **more: str) -> Path:
    for name, text in {**FILES, **more}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def members(bundle: Bundle, template: str = "tiny") -> dict[str, bytes]:
    archive = bundle.files[f"code/{template}/source.tar.gz"]
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}  # type: ignore[union-attr]


def test_the_bundle_holds_agent_code_and_deployment(tmp_path: Path) -> None:
    bundle = build_bundle(a_tree(tmp_path), CONFIG)
    assert list(bundle.files) == [
        "agent/__main__.py",
        "agent/holdfast_agent/__init__.py",
        "agent/holdfast_agent/launch.py",
        "code/tiny/source.tar.gz",
        "deployment.json",
    ]
    assert bundle.files["agent/__main__.py"] == b"print('main')\n"
    assert set(members(bundle)) == {"job.yaml", "train.py", "model/net.py"}


def test_the_deployment_document_is_the_deployment_and_names_the_codes_digest(tmp_path: Path) -> None:
    bundle = build_bundle(a_tree(tmp_path), CONFIG)
    assert Deployment.model_validate(json.loads(bundle.files["deployment.json"])) == bundle.deployment
    code = bundle.files["code/tiny/source.tar.gz"]
    assert bundle.deployment.templates["tiny"].code_sha256 == hashlib.sha256(code).hexdigest()


def test_two_trees_of_the_same_content_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = a_tree(tmp_path / "a"), a_tree(tmp_path / "b")
    os.utime(second / "job_templates/tiny/train.py", (1, 1))
    (second / "job_templates/tiny/train.py").chmod(0o777)
    assert build_bundle(first, CONFIG) == build_bundle(second, CONFIG)


def test_the_digest_is_of_these_very_bytes_on_every_machine(tmp_path: Path) -> None:
    # A literal: a zlib or a Python that packs differently would show here.
    code = build_bundle(a_tree(tmp_path), CONFIG).files["code/tiny/source.tar.gz"]
    assert hashlib.sha256(code).hexdigest() == "6766cc8e82c42ffb9ca7d928200dc20007931b77f165c914b13945687812b8ad"


@pytest.mark.parametrize(
    "name", ["holdfast_agent/launch.py", "job_templates/tiny/model/net.py", "job_templates/tiny/job.yaml"]
)
def test_a_change_anywhere_changes_the_digest(tmp_path: Path, name: str) -> None:
    before = build_bundle(a_tree(tmp_path), CONFIG).digest
    (tmp_path / name).write_text(FILES[name] + "# more\n")
    assert build_bundle(tmp_path, CONFIG).digest != before


def test_a_changed_config_changes_the_digest(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    assert (
        build_bundle(tree, CONFIG).digest
        != build_bundle(tree, CONFIG.model_copy(update={"max_instances_per_run": 2})).digest
    )


def test_content_that_moves_from_one_file_to_another_changes_the_digest() -> None:
    assert bundle_digest({"a": b"x", "b": b"y"}) != bundle_digest({"a": b"y", "b": b"x"})


def test_what_is_not_training_code_is_left_out(tmp_path: Path) -> None:
    plain = build_bundle(a_tree(tmp_path / "a"), CONFIG)
    left_out = {
        "job_templates/tiny/__pycache__/train.cpython-312.pyc": "x",
        "job_templates/tiny/tests/test_x.py": "x",
        "job_templates/tiny/README.md": "x",
        "job_templates/tiny/manifest.example.yaml": "x",
        "job_templates/tiny/.DS_Store": "x",
        "job_templates/notes/README.md": "no template",
        "job_templates/manifest.schema.json": "{}",
    }
    assert build_bundle(a_tree(tmp_path / "b", **left_out), CONFIG) == plain


def test_a_template_without_its_entry_point_is_refused_in_words(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    (tree / "job_templates/tiny/train.py").unlink()
    with pytest.raises(BundleError, match=r"entry_point 'train.py' is not a file of the folder"):
        build_bundle(tree, CONFIG)


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    (tree / "job_templates/tiny/passwd").symlink_to("/etc/passwd")
    with pytest.raises(BundleError, match="symbolic link"):
        build_bundle(tree, CONFIG)


def test_a_tree_without_an_agent_and_a_wrong_job_yaml_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"channel_main.py is missing"):
        build_bundle(tmp_path, CONFIG)
    with pytest.raises(ConfigError, match="did you mean `entry_point`"):
        build_bundle(
            a_tree(tmp_path, **{"job_templates/tiny/job.yaml": JOB.replace("entry_point", "entrypoint")}), CONFIG
        )


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 200_000])
def test_the_stored_gzip_is_one_that_others_read(size: int) -> None:
    content = bytes(index % 251 for index in range(size))
    packed = stored_gzip(content)
    assert gzip.decompress(packed) == content
    assert packed[:10] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", "no time, no name, operating system unknown"


def test_the_repositorys_own_templates_can_be_bundled() -> None:
    bundle = build_bundle(Path(__file__).parents[1], CONFIG)
    assert "tiny_gpt" in bundle.deployment.templates
    assert "agent/holdfast_agent/contract.py" in bundle.files
