"""What the name of a SageMaker instance type tells."""

from __future__ import annotations

import re

# Families whose local NVMe the name does not show with a `d` (EC2 instance store documentation).
_LOCAL_STORAGE = frozenset(
    {
        *("g5", "g6", "g6e", "gr6", "g7", "g7e"),
        *("p5", "p5e", "p5en", "p6-b200", "p6-b300", "p6e-gb200"),
        *("trn1", "trn1n", "trn2"),
    }
)


def family(instance_type: str) -> str:
    """`p4d` of `ml.p4d.24xlarge`."""
    return instance_type.removeprefix("ml.").partition(".")[0]


def has_local_storage(instance_type: str) -> bool:
    """Whether training storage is the host's own NVMe.

    SageMaker then refuses VolumeKmsKeyId and does not look at VolumeSizeInGB (botocore, ResourceConfig). EC2 writes a
    `d` behind the generation where a type has an instance store: m5d, p4d, p4de, p3dn, g4dn.
    """
    name = family(instance_type)
    attributes = re.match(r"[a-z]+[0-9]+([a-z]*)", name)
    return name in _LOCAL_STORAGE or (attributes is not None and "d" in attributes[1])


def is_accelerated(instance_type: str) -> bool:
    """ml.p, ml.g and ml.trn: MaxPendingTimeInSeconds has an effect for these only (botocore, StoppingCondition)."""
    return re.match(r"(p|g|trn)[0-9]", family(instance_type)) is not None
