"""Builders of what people and the deployment bring: each with sound defaults, each default replaceable."""

from __future__ import annotations

from typing import Any

from holdfast.core.deployment import Deployment, JobTemplate, PublishedTemplate
from holdfast.core.manifest import Limits, Manifest, Resources, Watch
from holdfast.core.model import Pins, Run, spec_hash

REGISTERED_AT = 999_000.0
BUCKET = "holdfast-test-123456789012-us-east-1"
REPOSITORY = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training"


def a_template(name: str = "tiny_gpt", **fields: Any) -> PublishedTemplate:
    template = JobTemplate(name=name, description="A template.", entry_point="train.py", **fields)
    return PublishedTemplate(template=template, code_sha256="cd" * 32)


def a_deployment(**fields: Any) -> Deployment:
    """Teams research and vision in one small account."""
    sound: dict[str, Any] = {
        "environment": "test",
        "account": "123456789012",
        "region": "us-east-1",
        "partition": "aws",
        "bucket": BUCKET,
        "job_roles": {
            team: f"arn:aws:iam::123456789012:role/holdfast-test-us-east-1-{team}" for team in ("research", "vision")
        },
        "images": {"pytorch-cpu": f"{REPOSITORY}:2.8.0-cpu-py312-ubuntu22.04-sagemaker"},
        "repositories": (REPOSITORY,),
        "instance_types": ("ml.m5.xlarge", "ml.g5.12xlarge", "ml.p5.48xlarge"),
        "max_instances_per_run": 4,
        "network": None,
        "volume_kms_key_arn": None,
        "output_kms_key_arn": None,
        "tags": {},
        "templates": {"tiny_gpt": a_template()},
    }
    return Deployment(**{**sound, **fields})


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
