"""Service Quotas of Amazon SageMaker training: reading them, and asking for more.

Codes, names and the first three defaults are AWS's
(https://docs.aws.amazon.com/general/latest/gr/sagemaker.html). The defaults of the instance types are assumed: they
differ from account to account, and new accounts start with none of the large GPU instances. Nobody decides about a
request here: it stays PENDING.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.cloud.context import CloudContext, JsonObject
from sandbox.cloud.model_checked import ApiError, model_checked, page

SERVICE = "servicequotas"
_PAGE = 100
_OPEN = ("PENDING", "CASE_OPENED")


@dataclass(frozen=True)
class QuotaDefault:
    code: str
    name: str
    value: float


SAGEMAKER_DEFAULTS: tuple[QuotaDefault, ...] = (
    QuotaDefault("L-33A961FD", "Longest run time for a training job", 432_000),
    QuotaDefault("L-622CFD70", "Maximum number of instances per training job", 20),
    QuotaDefault("L-00C91CB5", "Number of instances across all training jobs", 4),
    QuotaDefault("L-E2BB44FE", "ml.c5.xlarge for training job usage", 4),
    QuotaDefault("L-AD0A282D", "ml.m5.2xlarge for training job usage", 4),
    QuotaDefault("L-CCE2AFA6", "ml.m5.xlarge for training job usage", 4),
    QuotaDefault("L-09B4A649", "ml.p4d.24xlarge for training job usage", 0),
    QuotaDefault("L-82E1C851", "ml.p5.48xlarge for training job usage", 0),
)


def install(context: CloudContext) -> None:
    quotas = ServiceQuotas(region=context.region, account=context.account)
    context.register_json_service(
        SERVICE,
        model_checked("service-quotas", quotas.operations, invalid_code="IllegalArgumentException"),
        resource_of=quotas.resources_of,
    )


class ServiceQuotas:
    def __init__(self, *, region: str, account: str, defaults: Sequence[QuotaDefault] = SAGEMAKER_DEFAULTS) -> None:
        self._region = region
        self._account = account
        self._quotas = {default.code: self._quota(default) for default in defaults}
        self._requests: list[JsonObject] = []
        self._lock = threading.Lock()
        self.operations = {
            "GetServiceQuota": self._get,
            "ListServiceQuotas": self._list,
            "RequestServiceQuotaIncrease": self._request,
            "GetRequestedServiceQuotaChange": self._get_request,
            "ListRequestedServiceQuotaChangeHistoryByQuota": self._history,
        }

    def resources_of(self, operation: str, params: JsonObject) -> list[str]:
        """Only a request for an increase is authorized on a quota (service authorization reference)."""
        if operation != "RequestServiceQuotaIncrease":
            return ["*"]
        return [self._arn(params["ServiceCode"], params["QuotaCode"])]

    def _get(self, params: JsonObject) -> JsonObject:
        return {"Quota": self._named(params)}

    def _list(self, params: JsonObject) -> JsonObject:
        if params["ServiceCode"] != "sagemaker":
            raise _no_such_resource()
        wanted = [quota for code, quota in self._quotas.items() if params.get("QuotaCode", code) == code]
        return _paged("Quotas", wanted, params)

    def _request(self, params: JsonObject) -> JsonObject:
        quota = self._named(params)
        if params["DesiredValue"] <= quota["Value"]:
            raise ApiError(
                "IllegalArgumentException", "You must provide a quota value greater than the current quota value."
            )
        with self._lock:
            if any(asked["QuotaCode"] == quota["QuotaCode"] and asked["Status"] in _OPEN for asked in self._requests):
                raise ApiError(
                    "ResourceAlreadyExistsException",
                    "Only one open service quota increase request is allowed per quota.",
                )
            asked = self._open_request(quota, float(params["DesiredValue"]))
            self._requests.append(asked)
        return {"RequestedQuota": asked}

    def _get_request(self, params: JsonObject) -> JsonObject:
        for asked in self._requests:
            if asked["Id"] == params["RequestId"]:
                return {"RequestedQuota": asked}
        raise _no_such_resource()

    def _history(self, params: JsonObject) -> JsonObject:
        code = self._named(params)["QuotaCode"]
        wanted = [
            asked
            for asked in reversed(self._requests)
            if asked["QuotaCode"] == code and params.get("Status", asked["Status"]) == asked["Status"]
        ]
        return _paged("RequestedQuotas", wanted, params)

    def _named(self, params: JsonObject) -> JsonObject:
        quota = self._quotas.get(params["QuotaCode"])
        if quota is None or params["ServiceCode"] != "sagemaker":
            raise _no_such_resource()
        return quota

    def _open_request(self, quota: JsonObject, desired_value: float) -> JsonObject:
        now = time.time()
        shared = {name: quota[name] for name in ("ServiceCode", "ServiceName", "QuotaCode", "QuotaName", "QuotaArn")}
        return {
            **shared,
            "Id": uuid.uuid4().hex,
            "DesiredValue": desired_value,
            "Status": "PENDING",
            "Created": now,
            "LastUpdated": now,
            "GlobalQuota": False,
            "Unit": "None",
        }

    def _quota(self, default: QuotaDefault) -> JsonObject:
        return {
            "ServiceCode": "sagemaker",
            "ServiceName": "Amazon SageMaker",
            "QuotaArn": self._arn("sagemaker", default.code),
            "QuotaCode": default.code,
            "QuotaName": default.name,
            "Value": float(default.value),
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }

    def _arn(self, service: str, code: str) -> str:
        return f"arn:aws:servicequotas:{self._region}:{self._account}:{service}/{code}"


def _paged(name: str, items: list[JsonObject], params: JsonObject) -> JsonObject:
    found, token = page(items, params, largest=_PAGE)
    return {name: found} if token is None else {name: found, "NextToken": token}


def _no_such_resource() -> ApiError:
    return ApiError("NoSuchResourceException", "The specified resource does not exist.")
