"""What Service Quotas calls the quotas of SageMaker training, and their codes as far as they are public.

A quota is told by its name here: names are what AWS's refusals speak of, and a code that changed, or that no public
list has, is looked up by it. The codes and where they were read are in `sagemaker_quotas.json`.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

SERVICE = "sagemaker"

LONGEST_RUN = "Longest run time for a training job"
INSTANCES_PER_JOB = "Maximum number of instances per training job"
SPOT_INSTANCES_PER_JOB = "Maximum number of instances per spot training job"
INSTANCES_ACROSS_ALL_JOBS = "Number of instances across all training jobs"
SPOT_INSTANCES_ACROSS_ALL_JOBS = "Number of instances across all spot training jobs"
PROCESSING_ACROSS_ALL_JOBS = "Number of instances across all processing jobs"

ACCOUNT_WIDE = (
    LONGEST_RUN,
    INSTANCES_PER_JOB,
    SPOT_INSTANCES_PER_JOB,
    INSTANCES_ACROSS_ALL_JOBS,
    SPOT_INSTANCES_ACROSS_ALL_JOBS,
)
"""Quotas of no instance type that a training job is measured by."""

_ON_DEMAND = " for training job usage"


def on_demand(instance_type: str) -> str:
    return instance_type + _ON_DEMAND


def spot(instance_type: str) -> str:
    return f"{instance_type} for spot training job usage"


def warm_pool(instance_type: str) -> str:
    return f"{instance_type} for training warm pool usage"


def processing(instance_type: str) -> str:
    return f"{instance_type} for processing job usage"


def code_of(name: str) -> str | None:
    """The public code; None where no list has one. Codes can change, so a reader checks the name that it gets."""
    return _CODES.get(name)


def known_names() -> tuple[str, ...]:
    return tuple(_CODES)


def known_types() -> frozenset[str]:
    """Instance types that have a quota for training in the public lists. AWS may have newer ones."""
    return frozenset(
        name.removesuffix(_ON_DEMAND) for name in _CODES if name.endswith(_ON_DEMAND) and name[:3] == "ml."
    )


def _read() -> dict[str, str]:
    document: dict[str, Any] = json.loads((resources.files(__package__) / "sagemaker_quotas.json").read_text("utf-8"))
    return dict(document["codes"])


_CODES = _read()
