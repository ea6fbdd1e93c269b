"""The trials that are one job each, or two: requests that Holdfast itself would not send."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.aws.acceptance.bench import Bench
from holdfast.aws.acceptance.watch import Watched, Watching, run_job, watch_job
from holdfast.aws.errors import FAILED_READ, words_of
from holdfast.core.acceptance.seen import Answer, JobSeen, Missing, MutedSeen, PoolSeen

Release = Callable[[], None]
_LOG_STATEMENTS = ("LogGroup", "LogLines")
_METRIC_STATEMENTS = ("Metrics",)


def talk(bench: Bench, release: Release) -> JobSeen | Missing:
    request = bench.request("talk", ["talk", f"{bench.pace.talk_seconds:.0f}"])
    # Should SageMaker fail it by an internal error of its own, the retry shows what no one can ask for.
    request["RetryStrategy"] = {"MaximumRetryAttempts": 1}
    return run_job(bench, request, Watching(on_end=release, listing=True, metrics=True))


def linger(bench: Bench, release: Release) -> JobSeen | Missing:
    def stop_it(seen: Watched) -> None:
        begun = next((one.said_at for one in seen.lines.values() if one.event == "begin"), None)
        if seen.stopped_at is None and begun is not None and bench.now() > begun + bench.pace.linger_seconds:
            answer = bench.stop(seen.name)
            seen.stopped_at = answer.at if answer.ok else None

    return run_job(bench, bench.request("linger", ["linger"]), Watching(meanwhile=stop_it, on_end=release))


def peers(bench: Bench, release: Release) -> JobSeen | Missing:
    return run_job(bench, bench.request("peers", ["peers"], hosts=2), Watching(on_end=release))


# ---------------------------------------------------------------------------------------------------------------------
# Roles that lack a permission


def muted(bench: Bench, _release: Release) -> MutedSeen | Missing:
    answers: list[Answer] = []
    try:
        without_logs, usable = _job_of_new_role(bench, "nologs", _LOG_STATEMENTS, answers)
        without_metrics, _ = _job_of_new_role(bench, "nometrics", _METRIC_STATEMENTS, answers)
    except FAILED_READ as error:
        return Missing(f"a role could not be made: {words_of(error)}")
    return MutedSeen(without_logs, without_metrics, tuple(answers), usable)


def _job_of_new_role(
    bench: Bench, label: str, without: tuple[str, ...], answers: list[Answer]
) -> tuple[JobSeen | Missing, float | None]:
    """The job, and after how many seconds the role could be used."""
    trust, statements = _team_role(bench)
    kept = [one for one in statements if one.get("Sid") not in without]
    if len(kept) + len(without) != len(statements):
        return Missing(f"the team's role has not the statements {', '.join(without)}, which were to be left out"), None
    role = bench.make_role(label, trust, kept)
    made_at = bench.now()
    request = bench.request(label, ["leave"], role=role)
    while True:
        answer = bench.create(request)
        answers.append(answer)
        if answer.ok:
            job = watch_job(bench, request, answer.at, Watching(settle=False))
            return job, answer.at - made_at
        # What a new role is refused with is what is asked here, so anything but a quota is tried again.
        if answer.code == "ResourceLimitExceeded" or answer.at > made_at + bench.pace.role_deadline_seconds:
            return Missing(f"it was refused: {answer.code} {answer.words}"), None
        bench.sleep(bench.pace.poll_seconds)


def _team_role(bench: Bench) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """Trust and statements of the team's job role, as it is deployed."""
    iam, name = bench.clients.iam, bench.place.config.job_role_name(bench.place.team)
    trust: Any = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    statements: list[Mapping[str, Any]] = []
    for one in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        document: Any = iam.get_role_policy(RoleName=name, PolicyName=one)["PolicyDocument"]
        statements += document["Statement"]
    return trust, statements


# ---------------------------------------------------------------------------------------------------------------------
# A warm pool


def pool(bench: Bench, _release: Release) -> PoolSeen | Missing:
    """A job that leaves a pool, listed while a newer job without one is there."""
    request = bench.request("pool", ["leave"])
    request["ResourceConfig"]["KeepAlivePeriodInSeconds"] = bench.pace.keep_alive_seconds
    job = run_job(bench, request, Watching(settle=False))
    if isinstance(job, Missing):
        return Missing(f"no warm pool: {job.why}")
    later = bench.request("poolless", ["leave"], longest=60)
    # Another volume than the pool's, or the job would be given that very pool (developer guide, train-warm-pools).
    later["ResourceConfig"]["VolumeSizeInGB"] += 1
    answer = bench.create(later)
    if not answer.ok:
        return Missing(f"the newer job without a pool was refused: {answer.code} {answer.words}")
    bench.stop(later["TrainingJobName"])
    try:
        status = bench.clients.sagemaker.describe_training_job(TrainingJobName=job.name).get("WarmPoolStatus", {})
        page = bench.clients.sagemaker.list_training_jobs(
            NameContains=bench.place.prefix,
            WarmPoolStatusEquals="Available",
            SortBy="CreationTime",
            SortOrder="Descending",
            MaxResults=1,
        )
    except FAILED_READ as error:
        return Missing(f"the list could not be read: {words_of(error)}")
    bench.call(
        lambda: bench.clients.sagemaker.update_training_job(
            TrainingJobName=job.name, ResourceConfig={"KeepAlivePeriodInSeconds": 0}
        )
    )
    names = tuple(one["TrainingJobName"] for one in page["TrainingJobSummaries"])
    return PoolSeen(job, str(status.get("Status", "")), later["TrainingJobName"], names, "NextToken" in page)
