"""A whole control plane over AWS in memory: the real core, observer, actor, lists and sweep; people are faked."""

from __future__ import annotations

from typing import Any

from holdfast.aws.act import Actor
from holdfast.aws.evidence import Evidence
from holdfast.aws.listing import Lister
from holdfast.aws.observe import Observer
from holdfast.aws.quota_view import QuotaView
from holdfast.aws.reconciler import Reconciler
from holdfast.aws.survey import Surveyor
from holdfast.aws.sweep import Sweep, Swept
from holdfast.core.manifest import Manifest
from holdfast.core.model import Run, spec_hash
from holdfast.core.reconcile import Intent
from holdfast.core.registration import register
from holdfast.core.request import build_request, request_digest
from tests.builders import BUCKET, a_deployment, a_run, some_pins
from tests.fakes import FakeAccount, FakeQuotaItem, FakeStore, FakeSweepItem, FakeTokens, Ids, PacedTokens
from tests.memory_aws import MemoryAws
from tests.observations import NOW


class World:
    """One environment. Several may share one account, given as `aws`."""

    def __init__(self, *runs: Run, environment: str = "dev", aws: MemoryAws | None = None, paced: bool = False) -> None:
        self.people = FakeAccount(NOW)  # the clock, and who is told
        self.aws = aws or MemoryAws(self.people.clock)
        self.store = FakeStore(*runs)
        self.deployment = a_deployment(
            environment=environment, job_roles={run.team: "arn:aws:iam::123456789012:role/holdfast" for run in runs}
        )
        self.item = FakeSweepItem(self.people.clock)
        self.tokens = FakeTokens()
        self.ids = Ids()
        tokens = PacedTokens(self.people.clock) if paced else self.tokens
        sagemaker, s3 = self.aws.client("sagemaker"), self.aws.client("s3")
        evidence = Evidence(cloudwatch=self.aws.client("cloudwatch"), logs=self.aws.client("logs"), period_seconds=60)
        self.reconciler = Reconciler(
            store=self.store,
            observer=Observer(
                sagemaker=sagemaker,
                s3=s3,
                evidence=evidence,
                bucket=BUCKET,
                environment=environment,
                now=self.people.clock,
            ),
            actor=Actor(sagemaker=sagemaker, s3=s3, bucket=BUCKET),
            publisher=self.people,
            tokens=tokens,
            quotas=QuotaView(item=FakeQuotaItem(), store=self.store),
            intend=self.intend,
            now=self.people.clock,
            poll_seconds=60,
            status_refresh_seconds=600,
        )
        self.sweep = Sweep(
            item=self.item,
            store=self.store,
            reconciler=self.reconciler,
            lister=Lister(sagemaker=sagemaker, environment=environment, now=self.people.clock, sleep=self.people.sleep),
            surveyor=Surveyor(evidence=evidence, status_refresh_seconds=600),
            lost_manifests=self.people,
            publisher=self.people,
            tokens=tokens,
            holder=self.ids,
            now=self.people.clock,
            sleep=self.people.sleep,
        )

    def intend(self, run: Run, number: int) -> Intent:
        request = build_request(
            deployment=self.deployment,
            team=run.team,
            run=run.name,
            uid=run.uid,
            manifest=run.manifest,
            pins=run.pins,
            attempt_number=number,
            spec_hash=run.spec_hash,
        )
        return Intent(request["TrainingJobName"], request, request_digest(request))

    def tick(self, times: int = 1, *, seconds: float = 60.0) -> Swept:
        swept = Swept()
        for _ in range(times):
            self.people.now += seconds
            swept = self.sweep.run()
        return swept

    def run(self, team: str = "research", name: str = "tiny") -> Run:
        run = self.store.get(team, name)
        assert run is not None
        return run

    def job(self, team: str = "research", name: str = "tiny") -> str:
        attempt = self.run(team, name).attempt
        assert attempt is not None
        return attempt.job

    def drop(self, manifest: Manifest, *, uid: str = "another") -> None:
        """What intake does with a manifest of research/tiny."""
        before = self.store.get("research", "tiny")
        after = register(
            before,
            manifest,
            team="research",
            name="tiny",
            pins=some_pins(),
            spec_hash=spec_hash(manifest),
            uid=uid,
            now=self.people.now,
        )
        assert after.run is not None
        self.store.save(after.run)

    def step(self, value: float, **name: Any) -> None:
        """The job's script says its step now."""
        self.aws.jobs[self.job(**name)].steps.append((self.people.now, value))


def a_world(**fields: Any) -> World:
    return World(a_run(**fields))
