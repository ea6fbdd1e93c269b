"""Service Quotas in memory, behind a real boto3 client: botocore checks each call, the sandbox's service answers it.

Fidelity gaps: no rate limits and no IAM, except for the errors that a test puts into `fails`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import boto3

from sandbox.cloud.model_checked import ApiError
from sandbox.cloud.quota_values import CODES, QuotaValues
from sandbox.cloud.service_quotas import ServiceQuotas


class MemoryQuotas:
    """A new account's quotas. `values` sets one, `service.decide` answers an open request."""

    def __init__(self, overlay: Mapping[str, float] | None = None, codes: Mapping[str, str] = CODES) -> None:
        self.values = QuotaValues(overlay)
        self.service = ServiceQuotas(region="us-east-1", account="123456789012", values=self.values, codes=codes)
        self.calls: Counter[str] = Counter()
        self.fails: dict[str, str] = {}
        """Error code by operation, or by operation and quota code (`GetServiceQuota L-09B4A649`)."""
        self.fixed: set[str] = set()
        """Codes of quotas that AWS does not raise."""
        self._params: dict[str, Any] = {}

    def client(self) -> Any:
        made = boto3.client(
            "service-quotas", region_name="us-east-1", aws_access_key_id="testing", aws_secret_access_key="testing"
        )
        made.meta.events.register("provide-client-params", self._remember)
        made.meta.events.register("before-call", self._answer)
        return made

    def asked(self) -> dict[str, float]:
        """What was asked for last: name to value."""
        found = self.service.operations["ListRequestedServiceQuotaChangeHistory"]({"ServiceCode": "sagemaker"})
        return {one["QuotaName"]: one["DesiredValue"] for one in reversed(found["RequestedQuotas"])}

    def _remember(self, params: dict[str, Any], **_: Any) -> None:
        self._params = params

    def _answer(self, model: Any, **_: Any) -> tuple[Any, dict[str, Any]]:
        self.calls[model.name] += 1
        try:
            for name in (model.name, f"{model.name} {self._params.get('QuotaCode')}"):
                if name in self.fails:
                    raise ApiError(self.fails[name], "as the test says")
            body = self.service.operations[model.name](dict(self._params))
        except ApiError as error:
            return SimpleNamespace(status_code=400), {"Error": {"Code": error.code, "Message": str(error)}}
        return SimpleNamespace(status_code=200), self._as_parsed(body)

    def _as_parsed(self, body: Any) -> Any:
        """As botocore hands it on: times are times."""
        if isinstance(body, list):
            return [self._as_parsed(one) for one in body]
        if not isinstance(body, dict):
            return body
        parsed = {name: self._as_parsed(one) for name, one in body.items()}
        for name in ("Created", "LastUpdated"):
            if name in parsed:
                parsed[name] = datetime.fromtimestamp(parsed[name], UTC)
        if parsed.get("QuotaCode") in self.fixed and "Adjustable" in parsed:
            parsed["Adjustable"] = False
        return parsed
