"""What the world says of one run: the reads of a tick, cheapest first.

Every failed read becomes `Unknown` with its reason. Logs and host metrics are read only for a suspect, since the API's
rates are shared with everyone else in the account. Within a sweep, a job that did not change and its step come from
what the sweep read for all runs at once; whatever may end in a stop is read afresh, job and metrics, in this very tick.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.aws.errors import FAILED_READ, MISSING, code_of, unknown, words_of
from holdfast.aws.evidence import Evidence
from holdfast.aws.ledger import read_seals
from holdfast.aws.survey import Survey
from holdfast.core.detect.health import is_stale_on_the_face
from holdfast.core.layout import checkpoint_prefix, job_family
from holdfast.core.model import Attempt, JobState, Run
from holdfast.core.observation import Absent, Job, Observation, Progress, Seals, Unknown
from holdfast.core.sagemaker_words import job_state
from holdfast.core.sweep import Look, look_at

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

    def observe(self, run: Run, *, read_seals_too: bool = False, survey: Survey | None = None) -> Observation:
        """Without a survey everything is read for this run alone. Raises NotThisTickError where it is used up."""
        now = self._now()
        attempt = run.attempt
        if run.phase.terminal or (run.due_at is not None and now < run.due_at):
            return Observation(now)
        if attempt is None or attempt.ended_at is not None:
            return self._before_a_create(run, now)
        job = self._look(run, attempt, survey, now, revisit=read_seals_too)
        if not isinstance(job, Job) or not job.ours:
            return Observation(now, job=job)
        known = None if survey is None else survey.progress.get(attempt.job)
        if job.state.terminal:
            progress = known or self._evidence.progress(attempt, job.training_at or attempt.intended_at, now)
            tail = None if job.state is JobState.COMPLETED else self._evidence.tail(attempt.job, job.ended_at or now)
            return Observation(now, job=job, progress=progress, seals=self._seals(run), tail=tail)
        seals = self._seals(run) if read_seals_too else None
        training_at = attempt.training_at or job.training_at
        if job.state is not JobState.TRAINING or training_at is None:
            return Observation(now, job=job, seals=seals)
        progress = known or self._evidence.progress(attempt, training_at, now)
        seen = Observation(now, job=job, progress=progress, seals=seals)
        # What a person wants stopped is stopped: no evidence is read for it, and so none can be used up.
        wanted = run.manifest.state == "running"
        if wanted and is_stale_on_the_face(seen, run.manifest, training_at):
            return self._suspect(seen, run, attempt, training_at, survey)
        return seen

    def _before_a_create(self, run: Run, now: float) -> Observation:
        family = job_family(self._environment, run.team, run.name)
        jobs = self._family(family)
        if isinstance(jobs, Unknown):
            return Observation(now, live_jobs=jobs)
        live = tuple(name for name, status in jobs.items() if status in ("InProgress", "Stopping"))
        numbers = [int(found[1]) for name in jobs if (found := re.fullmatch(r"a(\d+)", name[len(family) :]))]
        return Observation(now, seals=self._seals(run), live_jobs=live, highest_number=max(numbers, default=None))

    def _look(
        self, run: Run, attempt: Attempt, survey: Survey | None, now: float, *, revisit: bool
    ) -> Job | Absent | Unknown:
        """`revisit`: the record is written after this look anyway, so it will remember that the job was described."""
        if survey is None:
            return self._job(run, attempt)
        look = look_at(run, attempt, survey.listed.get(attempt.job), now)
        if look is Look.DESCRIBE:
            survey.describe()
        elif look is Look.AS_BEFORE or not (revisit and survey.revisit()):
            seen = attempt.described
            assert seen is not None  # noqa: S101 - look_at says DESCRIBE otherwise
            return Job(attempt.job, seen.state, ours=True, training_at=attempt.training_at)
        return self._afresh(run, attempt, survey)

    def _afresh(self, run: Run, attempt: Attempt, survey: Survey) -> Job | Absent | Unknown:
        job = self._job(run, attempt)
        if isinstance(job, Unknown):
            survey.missed = True
            if job.throttled:
                survey.throttled()
        return job

    def _suspect(
        self, seen: Observation, run: Run, attempt: Attempt, training_at: float, survey: Survey | None
    ) -> Observation:
        """The same run with everything that a verdict of `hung` rests on, none of it older than this call."""
        job = seen.job
        if survey is not None:
            survey.suspect()
            if isinstance(job, Job) and job.modified_at is None:
                survey.describe()
                job = self._afresh(run, attempt, survey)
        if not isinstance(job, Job) or job.state is not JobState.TRAINING:
            return replace(seen, job=job)
        progress = seen.progress if survey is None else self._evidence.progress(attempt, training_at, seen.now)
        if not isinstance(progress, Progress):
            return replace(seen, job=job, progress=progress)
        since = max(progress.step_at or training_at, training_at)
        spoken = self._evidence.with_log(progress, attempt.job, since, seen.now)
        hosts = self._evidence.hosts(attempt.job, run.manifest.resources.instance_count, since, seen.now)
        return replace(seen, job=job, progress=spoken, hosts=hosts)

    def _job(self, run: Run, attempt: Attempt) -> Job | Absent | Unknown:
        try:
            answer = self._sagemaker.describe_training_job(TrainingJobName=attempt.job)
            ours = attempt.seen_at is not None or self._is_ours(answer["TrainingJobArn"], run, attempt)
        except FAILED_READ as error:
            missing = code_of(error) in MISSING or any(text in words_of(error) for text in _UNKNOWN_NAME)
            return Absent() if missing else unknown("DescribeTrainingJob", error)
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

    def _family(self, family: str) -> dict[str, str] | Unknown:
        """Status of every job that this run's name has or had, whoever asked for it."""
        try:
            # StatusEquals filters after the page is taken, so every page is read and judged here.
            pages = self._sagemaker.get_paginator("list_training_jobs").paginate(NameContains=family)
            return {
                one["TrainingJobName"]: one["TrainingJobStatus"]
                for page in pages
                for one in page["TrainingJobSummaries"]
                if one["TrainingJobName"].startswith(family)
            }
        except FAILED_READ as error:
            return unknown("ListTrainingJobs", error)

    def _seals(self, run: Run) -> Seals | Unknown:
        prefix = checkpoint_prefix(run.team, run.name, run.manifest.generation)
        try:
            return read_seals(self._s3, bucket=self._bucket, prefix=prefix, run=run.id)
        except FAILED_READ as error:
            return unknown("checkpoints", error)


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
        modified_at=(answer.get("LastModifiedTime") or answer["CreationTime"]).timestamp(),
    )
