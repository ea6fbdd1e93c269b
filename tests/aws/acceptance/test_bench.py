"""The workbench on moto: whose account it is, what counts as ours, and what is left of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from moto import mock_aws

from holdfast.aws.acceptance.bench import Bench, HaltedError, Place
from holdfast.aws.acceptance.clients import AccountError, check_account, connect
from holdfast.core.acceptance.pace import EMULATED
from holdfast.core.read_config import read_config

CONFIG = Path(__file__).parents[3] / "config" / "example.yaml"  # of moto's account


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    config = read_config(CONFIG.read_text())
    place = Place(config, "research", "pytorch-cpu", config.images["pytorch-cpu"], "ml.m5.xlarge", "abc123")
    with mock_aws():
        made = Bench(place, connect(config.region), EMULATED, time.time, threading.Event(), lambda words: None)
        made.clients.s3.create_bucket(Bucket=config.bucket)
        yield made


def test_the_credentials_have_to_be_of_the_configs_account(bench: Bench) -> None:
    check_account(bench.clients.sts, bench.place.config.account)
    with pytest.raises(AccountError, match="for account 000000000000, the credentials are of 123456789012"):
        check_account(bench.clients.sts, "000000000000")


def test_a_request_is_the_teams_own_with_a_longest_run_and_a_tag_to_find_it_by(bench: Bench) -> None:
    request = bench.request("talk", ["talk", "8"])
    assert request["TrainingJobName"] == "dev-research-accept-abc123-talk"
    assert request["RoleArn"] == bench.place.config.job_role_arn("research")
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": EMULATED.longest_direct_seconds}
    assert {"Key": "holdfast:acceptance", "Value": "abc123"} in request["Tags"]
    assert bench.create(request).ok, "botocore and moto take it"


@pytest.mark.parametrize(
    ("code", "ours"),
    [("ResourceInUse", False), ("ValidationException", False), ("InternalFailure", True), ("", True)],
)
def test_a_name_is_ours_until_it_was_refused_for_certain(bench: Bench, code: str, ours: bool) -> None:
    request = bench.request("talk", ["talk", "8"])
    if code:
        with Stubber(bench.clients.once) as stubber:
            stubber.add_client_error("create_training_job", code)
            assert bench.create(request).code == code
    else:
        assert bench.create(request).ok
    assert bench.jobs == ([request["TrainingJobName"]] if ours else [])


def test_roles_and_files_are_gone_after_the_end(bench: Bench) -> None:
    trust = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
    allowed = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    bench.make_role("keys", {"Version": "2012-10-17", "Statement": [trust]}, [allowed])
    with pytest.raises(ClientError, match="MalformedPolicyDocument"):
        bench.make_role("halfmade", {"Version": "2012-10-17", "Statement": [trust]}, [])
    assert len(bench.clients.iam.list_roles()["Roles"]) == 2
    bench.put(f"{bench.place.data}probe.py", b"x")
    assert bench.clear() == []
    assert bench.clients.iam.list_roles()["Roles"] == []
    assert bench.keys(bench.place.data) == {}


def test_a_role_that_cannot_be_deleted_is_left_in_words(bench: Bench) -> None:
    bench.roles.append("holdfast-dev-accept-abc123-gone")
    (words,) = bench.clear()
    assert words.startswith("role holdfast-dev-accept-abc123-gone: ")


def test_no_create_comes_sooner_after_another_than_an_account_allows(bench: Bench) -> None:
    began = time.monotonic()
    for label in ("one", "two"):
        bench.create(bench.request(label, ["leave"]))
    assert time.monotonic() - began >= EMULATED.create_gap_seconds


def test_a_wait_ends_at_once_when_all_of_it_is_halted(bench: Bench) -> None:
    bench.halt.set()
    with pytest.raises(HaltedError):
        bench.sleep(60)
