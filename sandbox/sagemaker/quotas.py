"""The account's service quotas of training, and what of them is in use: CreateTrainingJob is refused beyond them.

Names are those of Service Quotas. The defaults of the account-wide quotas are AWS's (general reference, Amazon
SageMaker endpoints and quotas); those of single instance types differ from account to account and are assumed, by the
same data that the Service Quotas service of the sandbox answers with. A profile overlays them, a fault sets one.
"""

from __future__ import annotations

import fnmatch
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.cloud.service_quotas import SAGEMAKER_DEFAULTS

JsonObject = dict[str, Any]

LONGEST_RUN = "Longest run time for a training job"

_DEFAULTS: dict[str, float] = {
    **{default.name: default.value for default in SAGEMAKER_DEFAULTS},
    "Maximum number of instances per spot training job": 20,
    "Number of instances across all spot training jobs": 4,
    "* for training warm pool usage": 0,  # developer guide, train-warm-pools-resource-limits
    # Assumed: nothing that is large or scarce, four of everything else.
    "ml.p* for *training job usage": 0,
    "ml.trn* for *training job usage": 0,
    "*": 4,
}


@dataclass(frozen=True)
class Usage:
    """Instances that a job or an idle warm pool holds."""

    instance_type: str
    instances: int
    spot: bool = False
    warm_pool: bool = False
    """It is kept, or will be kept, for another job."""


def usage_of(request: JsonObject) -> Usage:
    resources = request["ResourceConfig"]
    return Usage(
        resources["InstanceType"],
        resources["InstanceCount"],
        spot=bool(request.get("EnableManagedSpotTraining")),
        warm_pool=bool(resources.get("KeepAlivePeriodInSeconds")),
    )


@dataclass(frozen=True)
class Claim:
    """What a request wants of one quota, and what of it is in use."""

    name: str
    in_use: float
    wanted: float
    unit: str = "Instances"

    def refusal(self, limit: float) -> str:
        """In AWS's words (gabehollombe-aws/jupyter-notebooks#1, for an instance type)."""
        return (
            f"The account-level service limit '{self.name}' is {limit:.0f} {self.unit}, with current utilization of "
            f"{self.in_use:.0f} {self.unit} and a request delta of {self.wanted:.0f} {self.unit}. Please contact AWS "
            "support to request an increase for this limit."
        )


class Quotas:
    """Thread-safe. `overlay` maps a quota's name, or a pattern of names, to its value; the first match holds."""

    def __init__(self, overlay: Mapping[str, float]) -> None:
        self._lock = threading.Lock()
        self._set: dict[str, float] = {}
        self._values = {**overlay, **{name: value for name, value in _DEFAULTS.items() if name not in overlay}}

    def set(self, name: str, value: float) -> None:
        with self._lock:
            self._set[name] = value

    def limit(self, name: str) -> float:
        with self._lock:
            if name in self._set:
                return self._set[name]
        return next(value for pattern, value in self._values.items() if fnmatch.fnmatchcase(name, pattern))

    def refusal(self, request: JsonObject, longest_seconds: int, in_use: Iterable[Usage]) -> str | None:
        """The text with which the request is refused; None when it fits.

        `longest_seconds` is the request's maximum runtime, `in_use` what jobs and warm pools hold now.
        """
        for claim in self._claims(usage_of(request), longest_seconds, list(in_use)):
            limit = self.limit(claim.name)
            if claim.in_use + claim.wanted > limit:
                return claim.refusal(limit)
        return None

    @staticmethod
    def of_type(wanted: Usage, in_use: Iterable[Usage]) -> Claim:
        """The claim on the quota of the instance type."""
        kind = "spot training job" if wanted.spot else "training job"
        same = sum(
            one.instances for one in in_use if one.spot == wanted.spot and one.instance_type == wanted.instance_type
        )
        return Claim(f"{wanted.instance_type} for {kind} usage", same, wanted.instances)

    def _claims(self, wanted: Usage, longest_seconds: int, in_use: list[Usage]) -> Iterator[Claim]:
        yield Claim(LONGEST_RUN, 0, longest_seconds, "Seconds")  # the unit's word is assumed
        job = "spot training job" if wanted.spot else "training job"
        yield Claim(f"Maximum number of instances per {job}", 0, wanted.instances)
        yield self.of_type(wanted, in_use)
        everything = sum(one.instances for one in in_use if one.spot == wanted.spot)
        yield Claim(f"Number of instances across all {job}s", everything, wanted.instances)
        if wanted.warm_pool:
            pooled = sum(one.instances for one in in_use if one.warm_pool and one.instance_type == wanted.instance_type)
            yield Claim(f"{wanted.instance_type} for training warm pool usage", pooled, wanted.instances)
