"""What is refused beyond a quota, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.cloud.quota_values import QuotaValues
from sandbox.sagemaker.profile import AWS, FAST
from sandbox.sagemaker.quotas import Quotas, Usage
from tests.sandbox.sagemaker.test_rules import a_request

HOUR = 3600


def request(instance_type: str = "ml.m5.xlarge", count: int = 1, **more: Any) -> dict[str, Any]:
    resources = {"InstanceType": instance_type, "InstanceCount": count, "VolumeSizeInGB": 10}
    return a_request(ResourceConfig={**resources, **more.pop("resources", {})}, **more)


def refusal(asked: dict[str, Any], *in_use: Usage, seconds: int = HOUR, overlay: dict[str, float] | None = None) -> str:
    return Quotas(QuotaValues(AWS.quotas if overlay is None else overlay)).refusal(asked, seconds, in_use) or ""


def test_a_type_whose_quota_is_zero_is_refused_in_the_words_of_aws() -> None:
    assert refusal(request("ml.p4d.24xlarge")) == (
        "The account-level service limit 'ml.p4d.24xlarge for training job usage' is 0 Instances, with current "
        "utilization of 0 Instances and a request delta of 1 Instances. Please contact AWS support to request an "
        "increase for this limit."
    )


def test_what_is_in_use_counts_and_the_last_free_instance_is_given() -> None:
    used = Usage("ml.m5.xlarge", 2)
    assert refusal(request(count=2), used) == ""
    assert (
        "'ml.m5.xlarge for training job usage' is 4 Instances, with current utilization of 2 Instances and a request "
        "delta of 3 Instances" in refusal(request(count=3), used)
    )


def test_other_types_count_for_the_whole_account_alone() -> None:
    used = Usage("ml.c5.xlarge", 3)
    assert "'Number of instances across all training jobs' is 4" in refusal(request(count=2), used)
    assert refusal(request(count=1), used) == ""


def test_spot_instances_have_quotas_of_their_own() -> None:
    on_demand = Usage("ml.m5.xlarge", 4)
    assert refusal(request(EnableManagedSpotTraining=True), on_demand) == ""
    spot = Usage("ml.m5.xlarge", 4, spot=True)
    assert "'ml.m5.xlarge for spot training job usage' is 4" in refusal(request(EnableManagedSpotTraining=True), spot)


def test_a_job_has_twenty_instances_at_most() -> None:
    wide = {"*.* usage": 100.0, "Number of instances across all*": 100.0}
    assert "'Maximum number of instances per training job' is 20" in refusal(request(count=21), overlay=wide)
    assert refusal(request(count=20), overlay=wide) == ""


def test_five_days_is_the_longest_run() -> None:
    said = refusal(request(), seconds=432_001)
    assert "'Longest run time for a training job' is 432000 Seconds" in said
    assert refusal(request(), seconds=432_000) == ""


def test_a_warm_pool_needs_its_own_quota_which_is_zero_by_default() -> None:
    pooled = request(resources={"KeepAlivePeriodInSeconds": 60})
    assert "'ml.m5.xlarge for training warm pool usage' is 0" in refusal(pooled)
    assert refusal(pooled, overlay={"* for training warm pool usage": 1}) == ""


def test_a_quota_that_is_set_holds_over_the_overlay_and_the_default() -> None:
    values = QuotaValues({"*.* usage": 64})
    assert values.limit("ml.m5.xlarge for training job usage") == 64
    values.set("ml.m5.xlarge for training job usage", 1)
    assert values.limit("ml.m5.xlarge for training job usage") == 1
    assert values.limit("ml.m5.2xlarge for training job usage") == 64
    assert values.default("ml.m5.xlarge for training job usage") == 4


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Longest run time for a training job", 432_000),
        ("Number of instances across all training jobs", 4),
        ("Number of instances across all spot training jobs", 4),
        ("Maximum number of instances per training job", 20),
        ("Maximum number of instances per spot training job", 20),
        ("ml.p4d.24xlarge for training job usage", 0),
        ("ml.p4d.24xlarge for training warm pool usage", 0),
        ("ml.m5.xlarge for training warm pool usage", 0),
    ],
)
def test_the_sandbox_starts_with_the_public_defaults(name: str, value: float) -> None:
    assert QuotaValues(FAST.quotas).limit(name) == value
