from __future__ import annotations

import socket
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from holdfast.core.config import AccountConfig
from sandbox.demo import __main__ as demo
from sandbox.sagemaker.client import FaultClient


def ask_a_dead_endpoint(stage: demo.Stage, config: AccountConfig) -> dict[str, object]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}),
    )
    return dict(client.list_buckets())


def be_refused(stage: demo.Stage, config: AccountConfig) -> dict[str, object]:
    raise ClientError({"Error": {"Code": "InternalError", "Message": "broken inside"}}, "ListBuckets")


def freeze_where_nobody_answers(stage: demo.Stage, config: AccountConfig) -> dict[str, object]:
    client = FaultClient("http://127.0.0.1:9", region="us-east-1", access_key_id="test", secret_access_key="test")
    return dict(client.freeze_hosts("any").hosts)


@pytest.fixture(autouse=True)
def own_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo deletes the last one's: not the one that a person made."""
    monkeypatch.setattr(demo, "SUMMARY", tmp_path / "summary.json")


@pytest.mark.parametrize(
    ("perform", "words"),
    [
        (ask_a_dead_endpoint, "Could not connect"),
        (be_refused, "broken inside"),
        (freeze_where_nobody_answers, "does not answer"),
    ],
)
def test_an_emulator_that_died_or_broke_ends_the_demo_in_words_with_its_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], perform: object, words: str
) -> None:
    monkeypatch.setattr(demo, "perform", perform)
    assert demo.main() == 1
    told = capsys.readouterr().out
    assert "FAILED" in told
    assert words in told
    assert "emulator.log" in told


def test_an_error_of_the_demos_own_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(stage: demo.Stage, config: AccountConfig) -> dict[str, object]:
        raise KeyError("a mistake in the demo")

    monkeypatch.setattr(demo, "perform", stumble)
    with pytest.raises(KeyError):
        demo.main()
