"""Carries decisions out: a table from action to executor, and SageMaker's answers in our words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.aws.errors import DENIALS, FAILED_READ, MISSING, THROTTLES, code_of, words_of
from holdfast.core.decide.creation import CreateAnswer, CreateResult
from holdfast.core.layout import control_key
from holdfast.core.reconcile import Action, RemoveEndRequest, SendCreate, SendEndRequest, SendStop
from holdfast_agent.contract import render_end_request

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sagemaker.client import SageMakerClient


class Actor:
    """Each executor may be repeated: a create by its job name, the others by their meaning."""

    def __init__(self, *, sagemaker: SageMakerClient, s3: S3Client, bucket: str) -> None:
        self._sagemaker = sagemaker
        self._s3 = s3
        self._bucket = bucket
        self._executors: Mapping[type[Action], Callable[[Any], CreateResult | None]] = {
            SendCreate: self._create,
            SendStop: self._stop,
            SendEndRequest: self._ask,
            RemoveEndRequest: self._withdraw,
        }

    def act(self, action: Action) -> CreateResult | None:
        """The answer to a create; None for the rest, whose botocore errors are raised: the next tick repeats them."""
        return self._executors[type(action)](action)

    def _create(self, action: SendCreate) -> CreateResult:
        try:
            self._sagemaker.create_training_job(**action.request)
        except FAILED_READ as error:
            return CreateResult(_answer(error), words_of(error))
        return CreateResult(CreateAnswer.CREATED)

    def _stop(self, action: SendStop) -> None:
        try:
            self._sagemaker.stop_training_job(TrainingJobName=action.job)
        except FAILED_READ as error:
            # A job that ended by itself in between is refused: "... because the training job is in status Stopped."
            if code_of(error) not in MISSING and "is in status" not in words_of(error):
                raise

    def _ask(self, action: SendEndRequest) -> None:
        self._s3.put_object(
            Bucket=self._bucket,
            Key=control_key(action.team, action.run),
            Body=render_end_request(action.request).encode(),
            ContentType="application/json",
        )

    def _withdraw(self, action: RemoveEndRequest) -> None:
        self._s3.delete_object(Bucket=self._bucket, Key=control_key(action.team, action.run))


def _answer(error: Exception) -> CreateAnswer:
    code, words = code_of(error), words_of(error)
    if code == "ResourceInUse":
        return CreateAnswer.NAME_TAKEN
    if code == "ResourceLimitExceeded":
        return CreateAnswer.QUOTA
    if code in DENIALS or "assume" in words.lower():
        # SageMaker answers ValidationException "Could not assume role ..." while a new role spreads through IAM.
        return CreateAnswer.DENIED
    if code in THROTTLES:
        return CreateAnswer.UNANSWERED
    if code in ("ValidationException", "ResourceNotFound", "ParamValidationError"):
        return CreateAnswer.REFUSED
    return CreateAnswer.UNANSWERED
