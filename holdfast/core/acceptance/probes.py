"""The questions to an account: each a piece of data and one function over what was seen.

`assumption` names the line of docs/fidelity.md that is answered; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.core.acceptance import judge_calls, judge_jobs, judge_run
from holdfast.core.acceptance.finding import Finding, unknown
from holdfast.core.acceptance.seen import CallsSeen, JobSeen, KeysSeen, Missing, MutedSeen, PoolSeen, RunSeen, Seen

All = Mapping[str, Seen | Missing]
"""Trial -> what was seen in it."""


@dataclass(frozen=True)
class Probe:
    """`trial` is where its evidence comes from; `judge` sees all trials made so far."""

    id: str
    trial: str
    assumption: str
    judge: Callable[[All], Finding]


@dataclass(frozen=True)
class Trial:
    """One thing that is done in the account. `hosts` are the instances that it holds at once; `after` the trials that
    have to be over, because it uses what they leave."""

    id: str
    what: str
    hosts: int
    after: tuple[str, ...] = ()


TRIALS: tuple[Trial, ...] = (
    # First: nothing else of ours may take from the bucket that it measures.
    Trial("burst", "20 DescribeTrainingJob calls at once, for a job that does not exist", 0),
    Trial("talk", "a job that writes a line a second", 1, ("burst",)),
    Trial("run", "a run by a manifest: frozen, ended, restarted, stopped, resumed, finished", 2, ("burst",)),
    Trial("linger", "a job that is stopped and does not leave", 1, ("burst",)),
    Trial("pool", "a job that leaves a warm pool, and one beside it", 2, ("burst", "linger")),
    Trial("muted", "two jobs whose new roles may write no logs, and no metrics", 1, ("burst",)),
    Trial("peers", "a job of two hosts, of which one fails", 2, ("burst",)),
    Trial("keys", "creates by a role that may pass no role, so that none succeeds", 0, ("burst",)),
    Trial("calls", "requests that are refused, and a page of a list that is asked for late", 0, ("burst", "talk")),
)


def _of(trial: str, kind: type, judge: Callable[..., Finding]) -> Callable[[All], Finding]:
    def judged(seen: All) -> Finding:
        found = seen.get(trial, Missing("it was not tried"))
        if isinstance(found, Missing):
            return unknown(found.why)
        if not isinstance(found, kind):
            raise TypeError(f"{trial} left a {type(found).__name__}; a {kind.__name__} is judged here")
        return judge(found)

    return judged


def _of_jobs(judge: Callable[[Sequence[JobSeen]], Finding]) -> Callable[[All], Finding]:
    return lambda seen: judge([one for one in seen.values() if isinstance(one, JobSeen)])


PROBES: tuple[Probe, ...] = (
    Probe("log-delay", "talk", "delays of logs", _of("talk", JobSeen, judge_jobs.log_delay)),
    Probe("metric-delay", "talk", "delays of logs and metrics", _of("talk", JobSeen, judge_jobs.metric_delay)),
    Probe("late-after-end", "talk", "also past the job's end", _of("talk", JobSeen, judge_jobs.late_after_end)),
    Probe("describe-burst", "burst", "calls that may come at once", _of("burst", CallsSeen, judge_calls.burst)),
    Probe("unknown-job", "calls", "an unknown job is a ValidationException for Update and Delete too",
          _of("calls", CallsSeen, judge_calls.unknown_job)),
    Probe("create-order", "calls", "the order of CreateTrainingJob's checks",
          _of("calls", CallsSeen, judge_calls.create_order)),
    Probe("refusal-wording", "calls", "the wording of most cross-parameter refusals",
          _of("calls", CallsSeen, judge_calls.refusal_wording)),
    Probe("list-token", "calls", "a `NextToken` of ListTrainingJobs is taken a minute later",
          _of("calls", CallsSeen, judge_calls.list_token)),
    Probe("last-modified", "talk", "`LastModifiedTime` moves with every change of the secondary status",
          _of("talk", JobSeen, judge_jobs.last_modified)),
    Probe("list-secondary-status", "talk", "summaries of ListTrainingJobs carry the secondary status",
          _of("talk", JobSeen, judge_jobs.listed_secondary)),
    Probe("describe-after-create", "talk", "a job that was just created may not be described for a moment",
          _of_jobs(judge_jobs.described_after_create)),
    Probe("stream-names", "talk", "each life of a job has new log streams", _of_jobs(judge_jobs.stream_names)),
    Probe("channel-folders", "talk", "`/opt/ml/input/data/<channel>` keeps sub-folders of an S3 prefix",
          _of("talk", JobSeen, judge_jobs.channel_folders)),
    Probe("durations", "talk", "how long a job waits before its script begins",
          _of("talk", JobSeen, judge_jobs.durations)),
    Probe("stop-grace", "linger", "SIGKILL comes 120 s after SIGTERM",
          _of("linger", JobSeen, judge_jobs.stop_grace)),
    Probe("stop-upload", "linger", "a stopped job's last checkpoints are still uploaded",
          _of("linger", JobSeen, judge_jobs.stop_upload)),
    Probe("peer-ending", "peers", "peers of a failed host get SIGTERM, then SIGKILL",
          _of("peers", JobSeen, judge_jobs.peer_ending)),
    Probe("missing-permission", "muted", "a missing log or metric permission fails the job",
          _of("muted", MutedSeen, judge_calls.missing_permission)),
    Probe("new-role", "muted", "while a new role spreads through IAM", _of("muted", MutedSeen, judge_calls.new_role)),
    Probe("warm-pool-list", "pool", "WarmPoolStatusEquals filters before the page is taken",
          _of("pool", PoolSeen, judge_calls.warm_pool_list)),
    Probe("condition-keys", "keys", "`sagemaker:*` condition keys are not filled",
          _of("keys", KeysSeen, judge_calls.condition_keys)),
    Probe("product", "run", "Holdfast itself: a hang is found, ended and restarted; a run is stopped and resumed",
          _of("run", RunSeen, judge_run.product)),
    Probe("frozen-host-metrics", "run", "host metrics of a frozen host go on",
          _of("run", RunSeen, judge_run.frozen_host_metrics)),
)  # fmt: skip


def judge_all(seen: All, wanted: Sequence[Probe] = PROBES) -> dict[str, Finding]:
    """Findings of the probes whose trial was made."""
    return {probe.id: probe.judge(seen) for probe in wanted if probe.trial in seen}


def trials_of(probes: Sequence[Probe]) -> tuple[Trial, ...]:
    """What has to be done for them, in order."""
    wanted = {probe.trial for probe in probes}
    return tuple(one for one in TRIALS if one.id in wanted)
