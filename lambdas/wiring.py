"""Puts the parts together from a function's settings. Runs once a cold start; the only place that makes clients."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import boto3
from aws_lambda_powertools.utilities import parameters
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config
from botocore.exceptions import ClientError

from holdfast.aws.act import Actor
from holdfast.aws.artifacts import Artifacts
from holdfast.aws.evidence import Evidence
from holdfast.aws.intake import Intake
from holdfast.aws.listing import Lister
from holdfast.aws.lost_manifests import LostManifests
from holdfast.aws.observe import Observer
from holdfast.aws.publisher import Publisher
from holdfast.aws.quota_item import DynamoQuotaItem
from holdfast.aws.quota_keeper import Kept, QuotaKeeper
from holdfast.aws.quota_view import QuotaView
from holdfast.aws.reconciler import Reconciler
from holdfast.aws.service_quotas import OutOfTimeError, ServiceQuotas
from holdfast.aws.settings import IntakeSettings, QuotasSettings, ReconcileSettings
from holdfast.aws.store import DynamoStore
from holdfast.aws.survey import Surveyor
from holdfast.aws.sweep import Sweep, Swept
from holdfast.aws.sweep_item import DynamoSweepItem
from holdfast.aws.tokens import DynamoTokens
from holdfast.core.model import Run
from holdfast.core.quotas.wishes import QuotaNeeds
from holdfast.core.reconcile import Intent
from holdfast.core.request import build_request, request_digest

# A call that hangs must not eat the tick: the next one looks again in a minute.
CLIENTS = Config(connect_timeout=3, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 3})
METRIC_PERIODS = (10, 30, 60)
BUNDLE_KEPT_SECONDS = 60
# One call to Service Quotas with its retries takes 40 s at most; what is left over is for the record and the status.
QUOTAS_LAST_MILLISECONDS = 75_000


@dataclass(frozen=True)
class IntakePart:
    intake: Intake
    publisher: Publisher


@dataclass(frozen=True)
class ReconcilePart:
    reconciler: Reconciler
    sweep: Sweep
    publisher: Publisher

    def changed(self, detail: Mapping[str, Any]) -> Swept:
        """SageMaker's event names a job, and by our tag the run whose record then decides."""
        run = (detail.get("Tags") or {}).get("holdfast:run", "")
        return Swept(tuple(self.reconciler.for_job(detail.get("TrainingJobName", ""), run=run)), words="a job changed")


def intake_of(settings: IntakeSettings) -> IntakePart:
    session = boto3.Session()
    s3 = session.client("s3", config=CLIENTS)
    dynamodb = session.client("dynamodb", config=CLIENTS)
    publisher = _publisher(session, settings)
    provider = parameters.SSMProvider(boto3_client=session.client("ssm", config=CLIENTS))
    intake = Intake(
        s3=s3,
        bucket=settings.bucket,
        store=DynamoStore(dynamodb, settings.table),
        artifacts=Artifacts(s3=s3, bucket=settings.bucket),
        publisher=publisher,
        bundle=lambda: _parameter(provider, settings.bundle_parameter),
        mint_uid=lambda: uuid.uuid4().hex,
        now=time.time,
    )
    return IntakePart(intake, publisher)


def _parameter(provider: parameters.SSMProvider, name: str) -> str:
    """Raises botocore's errors, as every other call does: Powertools hides them behind one of its own."""
    try:
        return str(provider.get(name, max_age=BUNDLE_KEPT_SECONDS))
    except GetParameterError as error:
        if isinstance(error.__context__, ClientError):
            raise error.__context__ from None
        raise


def reconciler_of(settings: ReconcileSettings) -> ReconcilePart:
    session = boto3.Session()
    s3 = session.client("s3", config=CLIENTS)
    sagemaker = session.client("sagemaker", config=CLIENTS)
    dynamodb = session.client("dynamodb", config=CLIENTS)
    publisher = _publisher(session, settings)
    evidence = Evidence(
        cloudwatch=session.client("cloudwatch", config=CLIENTS),
        logs=session.client("logs", config=CLIENTS),
        # CloudWatch takes 10, 30 and multiples of 60; SageMaker's own metrics come once a minute.
        period_seconds=max(period for period in METRIC_PERIODS if period <= max(settings.poll_seconds, 10)),
    )
    store = DynamoStore(dynamodb, settings.table)
    tokens = DynamoTokens(dynamodb, settings.table, now=time.time)
    observer = Observer(
        sagemaker=sagemaker,
        s3=s3,
        evidence=evidence,
        bucket=settings.bucket,
        environment=settings.environment,
        now=time.time,
    )
    reconciler = Reconciler(
        store=store,
        observer=observer,
        actor=Actor(sagemaker=sagemaker, s3=s3, bucket=settings.bucket),
        publisher=publisher,
        tokens=tokens,
        quotas=QuotaView(item=DynamoQuotaItem(dynamodb, settings.table), store=store),
        intend=Compiler(Artifacts(s3=s3, bucket=settings.bucket)).intend,
        now=time.time,
        poll_seconds=settings.poll_seconds,
        status_refresh_seconds=settings.status_refresh_seconds,
    )
    sweep = Sweep(
        item=DynamoSweepItem(dynamodb, settings.table, now=time.time),
        store=store,
        reconciler=reconciler,
        lister=Lister(sagemaker=sagemaker, environment=settings.environment, now=time.time, sleep=time.sleep),
        surveyor=Surveyor(evidence=evidence, status_refresh_seconds=settings.status_refresh_seconds),
        lost_manifests=LostManifests(
            s3=s3,
            lambda_=session.client("lambda", config=CLIENTS),
            store=store,
            bucket=settings.bucket,
            intake_function=settings.intake_function,
            now=time.time,
        ),
        publisher=publisher,
        tokens=tokens,
        holder=lambda: uuid.uuid4().hex,
        now=time.time,
        sleep=time.sleep,
    )
    return ReconcilePart(reconciler, sweep, publisher)


def keep_quotas(event: Mapping[str, Any], context: LambdaContext, env: Mapping[str, str]) -> Kept:
    """One look at the account's quotas. Raises nothing: CloudFormation has its answer, and a deployment must go on."""
    if event.get("RequestType") == "Delete":
        return Kept()
    try:
        needs = event["ResourceProperties"]["Needs"] if "ResponseURL" in event else event["needs"]
        keeper = _quota_keeper(QuotasSettings.from_env(env), context)
        return keeper.keep(QuotaNeeds.model_validate_json(needs))
    except Exception as error:  # noqa: BLE001 - a setting or a property is missing: told by log, metric and alarm
        return Kept(problems=1, error=f"{type(error).__name__}: {error}"[:500])


def _quota_keeper(settings: QuotasSettings, context: LambdaContext) -> QuotaKeeper:
    session = boto3.Session()
    dynamodb = session.client("dynamodb", config=CLIENTS)

    def in_time() -> None:
        if context.get_remaining_time_in_millis() < QUOTAS_LAST_MILLISECONDS:
            raise OutOfTimeError("the function's time ran out; the next run goes on")

    publisher = _publisher(session, settings)
    publisher.idempotency.register_lambda_context(context)
    return QuotaKeeper(
        quotas=ServiceQuotas(session.client("service-quotas", config=CLIENTS), in_time=in_time),
        item=DynamoQuotaItem(dynamodb, settings.table),
        store=DynamoStore(dynamodb, settings.table),
        publisher=publisher,
        teams=settings.teams.split(","),
        now=time.time,
    )


def _publisher(session: boto3.Session, settings: IntakeSettings | ReconcileSettings | QuotasSettings) -> Publisher:
    return Publisher(
        s3=session.client("s3", config=CLIENTS),
        sns=session.client("sns", config=CLIENTS),
        dynamodb=session.client("dynamodb", config=CLIENTS),
        bucket=settings.bucket,
        topic_arn=settings.topic_arn,
        table=settings.table,
    )


class Compiler:
    """Compiles the request of an attempt from the run's own pins, so that an upgrade changes no running lineage."""

    def __init__(self, artifacts: Artifacts) -> None:
        self._artifacts = artifacts

    def intend(self, run: Run, number: int) -> Intent:
        request = build_request(
            deployment=self._artifacts.deployment(run.pins.bundle),
            team=run.team,
            run=run.name,
            uid=run.uid,
            manifest=run.manifest,
            pins=run.pins,
            attempt_number=number,
            spec_hash=run.spec_hash,
        )
        return Intent(request["TrainingJobName"], request, request_digest(request))
