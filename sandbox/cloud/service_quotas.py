"""Service Quotas of Amazon SageMaker: reading quotas, and asking for more.

Names, codes and defaults are those of `quota_values.py`. A request stays PENDING until `decide` is called, which a
fault of the training plane does (`sandbox/sagemaker/client.py`).
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping

from sandbox.cloud.context import CloudContext, JsonObject
from sandbox.cloud.model_checked import ApiError, model_checked, page
from sandbox.cloud.quota_values import CODES, QuotaValues

SERVICE = "servicequotas"
_PAGE = 100
_OPEN = ("PENDING", "CASE_OPENED")


def install(context: CloudContext) -> None:
    """By itself, for an account without the training plane."""
    serve(context, QuotaValues())


def serve(context: CloudContext, values: QuotaValues) -> ServiceQuotas:
    quotas = ServiceQuotas(region=context.region, account=context.account, values=values)
    context.register_json_service(
        SERVICE,
        model_checked("service-quotas", quotas.operations, invalid_code="IllegalArgumentException"),
        resource_of=quotas.resources_of,
    )
    return quotas


class ServiceQuotas:
    """`codes` maps a code to its quota's name. What a quota is worth is in `values` alone."""

    def __init__(self, *, region: str, account: str, values: QuotaValues, codes: Mapping[str, str] = CODES) -> None:
        self.values = values
        self._region = region
        self._account = account
        self._codes = codes
        self._requests: list[JsonObject] = []
        self._lock = threading.Lock()
        self.operations = {
            "GetServiceQuota": lambda params: {"Quota": self._named(params)},
            "GetAWSDefaultServiceQuota": lambda params: {"Quota": self._default(self._named(params))},
            "ListServiceQuotas": self._list,
            "ListAWSDefaultServiceQuotas": self._list_defaults,
            "RequestServiceQuotaIncrease": self._request,
            "GetRequestedServiceQuotaChange": self._get_request,
            "ListRequestedServiceQuotaChangeHistory": self._history,
            "ListRequestedServiceQuotaChangeHistoryByQuota": self._history_of_quota,
        }

    def decide(self, name: str, granted: float | None) -> JsonObject:
        """AWS's answer to the open request for the quota `name`: `granted` is its new value, None for all of it.

        A value that is not above the present one is a denial. Raises ValueError where no request is open.
        """
        with self._lock:
            asked = next((one for one in self._requests if one["QuotaName"] == name and one["Status"] in _OPEN), None)
            if asked is None:
                raise ValueError(f"Name: no request is open for the quota {name!r}")
            value = asked["DesiredValue"] if granted is None else granted
            if value >= asked["DesiredValue"]:
                asked["Status"] = "APPROVED"
            else:
                asked["Status"] = "CASE_CLOSED" if value > self.values.limit(name) else "DENIED"
            asked["LastUpdated"] = time.time()
            if asked["Status"] != "DENIED":
                self.values.set(name, value)
        return {"Name": name, "Value": self.values.limit(name), "Status": asked["Status"]}

    def resources_of(self, operation: str, params: JsonObject) -> list[str]:
        """Only a request for an increase is authorized on a quota (service authorization reference)."""
        if operation != "RequestServiceQuotaIncrease":
            return ["*"]
        return [self._arn(params["ServiceCode"], params["QuotaCode"])]

    def _list(self, params: JsonObject) -> JsonObject:
        _known_service(params)
        wanted = [self._quota(code) for code in self._codes if params.get("QuotaCode", code) == code]
        return _paged("Quotas", wanted, params)

    def _list_defaults(self, params: JsonObject) -> JsonObject:
        _known_service(params)
        return _paged("Quotas", [self._default(self._quota(code)) for code in self._codes], params)

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
        _known_service(params)
        wanted = [one for one in reversed(self._requests) if params.get("Status", one["Status"]) == one["Status"]]
        return _paged("RequestedQuotas", wanted, params)

    def _history_of_quota(self, params: JsonObject) -> JsonObject:
        code = self._named(params)["QuotaCode"]
        wanted = [
            asked
            for asked in reversed(self._requests)
            if asked["QuotaCode"] == code and params.get("Status", asked["Status"]) == asked["Status"]
        ]
        return _paged("RequestedQuotas", wanted, params)

    def _named(self, params: JsonObject) -> JsonObject:
        _known_service(params)
        if params["QuotaCode"] not in self._codes:
            raise _no_such_resource()
        return self._quota(params["QuotaCode"])

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

    def _quota(self, code: str) -> JsonObject:
        name = self._codes[code]
        return {
            "ServiceCode": "sagemaker",
            "ServiceName": "Amazon SageMaker",
            "QuotaArn": self._arn("sagemaker", code),
            "QuotaCode": code,
            "QuotaName": name,
            "Value": float(self.values.limit(name)),
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }

    def _default(self, quota: JsonObject) -> JsonObject:
        return {**quota, "Value": float(self.values.default(quota["QuotaName"]))}

    def _arn(self, service: str, code: str) -> str:
        return f"arn:aws:servicequotas:{self._region}:{self._account}:{service}/{code}"


def _paged(name: str, items: list[JsonObject], params: JsonObject) -> JsonObject:
    found, token = page(items, params, largest=_PAGE)
    return {name: found} if token is None else {name: found, "NextToken": token}


def _known_service(params: JsonObject) -> None:
    if params["ServiceCode"] != "sagemaker":
        raise _no_such_resource()


def _no_such_resource() -> ApiError:
    return ApiError("NoSuchResourceException", "The specified resource does not exist.")
