"""The checkpoint ledger: which checkpoints of a lineage in S3 are sealed and whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.observation import Seals
from holdfast_agent.contract import SEAL_NAME, ContractError, parse_seal, step_of_folder

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

SEAL_LIMIT_BYTES = 16 * 1024 * 1024
CANDIDATES = 10


def read_seals(s3: S3Client, *, bucket: str, prefix: str, run: str) -> Seals:
    """The newest whole checkpoint below `prefix`, which ends in a slash.

    Whole means: its seal is valid and names this run, its loss was finite, and every file that it lists is there, as
    big as it says. SageMaker's sync promises no order, so a seal may arrive before the files that it speaks of.
    Checksums are the agent's business before it loads; here they would cost the whole download. Raises botocore's
    errors.
    """
    sizes: dict[str, int] = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", []):
            sizes[entry["Key"][len(prefix) :]] = entry["Size"]
    skipped: list[str] = []
    steps = sorted(
        (
            step
            for folder, _, _ in (key.partition("/") for key in sizes)
            if (step := step_of_folder(folder)) is not None
        ),
        reverse=True,
    )
    for step in list(dict.fromkeys(steps))[:CANDIDATES]:
        folder = next(key.partition("/")[0] for key in sizes if step_of_folder(key.partition("/")[0]) == step)
        why = _why_not_whole(s3, bucket, prefix, folder, sizes, run, step)
        if why is None:
            return Seals(newest_step=step, skipped=tuple(skipped))
        skipped.append(f"{folder}: {why}")
    return Seals(newest_step=None, skipped=tuple(skipped))


def _why_not_whole(
    s3: S3Client, bucket: str, prefix: str, folder: str, sizes: dict[str, int], run: str, step: int
) -> str | None:
    size = sizes.get(f"{folder}/{SEAL_NAME}")
    if size is None:
        return "it has no seal"
    if size > SEAL_LIMIT_BYTES:
        return f"its seal has {size} bytes"
    body = s3.get_object(Bucket=bucket, Key=f"{prefix}{folder}/{SEAL_NAME}")["Body"].read()
    try:
        seal = parse_seal(body.decode("utf-8", "replace"))
    except ContractError as error:
        return str(error)
    if seal.run != run or seal.step != step:
        return f"its seal is of {seal.run} step {seal.step}"
    if not seal.loss_finite:
        return "its loss was not finite"
    for file in seal.files:
        found = sizes.get(f"{folder}/{file.path}")
        if found != file.bytes:
            return f"{file.path} has {found if found is not None else 'no'} bytes, the seal says {file.bytes}"
    return None
