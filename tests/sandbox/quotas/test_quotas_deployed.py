"""An account that starts with AWS's defaults: a deployment asks, runs wait, AWS decides, runs train."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from holdfast.core.model import Cause, Phase
from holdfast.core.read_config import read_config
from sandbox.cloud.deploy import CdkApp, deploy
from sandbox.cloud.lifecycle import running_cloud
from sandbox.cloud.ticker import Ticker
from sandbox.demo.account import Account
from sandbox.sagemaker.client import FaultClient, FaultError
from tests.sandbox.cloud.processes import wait_until
from tests.sandbox.whole.conftest import CONFIG, REPOSITORY, TICK_SECONDS, Whole

pytestmark = pytest.mark.end_to_end

P4D = "ml.p4d.24xlarge for training job usage"
POOL = "ml.p4d.24xlarge for training warm pool usage"
ACROSS = "Number of instances across all training jobs"
WANTED = {"instances": [{"instance_type": "ml.p4d.24xlarge", "on_demand": 2, "warm_pool": 2}], "profiled_jobs": 50}


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """The sandbox's config, except that it wants GPU instances and nothing was granted before the deployment."""
    folder = tmp_path_factory.mktemp("quotas")
    document = yaml.safe_load((REPOSITORY / CONFIG).read_text())
    document["instance_types"].append("ml.p4d.24xlarge")
    (folder / "config.yaml").write_text(yaml.safe_dump({**document, "quotas": WANTED}))
    config = read_config((folder / "config.yaml").read_text())
    with running_cloud(folder / "cloud", region=config.region, account=config.account) as cloud:
        app = CdkApp(folder=REPOSITORY, context={"config": str(folder / "config.yaml")})
        outputs = deploy(cloud, app, environment=os.environ)
        storage, plane = outputs["holdfast-sandbox-storage"], outputs["holdfast-sandbox-control-plane"]
        faults = FaultClient(cloud.endpoint_url, region=cloud.region, access_key_id="test", secret_access_key="test")
        seen = Account(cloud, bucket=storage["BucketName"], table=storage["TableName"])
        with Ticker(cloud, plane["ReconcileFunction"], every_seconds=TICK_SECONDS):
            yield Whole(cloud, config, outputs, seen, faults)


def status(account: Whole) -> dict[str, Any]:
    """`status/quotas.json` by name."""
    s3 = account.client("s3")
    try:
        body = s3.get_object(Bucket=account.config.bucket, Key="status/quotas.json")["Body"].read()
    except s3.exceptions.NoSuchKey:
        return {}
    document = json.loads(body)
    assert document["error"] is None
    return {one["name"]: one for one in document["quotas"]}


def follow_up(account: Whole) -> None:
    """What the daily rule does: its own target with its own input."""
    events = account.client("events")
    (rule,) = [one["Name"] for one in events.list_rules()["Rules"] if "Daily" in one["Name"]]
    (target,) = events.list_targets_by_rule(Rule=rule)["Targets"]
    answer = account.client("lambda").invoke(
        FunctionName=target["Arn"].rpartition(":")[2], Payload=target["Input"].encode()
    )
    assert "FunctionError" not in answer, answer["Payload"].read()


def gpu_run(account: Whole, hosts: int) -> dict[str, Any]:
    resources = {"instance_type": "ml.p4d.24xlarge", "instance_count": hosts, "launch": "python"}
    limits = {"max_run_seconds": 600, "backoff_seconds": 600, "max_restarts": 0}
    return account.manifest(hyperparameters={"steps": 5}, resources=resources, limits=limits)


def test_a_deployment_asks_once_for_each_quota_that_is_short(account: Whole) -> None:
    assert wait_until(lambda: bool(status(account)), within_seconds=30)
    found = status(account)
    assert {name: (one["value"], one["wanted"], one["verdict"]) for name, one in found.items() if one["verdict"]} == {
        P4D: (0, 2, "open"),
        POOL: (0, 2, "open"),
        ACROSS: (4, 2, "enough"),
        "Maximum number of instances per training job": (20, 2, "enough"),
        "ml.m5.2xlarge for processing job usage": (4, 50, "open"),
        "Number of instances across all processing jobs": (4, 50, "open"),
    }
    assert found["Longest run time for a training job"]["value"] == 432_000
    follow_up(account)
    history = account.client("service-quotas").list_requested_service_quota_change_history(ServiceCode="sagemaker")
    assert sorted((one["QuotaName"], one["DesiredValue"]) for one in history["RequestedQuotas"]) == [
        ("Number of instances across all processing jobs", 50),
        ("ml.m5.2xlarge for processing job usage", 50),
        (P4D, 2),
        (POOL, 2),
    ]


def test_a_run_that_waits_for_a_quota_trains_once_it_is_granted_and_a_larger_one_waits_on(account: Whole) -> None:
    account.drop("fits", gpu_run(account, hosts=1))
    account.drop("large", gpu_run(account, hosts=2))
    held = account.until("fits", lambda run: run.phase is Phase.WAITING)
    account.until("large", lambda run: run.phase is Phase.WAITING)
    assert (held.cause, held.attempts, held.ledger.restarts) == (Cause.QUOTA, (), 0)
    assert "(L-09B4A649) is 0 instances" in held.why
    assert "An increase to 2 is asked for, which is enough" in held.why
    document = account.account.status("research", "fits")
    assert document is not None
    assert [(one["name"], one["short_by"]) for one in document["quotas_short"]] == [(P4D, 1)]
    # Half of it: the smaller run is woken, long before its own due time, and trains on what was raised.
    account.faults.grant_quota_request_in_part(P4D, 1)
    follow_up(account)
    trained = account.until("fits", lambda run: run.phase is Phase.SUCCEEDED)
    assert trained.attempts[0].last_step == 5
    assert trained.ledger.restarts == 0
    still = account.until("large", lambda run: run.phase is Phase.WAITING)
    assert not still.attempts
    assert status(account)[P4D]["verdict"] == "answered"


def test_a_denial_stands_in_the_status_and_in_the_record(account: Whole) -> None:
    account.faults.deny_quota_request(POOL)
    follow_up(account)
    pool = status(account)[POOL]
    assert (pool["value"], pool["verdict"], pool["request"]) == (0, "answered", None)
    assert "AWS has refused a request for 2" in pool["why"]
    with pytest.raises(FaultError, match="no request is open"):
        account.faults.grant_quota_request(POOL)


def test_a_quota_that_is_raised_by_hand_reaches_the_training_plane(account: Whole) -> None:
    quotas = account.client("service-quotas")
    code = {"ServiceCode": "sagemaker", "QuotaCode": "L-09B4A649"}
    quotas.request_service_quota_increase(**code, DesiredValue=3)
    account.faults.grant_quota_request(P4D)
    assert quotas.get_service_quota(**code)["Quota"]["Value"] == 3
    follow_up(account)
    run = account.until("large", lambda run: run.phase is Phase.SUCCEEDED)
    assert run.attempts[0].last_step == 5
