"""The account's service quotas of training, and what of them is in use: CreateTrainingJob is refused beyond them.

Names are those of Service Quotas. The values are those that the sandbox's Service Quotas answers with
(`sandbox/cloud/quota_values.py`): a quota that is raised there holds here. A profile overlays them, a fault sets one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sandbox.cloud.quota_values import QuotaValues

JsonObject = dict[str, Any]

LONGEST_RUN = "Longest run time for a training job"


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
    """Measures requests by `values`, which Service Quotas and the faults may change meanwhile."""

    def __init__(self, values: QuotaValues) -> None:
        self.values = values

    def refusal(self, request: JsonObject, longest_seconds: int, in_use: Iterable[Usage]) -> str | None:
        """The text with which the request is refused; None when it fits.

        `longest_seconds` is the request's maximum runtime, `in_use` what jobs and warm pools hold now.
        """
        for claim in self._claims(usage_of(request), longest_seconds, list(in_use)):
            limit = self.values.limit(claim.name)
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
