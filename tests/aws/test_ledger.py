from typing import Any

import pytest

from holdfast.aws.ledger import read_seals
from holdfast_agent.contract import Seal, SealedFile, render_seal, step_folder
from tests.aws.conftest import BUCKET, Aws

PREFIX = "checkpoints/research/tiny/g001/"
RUN = "research/tiny"


def put_checkpoint(aws: Aws, step: int, *, body: bytes = b"weights", sealed: bool = True, **fields: Any) -> None:
    folder = PREFIX + step_folder(step)
    aws.s3.put_object(Bucket=BUCKET, Key=f"{folder}/state.pt", Body=body)
    if sealed:
        values: dict[str, Any] = {
            "run": RUN,
            "uid": "u",
            "attempt": 1,
            "incarnation": 1,
            "step": step,
            "world_size": 2,
            "files": (SealedFile("state.pt", len(b"weights"), "0" * 64),),
            "loss_finite": True,
            "sealed_at": 1.0,
        }
        text = render_seal(Seal(**{**values, **fields}))
        aws.s3.put_object(Bucket=BUCKET, Key=f"{folder}/seal.json", Body=text.encode())


def newest(aws: Aws) -> int | None:
    return read_seals(aws.s3, bucket=BUCKET, prefix=PREFIX, run=RUN).newest_step


def test_the_newest_sealed_checkpoint_is_found(aws: Aws) -> None:
    put_checkpoint(aws, 40)
    put_checkpoint(aws, 80)
    assert newest(aws) == 80


def test_no_checkpoint_at_all_is_none(aws: Aws) -> None:
    assert newest(aws) is None


def test_a_checkpoint_without_a_seal_is_passed_over_and_said(aws: Aws) -> None:
    put_checkpoint(aws, 40)
    put_checkpoint(aws, 80, sealed=False)
    found = read_seals(aws.s3, bucket=BUCKET, prefix=PREFIX, run=RUN)
    assert found.newest_step == 40
    assert found.skipped == ("step-0000000080: it has no seal",)


@pytest.mark.parametrize(
    "damage",
    [
        {"body": b"torn"},
        {"run": "research/other"},
        {"step": 81},
        {"loss_finite": False},
        {"files": (SealedFile("state.pt", 7, "0" * 64), SealedFile("gone.pt", 7, "0" * 64))},
    ],
    ids=[
        "a file of another size",
        "another run's seal",
        "another step's seal",
        "a loss that was not finite",
        "a file missing",
    ],
)
def test_a_seal_that_does_not_hold_is_passed_over_for_the_one_before(aws: Aws, damage: dict[str, Any]) -> None:
    put_checkpoint(aws, 40)
    put_checkpoint(aws, 80)
    assert newest(aws) == 80
    if "step" in damage:
        damage = {**damage}
        folder = PREFIX + step_folder(80)
        put_checkpoint(aws, damage.pop("step"))
        wrong = aws.s3.get_object(Bucket=BUCKET, Key=f"{PREFIX}{step_folder(81)}/seal.json")["Body"].read()
        aws.s3.put_object(Bucket=BUCKET, Key=f"{folder}/seal.json", Body=wrong)
        aws.s3.delete_object(Bucket=BUCKET, Key=f"{PREFIX}{step_folder(81)}/seal.json")
    else:
        put_checkpoint(aws, 80, **damage)
    assert newest(aws) == 40


def test_a_seal_that_is_not_json_is_passed_over(aws: Aws) -> None:
    put_checkpoint(aws, 40)
    put_checkpoint(aws, 80)
    aws.s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}{step_folder(80)}/seal.json", Body=b"\xff{")
    assert newest(aws) == 40


def test_another_runs_prefix_is_not_read(aws: Aws) -> None:
    aws.s3.put_object(Bucket=BUCKET, Key="checkpoints/research/tiny/g0010/step-0000000090/seal.json", Body=b"{}")
    assert newest(aws) is None
