"""What the world says of one run: the reads of a tick, cheapest first.

Every failed read becomes `Unknown` with its reason. Logs and host metrics are read only for a suspect, since the API's
rates are shared with everyone else in the account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.aws.errors import FAILED_READ, MISSING, code_of, words_of
from holdfast.aws.evidence import Evidence
from holdfast.aws.ledger import read_seals
from holdfast.core.detect.health import is_stale_on_the_face
from holdfast.core.layout import checkpoint_prefix, job_family
from holdfast.core.model import Attempt, JobState, Run
from holdfast.core.observation import Absent, Job, Observation, Progress, Seals, Unknown
from holdfast.core.sagemaker_words import job_state

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sagemaker.client import SageMakerClient

# SageMaker's answer for an unknown name is a ValidationException, told apart by its text alone; the second is moto's.
_UNKNOWN_NAME = ("Requested resource not found", "Could not find training job")


class Observer:
    """Reads SageMaker, CloudWatch and S3. `now` gives epoch seconds."""

    def __init__(
        self,
        *,
        sagemaker: SageMakerClient,
        s3: S3Client,
        evidence: Evidence,
        bucket: str,
        environment: str,
        now: Callable[[], float],
    ) -> None:
        self._sagemaker = sagemaker
        self._s3 = s3
        self._evidence = evidence
        self._bucket = bucket
        self._environment = environment
        self._now = now

    def observe(self, run: Run, *, read_seals_too: bool = False) -> Observation:
        now = self._now()
        attempt = run.attempt
        if run.phase.terminal or (run.due_at is not None and now < run.due_at):
            return Observation(now)
        if attempt is None or attempt.ended_at is not None:
            return Observation(now, seals=self._seals(run), live_jobs=self._live_jobs(run))
        job = self._job(run, attempt)
        if not isinstance(job, Job) or not job.ours:
            return Observation(now, job=job)
        if job.state.terminal:
            progress = self._evidence.progress(attempt, job.training_at or attempt.intended_at, now)
            tail = None if job.state is JobState.COMPLETED else self._evidence.tail(attempt.job, job.ended_at or now)
            return Observation(now, job=job, progress=progress, seals=self._seals(run), tail=tail)
        seals = self._seals(run) if read_seals_too else None
        training_at = attempt.training_at or job.training_at
        if job.state is not JobState.TRAINING or training_at is None:
            return Observation(now, job=job, seals=seals)
        progress = self._evidence.progress(attempt, training_at, now)
        seen = Observation(now, job=job, progress=progress, seals=seals)
        if isinstance(progress, Progress) and is_stale_on_the_face(seen, run.manifest, training_at):
            return self._suspect(seen, run, attempt, progress, training_at)
        return seen

    def _suspect(
        self, seen: Observation, run: Run, attempt: Attempt, progress: Progress, training_at: float
    ) -> Observation:
        since = max(progress.step_at or training_at, training_at)
        spoken = self._evidence.with_log(progress, attempt.job, since, seen.now)
        hosts = self._evidence.hosts(attempt.job, run.manifest.resources.instance_count, since, seen.now)
        return replace(seen, progress=spoken, hosts=hosts)

    def _job(self, run: Run, attempt: Attempt) -> Job | Absent | Unknown:
        try:
            answer = self._sagemaker.describe_training_job(TrainingJobName=attempt.job)
            ours = attempt.seen_at is not None or self._is_ours(answer["TrainingJobArn"], run, attempt)
        except FAILED_READ as error:
            missing = code_of(error) in MISSING or any(text in words_of(error) for text in _UNKNOWN_NAME)
            return Absent() if missing else Unknown(f"DescribeTrainingJob: {words_of(error)}")
        return _job_of(answer, ours)

    def _is_ours(self, arn: str, run: Run, attempt: Attempt) -> bool:
        """Whether the job's tags equal this very intent: a taken name alone may be last year's job."""
        tags = {
            tag["Key"]: tag["Value"]
            for page in self._sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn)
            for tag in page["Tags"]
        }
        wanted = {
            "holdfast:run": run.id,
            "holdfast:uid": run.uid,
            "holdfast:attempt": str(attempt.number),
            "holdfast:request": attempt.request_digest,
        }
        return all(tags.get(key) == value for key, value in wanted.items())

    def _live_jobs(self, run: Run) -> tuple[str, ...] | Unknown:
        family = job_family(self._environment, run.team, run.name)
        try:
            # StatusEquals filters after the page is taken, so every page is read and judged here.
            pages = self._sagemaker.get_paginator("list_training_jobs").paginate(NameContains=family)
            return tuple(
                one["TrainingJobName"]
                for page in pages
                for one in page["TrainingJobSummaries"]
                if one["TrainingJobName"].startswith(family) and one["TrainingJobStatus"] in ("InProgress", "Stopping")
            )
        except FAILED_READ as error:
            return Unknown(f"ListTrainingJobs: {words_of(error)}")

    def _seals(self, run: Run) -> Seals | Unknown:
        prefix = checkpoint_prefix(run.team, run.name, run.manifest.generation)
        try:
            return read_seals(self._s3, bucket=self._bucket, prefix=prefix, run=run.id)
        except FAILED_READ as error:
            return Unknown(f"checkpoints: {words_of(error)}")


def _job_of(answer: Mapping[str, Any], ours: bool) -> Job:
    training = answer.get("TrainingStartTime")
    # TrainingStartTime is set at the start of training; the transition is the same moment and is there earlier.
    began = next(
        (one["StartTime"] for one in answer.get("SecondaryStatusTransitions", []) if one["Status"] == "Training"),
        training,
    )
    ended = answer.get("TrainingEndTime") or answer.get("LastModifiedTime")
    state = job_state(answer["TrainingJobStatus"], answer.get("SecondaryStatus", ""))
    return Job(
        name=answer["TrainingJobName"],
        state=state,
        ours=ours,
        failure_reason=answer.get("FailureReason", ""),
        training_at=began.timestamp() if began else None,
        ended_at=ended.timestamp() if ended and state.terminal else None,
    )
