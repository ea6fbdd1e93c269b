"""The training plane with telemetry as late as in AWS: give `sandbox.sagemaker.lagged` as the plane instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox.cloud.context import CloudContext


def install(context: CloudContext) -> None:
    from sandbox.sagemaker import api, profile  # noqa: PLC0415 - as in the package itself

    api.install(context, profile.LAGGED)
