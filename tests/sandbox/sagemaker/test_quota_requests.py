"""A request for a higher quota, as AWS may decide it, and what CreateTrainingJob says before and after."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.sagemaker.client import FaultError
from tests.sandbox.sagemaker.conftest import Lab
from tests.sandbox.sagemaker.test_api import refusal

NAME = "ml.r5.large for training job usage"
CODE = {"ServiceCode": "sagemaker", "QuotaCode": "L-A810B462"}


@pytest.fixture(autouse=True)
def none_of_that_type(lab: Lab) -> None:
    lab.faults.set_quota(NAME, 0)


def job(lab: Lab, role: str, hosts: int) -> dict[str, Any]:
    request = lab.request("pass", role=role, hosts=hosts)
    request["ResourceConfig"]["InstanceType"] = "ml.r5.large"
    return request


def test_a_job_beyond_the_quota_is_refused_and_runs_once_the_request_is_granted(lab: Lab, role: str) -> None:
    quotas = lab.client("service-quotas")
    code, words = refusal(lambda: lab.create(job(lab, role, hosts=1)))
    assert code == "ResourceLimitExceeded"
    assert f"'{NAME}' is 0 Instances" in words
    asked = quotas.request_service_quota_increase(**CODE, DesiredValue=2)["RequestedQuota"]
    assert lab.faults.grant_quota_request(NAME) == 2
    lab.wait_for(lab.create(job(lab, role, hosts=2)), "Completed")
    answered = quotas.get_requested_service_quota_change(RequestId=asked["Id"])["RequestedQuota"]
    assert answered["Status"] == "APPROVED"


def test_a_part_lets_as_many_run_and_a_denial_none(lab: Lab, role: str) -> None:
    quotas = lab.client("service-quotas")
    quotas.request_service_quota_increase(**CODE, DesiredValue=2)
    assert lab.faults.grant_quota_request_in_part(NAME, 1) == 1
    lab.wait_for(lab.create(job(lab, role, hosts=1)), "Completed")
    assert refusal(lambda: lab.create(job(lab, role, hosts=2)))[0] == "ResourceLimitExceeded"
    quotas.request_service_quota_increase(**CODE, DesiredValue=3)
    lab.faults.deny_quota_request(NAME)
    history = quotas.list_requested_service_quota_change_history(ServiceCode="sagemaker")["RequestedQuotas"]
    assert [one["Status"] for one in history if one["QuotaName"] == NAME][:2] == ["DENIED", "CASE_CLOSED"]
    assert quotas.get_service_quota(**CODE)["Quota"]["Value"] == 1


def test_an_answer_without_a_request_is_refused_in_words(lab: Lab) -> None:
    with pytest.raises(FaultError, match="no request is open for the quota 'no such quota'"):
        lab.faults.grant_quota_request("no such quota")


def test_the_defaults_stay_what_they_are_when_a_value_is_raised(lab: Lab) -> None:
    lab.faults.set_quota(NAME, 7)
    quotas = lab.client("service-quotas")
    assert quotas.get_service_quota(**CODE)["Quota"]["Value"] == 7
    assert quotas.get_aws_default_service_quota(**CODE)["Quota"]["Value"] == 4
