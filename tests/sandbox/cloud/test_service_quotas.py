from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from sandbox.cloud.lifecycle import Cloud

P5 = {"ServiceCode": "sagemaker", "QuotaCode": "L-82E1C851"}
M5 = {"ServiceCode": "sagemaker", "QuotaCode": "L-CCE2AFA6"}


@pytest.fixture
def quotas(cloud: Cloud) -> Any:
    return boto3.client("service-quotas", **cloud.client_arguments())


def test_a_new_account_has_no_large_gpu_instances(quotas: Any) -> None:
    quota = quotas.get_service_quota(**P5)["Quota"]
    assert (quota["QuotaName"], quota["Value"]) == ("ml.p5.48xlarge for training job usage", 0.0)


def test_an_unknown_quota_does_not_exist(quotas: Any) -> None:
    with pytest.raises(ClientError, match="NoSuchResourceException"):
        quotas.get_service_quota(ServiceCode="sagemaker", QuotaCode="L-00000000")


def test_quotas_are_listed_in_pages(quotas: Any) -> None:
    pages = list(
        quotas.get_paginator("list_service_quotas").paginate(
            ServiceCode="sagemaker", PaginationConfig={"PageSize": 100}
        )
    )
    codes = [quota["QuotaCode"] for page in pages for quota in page["Quotas"]]
    assert len(pages) > 1
    assert len(set(codes)) == len(codes) > 3


def test_an_increase_stays_pending_and_is_in_the_history(quotas: Any) -> None:
    asked = quotas.request_service_quota_increase(**P5, DesiredValue=8)["RequestedQuota"]
    assert asked["Status"] == "PENDING"
    assert quotas.get_requested_service_quota_change(RequestId=asked["Id"])["RequestedQuota"]["DesiredValue"] == 8.0
    history = quotas.list_requested_service_quota_change_history_by_quota(**P5)["RequestedQuotas"]
    assert [request["Id"] for request in history] == [asked["Id"]]
    with pytest.raises(ClientError, match="Only one open service quota increase request is allowed per quota"):
        quotas.request_service_quota_increase(**P5, DesiredValue=16)


def test_a_decrease_is_refused(quotas: Any) -> None:
    with pytest.raises(ClientError, match="greater than the current quota value"):
        quotas.request_service_quota_increase(**M5, DesiredValue=1)
