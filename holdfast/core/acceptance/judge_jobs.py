"""What single jobs tell: how late their telemetry is, how they are stopped, what SageMaker says of them meanwhile."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median

from holdfast.core.acceptance.finding import Finding, judged, unknown
from holdfast.core.acceptance.seen import JobSeen, Line, Look

# docs/fidelity.md: one draw a job. Flush and poll come on top.
LOG_DELAY_SECONDS = (5.0, 60.0)
METRIC_DELAY_SECONDS = (60.0, 300.0)
LOG_FLUSH_SECONDS = 5.0
METRIC_FLUSH_SECONDS = 60.0
STOP_GRACE_SECONDS = 120.0
PEER_GRACE_SECONDS = 30.0
STREAM = re.compile(r"(?P<host>[^/]+/algo-[0-9]+)-(?P<epoch>[0-9]+)")
LIST_DELAY_SECONDS = 120.0
DESCRIBE_GRACE_SECONDS = 120.0


def log_delay(job: JobSeen) -> Finding:
    delays = sorted(one.seen_at - one.said_at for one in job.events("tick"))
    if len(delays) < 3:
        return unknown(f"{_many(len(delays), 'line')} of the job came, which says nothing about their delay")
    least, most = delays[0], delays[-1]
    low, high = LOG_DELAY_SECONDS
    holds = low - 1 <= least <= high + job.poll_seconds and most <= high + LOG_FLUSH_SECONDS + job.poll_seconds
    return judged(
        holds,
        f"{len(delays)} lines came {least:.1f} to {most:.1f} s after they were written; assumed are {low:.0f} to "
        f"{high:.0f} s",
        log_delay_least_seconds=round(least, 2),
        log_delay_median_seconds=round(median(delays), 2),
        log_delay_most_seconds=round(most, 2),
        resolution_seconds=job.poll_seconds,
    )


def metric_delay(job: JobSeen) -> Finding:
    said: dict[int, float] = {}
    for one in job.events("tick"):
        said.setdefault(int(one.words["n"]), one.said_at)  # of a job that began anew, the first life's
    # At a rise, its newest value is the least delayed and the first one of the batch the most.
    rises = [one for one in job.rises if one.value in said and one.before + 1 in said]
    if not rises:
        return unknown("no value of the job's metric came while it was waited for")
    least = [one.seen_at - said[one.value] for one in rises]
    most = [one.seen_at - said[one.before + 1] for one in rises]
    low, high = METRIC_DELAY_SECONDS
    holds = low - 1 <= min(least) and max(most) <= high + METRIC_FLUSH_SECONDS + job.poll_seconds
    return judged(
        holds,
        f"values came {min(least):.1f} to {max(most):.1f} s after the lines that hold them; assumed are {low:.0f} to "
        f"{high:.0f} s, and {METRIC_FLUSH_SECONDS:.0f} s from one batch to the next",
        metric_delay_least_seconds=round(min(least), 2),
        metric_delay_most_seconds=round(max(most), 2),
        batches=float(len(rises)),
        resolution_seconds=job.poll_seconds,
    )


def late_after_end(job: JobSeen) -> Finding:
    """Assumed: lines and values are still on their way when the job is seen to have ended."""
    if job.terminal_seen_at is None:
        return unknown("the job's end was not seen")
    last = job.events("last")
    if not last:
        return unknown("the job's last line never came")
    written = max((int(one.words["n"]) for one in job.events("tick")), default=0)
    if job.rises and job.rises[-1].value < written:
        return judged(
            True,
            f"value {job.rises[-1].value} of {written} was the newest when the waiting for them ended",
            late_after_end=True,
        )
    seen = max([one.seen_at for one in last] + [one.seen_at for one in job.rises])
    late = seen - job.terminal_seen_at
    return judged(
        late > job.poll_seconds,
        f"the last line or value came {abs(late):.1f} s {'after' if late > 0 else 'before'} the job was seen to have "
        "ended",
        late_after_end=late > job.poll_seconds,
        last_after_end_seconds=round(late, 2),
    )


def stream_names(jobs: Sequence[JobSeen]) -> Finding:
    """Assumed: each life of a job has new streams. A life is one `Training` among its transitions."""
    found = [(job, one) for job in jobs for one in job.streams if not one.endswith("/ssm")]
    if not found:
        return unknown("no job left a log stream")
    odd = [one for job, one in found if STREAM.fullmatch(one) is None or not one.startswith(f"{job.name}/")]
    if odd:
        return judged(False, "a stream's name is not <job>/algo-<n>-<epoch>", odd_names=_forms(odd))
    lives = {job.name: _lives(job) for job in jobs}
    retried = [job for job in jobs if lives[job.name] > 1]
    offsets = [round(_epoch(one) - job.training_at, 1) for job, one in found if job.training_at is not None]
    values = {"stream_epoch_after_training_start_seconds": offsets}
    if not retried:
        return unknown(
            "SageMaker retried no job of its own accord, and nothing can make it: the names are as documented, with an "
            "epoch shortly after training began; whether a retry gets new ones stays open",
            **values,
        )
    new = all(len(job.streams) >= job.hosts * lives[job.name] for job in retried)
    return judged(
        new,
        f"{_many(len(retried), 'job')} began to train more than once; streams a host: "
        + ", ".join(f"{len(job.streams) / job.hosts:.0f} for {lives[job.name]} lives" for job in retried),
        **values,
        new_streams=new,
    )


def last_modified(job: JobSeen) -> Finding:
    """Assumed: it moves with every secondary status, and a list shows that within two minutes."""
    if len(job.transitions) < 3 or not job.looks:
        return unknown("too little of the job's life was seen")
    changes = _changes(job)
    if not changes:
        return unknown("no change of the secondary status was seen between two looks")
    still = [after.secondary or "" for before, after in changes if after.last_modified <= before.last_modified]
    if still:
        return judged(False, f"LastModifiedTime stood still at the change to {', '.join(still)}", stood_still=still)
    delays = [
        max(0.0, seen - look.at)
        for _, look in changes
        if (seen := next((one.at for one in job.listed if one.last_modified >= look.last_modified), None)) is not None
    ]
    missing = len(changes) - len(delays)
    if missing:
        return judged(False, f"{_many(missing, 'change')} never came into a list while it was looked at")
    return judged(
        max(delays) <= LIST_DELAY_SECONDS,
        f"it moved with all {len(changes)} changes that were seen, and a list showed each within {max(delays):.1f} s; "
        f"assumed are {LIST_DELAY_SECONDS:.0f} s",
        changes_seen=[look.secondary or "" for _, look in changes],
        list_delay_most_seconds=round(max(delays), 2),
        resolution_seconds=job.poll_seconds,
    )


def listed_secondary(job: JobSeen) -> Finding:
    if not job.listed:
        return unknown("no list showed the job")
    carried = [one.secondary for one in job.listed if one.secondary]
    return judged(
        len(carried) == len(job.listed),
        f"{len(carried)} of {len(job.listed)} summaries carried a secondary status",
        secondary_statuses=sorted(set(carried)),
    )


def described_after_create(jobs: Sequence[JobSeen]) -> Finding:
    """Assumed: not for a moment, and 120 s are enough."""
    seconds = [job.described_after_seconds for job in jobs if job.described_after_seconds is not None]
    if not seconds:
        return unknown("no job was described")
    codes = sorted({one.code for job in jobs for one in job.before_described})
    return judged(
        max(seconds) <= DESCRIBE_GRACE_SECONDS,
        f"{_many(len(seconds), 'new job')}: described {max(seconds):.1f} s after CreateTrainingJob at the latest"
        + (f", before that {', '.join(codes)}" if codes else ", by the first call each"),
        described_after_most_seconds=round(max(seconds), 2),
        codes_before=codes,
    )


def channel_folders(job: JobSeen) -> Finding:
    paths = sorted(one.words.get("path", "") for one in job.events("file"))
    if not paths:
        return unknown("the job's first lines did not come")
    return judged(
        "a/b/leaf.txt" in paths and "probe.py" in paths,
        f"the channel of an S3 prefix with probe.py and a/b/leaf.txt held {', '.join(paths)}",
        paths=paths,
    )


def durations(job: JobSeen) -> Finding:
    """How long a job waits before its script begins. The sandbox's are guesses; nothing rests on them."""
    starts = {one.status: one.start for one in reversed(job.transitions)}
    begin = job.events("begin")
    if "Starting" not in starts or "Training" not in starts or not begin:
        return unknown("the job did not get to its script, or its first line did not come")
    after_starting = min(at for status, at in starts.items() if status != "Starting" and at >= starts["Starting"])
    starting = after_starting - starts["Starting"]
    image = min(one.said_at for one in begin) - starts["Training"]
    saved = {one.words["n"]: one.said_at for one in job.events("saved")}
    synced = [job.objects[name] - said for n, said in saved.items() if (name := f"algo-1-tick-{n}") in job.objects]
    return judged(
        True,
        f"{starting:.0f} s in Starting, {image:.1f} s from Training to the script's first line"
        + (f", checkpoints in S3 {max(synced):.1f} s after they were written at the latest" if synced else ""),
        starting_seconds=round(starting, 2),
        image_seconds=round(max(0.0, image), 2),
        checkpoint_sync_most_seconds=round(max(0.0, *synced), 2) if synced else None,
    )


def stop_grace(job: JobSeen) -> Finding:
    """Documented: 120 s from SIGTERM to SIGKILL."""
    seconds = _outstayed(job, "algo-1")
    if seconds is None:
        return unknown(_why_no_sigterm(job))
    return judged(
        abs(seconds - STOP_GRACE_SECONDS) <= 5,
        f"the script went on for {seconds:.1f} s after SIGTERM; documented are {STOP_GRACE_SECONDS:.0f} s",
        stop_grace_seconds=round(seconds, 1),
        sigterm_after_stop_seconds=round(job.events("sigterm")[0].said_at - job.stopped_at, 1)
        if job.stopped_at is not None
        else None,
    )


def stop_upload(job: JobSeen) -> Finding:
    """Assumed: what a stopped job writes after SIGTERM still comes into S3."""
    if _outstayed(job, "algo-1") is None:
        return unknown(_why_no_sigterm(job))
    if not job.ended:
        return unknown("the job's end was not seen")
    numbers = [int(name.rpartition("-")[2]) for name in job.objects if name.startswith("algo-1-alive-")]
    written = max(int(one.words["n"]) for one in job.events("alive", "algo-1"))
    in_s3 = max(numbers, default=0)
    # The script says `alive` and then writes: SIGKILL may fall between the two.
    return judged(
        "algo-1-sigterm" in job.objects and in_s3 >= written - 1,
        f"of the files that it wrote until SIGKILL, number {in_s3} of {written} is the newest in S3; the one of the "
        f"moment of SIGTERM is {'there' if 'algo-1-sigterm' in job.objects else 'missing'}",
        written_at_sigterm_is_there="algo-1-sigterm" in job.objects,
        files_lost_at_the_end=float(max(0, written - in_s3)),
    )


def peer_ending(job: JobSeen) -> Finding:
    """Assumed: the peers of a failed host get SIGTERM, then SIGKILL."""
    failing = job.events("failing", "algo-2")
    alive = job.events("alive", "algo-1")
    if not failing or not alive or not job.ended:
        return unknown("the failing host's last line, its peer's lines or the job's end did not come")
    failed_at = failing[-1].said_at
    term = job.events("sigterm", "algo-1")
    outlived = max(one.said_at for one in alive) - failed_at
    if not term:
        return judged(
            False,
            f"the peer got no SIGTERM that it could see, and wrote until {outlived:.1f} s after the failure",
            peer_gets_sigterm=False,
            peer_outlives_failure_seconds=round(outlived, 1),
        )
    grace = _outstayed(job, "algo-1") or 0.0
    killed = not job.events("outlived", "algo-1")
    return judged(
        killed,
        f"the peer got SIGTERM {term[0].said_at - failed_at:.1f} s after the failure and "
        + (f"SIGKILL {grace:.1f} s later" if killed else "was never killed"),
        peer_gets_sigterm=True,
        peer_sigterm_after_seconds=round(term[0].said_at - failed_at, 1),
        peer_grace_seconds=round(grace, 1),
    )


# ---------------------------------------------------------------------------------------------------------------------


def _outstayed(job: JobSeen, host: str) -> float | None:
    """Seconds from SIGTERM to the last line of all."""
    term = job.events("sigterm", host)
    after: list[Line] = [one for one in job.events("alive", host) if term and one.said_at >= term[0].said_at]
    return max(one.said_at for one in after) - term[0].said_at if after else None


def _why_no_sigterm(job: JobSeen) -> str:
    if job.stopped_at is None:
        return f"the job was not stopped: it was {job.status or 'never seen'} {job.reason}".strip()
    return "no line tells of SIGTERM: the script did not get it, or its last lines did not come"


def _changes(job: JobSeen) -> list[tuple[Look, Look]]:
    pairs = zip(job.looks, job.looks[1:], strict=False)
    return [(before, after) for before, after in pairs if before.secondary != after.secondary]


def _lives(job: JobSeen) -> int:
    return sum(1 for one in job.transitions if one.status == "Training")


def _epoch(stream: str) -> float:
    match = STREAM.fullmatch(stream)
    number = int(match["epoch"]) if match else 0
    return number / 1000 if number > 10**11 else float(number)


def _forms(names: Sequence[str]) -> list[str]:
    """Names with their digits as `#`: the form is what counts."""
    return sorted({re.sub(r"[0-9]+", "#", name) for name in names})[:5]


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
