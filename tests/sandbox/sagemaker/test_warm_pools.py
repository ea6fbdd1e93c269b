"""A warm pool's life, with a clock of the test's own."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.sagemaker.warm_pools import WarmPools
from tests.sandbox.sagemaker.test_rules import a_request, resources

PORT = 20_001
VPC = {"SecurityGroupIds": ["sg-1", "sg-2"], "Subnets": ["subnet-1"]}


class Yard:
    """Warm pools, and the ports that they gave back."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.released: list[int] = []
        self.pools = WarmPools(self.released.append, lambda: self.now)

    def status(self, job: str) -> Any:
        return (self.pools.status_of(job) or {}).get("Status")

    def ended_job(self, name: str = "first", **more: Any) -> dict[str, Any]:
        asked = a_request(**{"ResourceConfig": resources(KeepAlivePeriodInSeconds=60), "VpcConfig": VPC, **more})
        self.pools.open(name, asked)
        self.pools.retain(name, PORT)
        return asked


@pytest.fixture
def yard() -> Yard:
    return Yard()


def test_a_job_without_a_keep_alive_period_has_no_pool_and_leaves_its_hosts(yard: Yard) -> None:
    yard.pools.open("plain", a_request())
    assert not yard.pools.retain("plain", PORT)
    assert yard.pools.status_of("plain") is None


def test_a_pool_goes_from_in_use_to_available_to_reused(yard: Yard) -> None:
    asked = a_request(ResourceConfig=resources(KeepAlivePeriodInSeconds=60))
    yard.pools.open("first", asked)
    assert yard.status("first") == "InUse"
    assert yard.pools.match(asked) is None
    yard.pools.retain("first", PORT)
    assert yard.status("first") == "Available"
    yard.now += 10
    assert yard.pools.match(asked) == "first"
    yard.pools.open("second", asked)
    assert yard.pools.claim("first", "second") == PORT
    assert yard.pools.status_of("first") == {
        "Status": "Reused",
        "ReusedByJob": "second",
        "ResourceRetainedBillableTimeInSeconds": 10,
    }
    assert yard.status("second") == "InUse"
    assert yard.released == []


def test_a_pool_is_terminated_when_its_period_is_over_and_its_hosts_go(yard: Yard) -> None:
    asked = yard.ended_job()
    yard.now += 59
    assert yard.pools.match(asked) == "first"
    yard.now += 1
    assert yard.pools.match(asked) is None
    assert yard.status("first") == "Terminated"
    assert yard.released == [PORT]


@pytest.mark.parametrize(
    "other",
    [
        {"RoleArn": "arn:aws:iam::000000000000:role/other"},
        {"ResourceConfig": resources(KeepAlivePeriodInSeconds=60, InstanceCount=2)},
        {"ResourceConfig": resources(KeepAlivePeriodInSeconds=60, InstanceType="ml.m5.2xlarge")},
        {"ResourceConfig": resources(KeepAlivePeriodInSeconds=60, VolumeSizeInGB=11)},
        {"ResourceConfig": resources(KeepAlivePeriodInSeconds=60, VolumeKmsKeyId="key")},
        {"VpcConfig": {**VPC, "Subnets": ["subnet-2"]}},
        {"VpcConfig": {**VPC, "SecurityGroupIds": ["sg-1"]}},
        {"EnableInterContainerTrafficEncryption": True},
        {"EnableNetworkIsolation": True},
        {"SessionChainingConfig": {"EnableSessionTagChaining": True}},
    ],
)
def test_a_job_that_differs_in_a_documented_value_does_not_match(yard: Yard, other: dict[str, Any]) -> None:
    asked = yard.ended_job()
    assert yard.pools.match({**asked, **other}) is None


@pytest.mark.parametrize(
    "other",
    [
        {"TrainingJobName": "another"},
        {"VpcConfig": {**VPC, "SecurityGroupIds": ["sg-2", "sg-1"]}},
        {"ResourceConfig": resources(KeepAlivePeriodInSeconds=30)},
        {"ResourceConfig": resources()},
        {"HyperParameters": {"a": "1"}},
    ],
)
def test_a_job_that_differs_in_anything_else_matches(yard: Yard, other: dict[str, Any]) -> None:
    asked = yard.ended_job()
    assert yard.pools.match({**asked, **other}) == "first"


def test_a_pool_that_was_updated_to_zero_ends_and_a_longer_one_lives_on(yard: Yard) -> None:
    yard.ended_job()
    assert yard.pools.keep_alive("first", 3600)
    yard.now += 1000
    assert yard.status("first") == "Available"
    assert yard.pools.keep_alive("first", 0)
    assert yard.status("first") == "Terminated"
    assert yard.released == [PORT]
    assert not yard.pools.keep_alive("first", 60)


def test_a_pool_that_nobody_uses_counts_as_training_instances_until_it_ends(yard: Yard) -> None:
    yard.ended_job()
    assert [usage.instances for usage in yard.pools.idle().values()] == [1]
    yard.pools.end("first")
    assert yard.pools.idle() == {}
