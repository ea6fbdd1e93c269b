"""The checkpoint ledger: which checkpoints of a lineage in S3 are sealed and whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.observation import Seals
from holdfast_agent.contract import SEAL_NAME, ContractError, parse_seal, step_of_folder

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

SEAL_LIMIT_BYTES = 16 * 1024 * 1024
CANDIDATES = 10
PAGES_A_CHECKPOINT = 100  # of 1,000 objects: a sharded checkpoint of thousands of ranks, and no more


def read_seals(s3: S3Client, *, bucket: str, prefix: str, run: str) -> Seals:
    """The newest whole checkpoint below `prefix`, which ends in a slash.

    Whole means: its seal is valid and names this run, its loss was finite, and every file that it lists is there, as
    big as it says. SageMaker's sync promises no order, so a seal may arrive before the files that it speaks of.
    Checksums are the agent's business before it loads; here they would cost the whole download. Raises botocore's
    errors.
    """
    # By folder, newest first: a prefix may hold millions of small files, and a tick has 45 seconds for all runs.
    folders: list[tuple[int, str]] = []
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}step-", Delimiter="/"):
        for entry in page.get("CommonPrefixes", []):
            folder = entry["Prefix"][len(prefix) : -1]
            step = step_of_folder(folder)
            if step is not None:
                folders.append((step, folder))
    skipped: list[str] = []
    for step, folder in sorted(folders, reverse=True)[:CANDIDATES]:
        why = _why_not_whole(s3, bucket, f"{prefix}{folder}/", run, step)
        if why is None:
            return Seals(newest_step=step, skipped=tuple(skipped))
        skipped.append(f"{folder}: {why}")
    return Seals(newest_step=None, skipped=tuple(skipped))


def _sizes(s3: S3Client, bucket: str, folder: str) -> dict[str, int]:
    found: dict[str, int] = {}
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=folder)
    for number, page in enumerate(pages):
        for entry in page.get("Contents", []):
            found[entry["Key"][len(folder) :]] = entry["Size"]
        if number + 1 >= PAGES_A_CHECKPOINT:
            break
    return found


def _why_not_whole(s3: S3Client, bucket: str, folder: str, run: str, step: int) -> str | None:
    """`folder` is the checkpoint's key prefix with its slash."""
    sizes = _sizes(s3, bucket, folder)
    size = sizes.get(SEAL_NAME)
    if size is None:
        return "it has no seal"
    if size > SEAL_LIMIT_BYTES:
        return f"its seal has {size} bytes"
    body = s3.get_object(Bucket=bucket, Key=f"{folder}{SEAL_NAME}")["Body"].read()
    try:
        seal = parse_seal(body.decode("utf-8", "replace"))
    except ContractError as error:
        return str(error)
    if seal.run != run or seal.step != step:
        return f"its seal is of {seal.run} step {seal.step}"
    if not seal.loss_finite:
        return "its loss was not finite"
    for file in seal.files:
        found = sizes.get(file.path)
        if found != file.bytes:
            return f"{file.path} has {found if found is not None else 'no'} bytes, the seal says {file.bytes}"
    return None
