"""An account whose requests for quotas AWS has granted already: what the config wants is what it has.

The embedded cloud starts like a new account, with AWS's public defaults: four instances for all training jobs together.
"""

from __future__ import annotations

from holdfast.core.config import AccountConfig
from holdfast.core.quotas.wishes import wanted_quotas
from sandbox.cloud.lifecycle import Cloud
from sandbox.sagemaker.client import FaultClient


def grant_wanted_quotas(cloud: Cloud, config: AccountConfig) -> None:
    """Before a deployment, which then finds nothing to ask for. Raises FaultError."""
    keys = cloud.client_arguments()
    faults = FaultClient(
        cloud.endpoint_url,
        region=cloud.region,
        access_key_id=keys["aws_access_key_id"],
        secret_access_key=keys["aws_secret_access_key"],
    )
    for one in wanted_quotas(config.quota_needs):
        faults.set_quota(one.name, one.value)
