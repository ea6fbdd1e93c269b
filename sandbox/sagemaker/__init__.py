"""The SageMaker training plane of the embedded cloud: the training API, and jobs that run as real processes.

A plane in the sense of `sandbox.cloud.context`: `install(context)` plugs it into the emulator. It is light on purpose:
the shim of every host imports this package too, in an interpreter without site-packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox.cloud.context import CloudContext


def install(context: CloudContext) -> None:
    """Serve the training API with the `FAST` profile. `api.install` takes another one."""
    from sandbox.sagemaker import api, profile  # noqa: PLC0415 - boto3 is not for the shims

    api.install(context, profile.FAST)
