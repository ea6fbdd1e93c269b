"""Builders of what people and the deployment bring: each with sound defaults, each default replaceable."""

from __future__ import annotations

from typing import Any

from holdfast.core.manifest import Limits, Manifest, Resources, Watch
from holdfast.core.model import Pins, Run, spec_hash

REGISTERED_AT = 999_000.0


def a_manifest(
    *,
    watch: Watch | None = None,
    limits: Limits | None = None,
    instance_count: int = 1,
    instance_type: str = "ml.m5.xlarge",
    **fields: Any,
) -> Manifest:
    return Manifest(
        apiVersion="holdfast/v1",
        kind="TrainingRun",
        template=fields.pop("template", "tiny_gpt"),
        image=fields.pop("image", "pytorch-cpu"),
        resources=Resources(instance_type=instance_type, instance_count=instance_count),
        watch=watch or Watch(),
        limits=limits or Limits(),
        **fields,
    )


def some_pins() -> Pins:
    return Pins(
        bundle="sha256-" + "ab" * 32,
        image_uri="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8.0-cpu-py312-ubuntu22.04-sagemaker",
        code_prefix="templates/sha256-" + "ab" * 32 + "/code/tiny_gpt/",
        code_sha256="cd" * 32,
        entry_point="train.py",
    )


def a_run(*, team: str = "research", name: str = "tiny", manifest: Manifest | None = None, **fields: Any) -> Run:
    spec = manifest or a_manifest()
    return Run(
        team=team,
        name=name,
        uid=fields.pop("uid", f"uid-of-{team}-{name}"),
        manifest=spec,
        spec_hash=spec_hash(spec),
        pins=fields.pop("pins", some_pins()),
        registered_at=REGISTERED_AT,
        **fields,
    )
