"""What all jobs of one emulator share."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandbox.cloud.context import CloudContext
from sandbox.cloud.quota_values import QuotaValues
from sandbox.sagemaker.addresses import Addresses
from sandbox.sagemaker.fault_plan import FaultPlan
from sandbox.sagemaker.profile import Profile
from sandbox.sagemaker.quotas import Quotas
from sandbox.sagemaker.warm_pools import WarmPools


@dataclass(frozen=True)
class Plant:
    context: CloudContext
    profile: Profile
    addresses: Addresses
    plan: FaultPlan
    pools: WarmPools
    quotas: Quotas = field(repr=False)

    @classmethod
    def new(cls, context: CloudContext, profile: Profile) -> Plant:
        addresses = Addresses()
        return cls(
            context, profile, addresses, FaultPlan(), WarmPools(addresses.release), Quotas(QuotaValues(profile.quotas))
        )
