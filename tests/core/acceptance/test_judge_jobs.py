"""What is made of a job that was watched: each answer beside the one that is different, and beside none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.acceptance import judge_jobs
from holdfast.core.acceptance.finding import Verdict
from holdfast.core.acceptance.seen import Answer, JobSeen, Line, Look, Rise, Transition, parse_line

START = 1_000.0


def line(event: str, said: float, *, late: float = 20.0, host: str = "algo-1", **words: object) -> Line:
    told = {name: str(value) for name, value in words.items()}
    return Line(f"job/{host}-{START:.0f}", said, said + late, host, event, said, told)


def ticks(count: int, late: float = 20.0, spread: float = 0.0) -> tuple[Line, ...]:
    return tuple(line("tick", START + n, late=late + spread * (n % 2), n=n) for n in range(1, count + 1))


def job(**seen: Any) -> JobSeen:
    told = {
        "label": "talk",
        "name": "job",
        "hosts": 1,
        "created_at": START - 100,
        "poll_seconds": 5.0,
        "status": "Completed",
        "training_at": START,
        "streams": (f"job/algo-1-{START:.0f}",),
        **seen,
    }
    return JobSeen(**told)


def test_a_line_is_read_with_its_own_time_and_words_and_another_is_none() -> None:
    found = parse_line("s", 2.0, 3.0, "[acceptance/1] t=1.500 host=algo-2 event=tick n=7")
    assert found == Line("s", 2.0, 3.0, "algo-2", "tick", 1.5, {"n": "7"})
    frozen = parse_line("s", 2.0, 3.0, "[acceptance/1] t=1.500 event=frozen step=25")
    assert frozen is not None
    assert (frozen.host, frozen.event) == ("", "frozen")
    assert parse_line("s", 2.0, 3.0, "[holdfast/1] phase=step attempt=1") is None


@pytest.mark.parametrize(
    ("late", "verdict"),
    [(20.0, Verdict.AS_ASSUMED), (1.0, Verdict.DIFFERENT), (90.0, Verdict.DIFFERENT)],
)
def test_the_delay_of_lines_is_from_writing_to_first_sight(late: float, verdict: Verdict) -> None:
    found = judge_jobs.log_delay(job(lines=ticks(10, late=late)))
    assert found.verdict is verdict
    assert found.values["log_delay_least_seconds"] == late
    assert found.values["log_delay_most_seconds"] == late


def test_too_few_lines_say_nothing() -> None:
    assert judge_jobs.log_delay(job(lines=ticks(2))).verdict is Verdict.UNKNOWN


def test_a_batch_of_metrics_is_least_late_for_its_newest_value_and_most_for_its_first() -> None:
    rises = (Rise(60, 0, START + 60 + 100), Rise(120, 60, START + 120 + 100))
    found = judge_jobs.metric_delay(job(lines=ticks(120), rises=rises))
    assert found.values["metric_delay_least_seconds"] == 100
    assert found.values["metric_delay_most_seconds"] == 159
    assert found.verdict is Verdict.AS_ASSUMED
    early = tuple(replace(one, seen_at=one.seen_at - 99) for one in rises)
    assert judge_jobs.metric_delay(job(lines=ticks(120), rises=early)).verdict is Verdict.DIFFERENT
    assert judge_jobs.metric_delay(job(lines=ticks(120))).verdict is Verdict.UNKNOWN


def test_lateness_after_the_end_is_measured_from_when_the_end_was_seen() -> None:
    seen = job(lines=(line("last", START + 10, late=30.0),), terminal_seen_at=START + 15)
    assert judge_jobs.late_after_end(seen).verdict is Verdict.AS_ASSUMED
    assert judge_jobs.late_after_end(replace(seen, terminal_seen_at=START + 40)).verdict is Verdict.DIFFERENT
    assert judge_jobs.late_after_end(replace(seen, lines=())).verdict is Verdict.UNKNOWN
    missing = replace(
        seen, lines=(*ticks(9, late=1.0), line("last", START + 10, late=1.0)), terminal_seen_at=START + 40
    )
    assert judge_jobs.late_after_end(replace(missing, rises=(Rise(9, 0, START + 12),))).verdict is Verdict.DIFFERENT
    assert judge_jobs.late_after_end(replace(missing, rises=(Rise(5, 0, START + 12),))).verdict is Verdict.AS_ASSUMED


def transitions(*statuses: str) -> tuple[Transition, ...]:
    return tuple(Transition(one, START + 10 * number, None) for number, one in enumerate(statuses))


def test_streams_of_a_job_that_began_twice_are_new_or_are_not_and_one_life_says_nothing() -> None:
    twice = job(transitions=transitions("Starting", "Training", "Restarting", "Starting", "Training", "Completed"))
    two = replace(twice, streams=("job/algo-1-1000", "job/algo-1-1060"))
    assert judge_jobs.stream_names([two]).verdict is Verdict.AS_ASSUMED
    assert judge_jobs.stream_names([twice]).verdict is Verdict.DIFFERENT
    once = job(transitions=transitions("Starting", "Training", "Completed"))
    assert judge_jobs.stream_names([once]).verdict is Verdict.UNKNOWN
    odd = replace(once, streams=("job/algo-1",))
    assert judge_jobs.stream_names([odd]).verdict is Verdict.DIFFERENT
    assert judge_jobs.stream_names([replace(once, streams=("job/algo-1-1000/ssm",))]).verdict is Verdict.UNKNOWN


LOOKS = tuple(
    Look(START + 10 * number, "InProgress", secondary, START + 10 * number - 1)
    for number, secondary in enumerate(("Starting", "Downloading", "Training"))
)
STEPS = transitions("Starting", "Downloading", "Training")


def test_last_modified_that_moves_and_is_listed_in_time_is_as_assumed_and_anything_else_is_not() -> None:
    listed = tuple(replace(one, at=one.at + 30) for one in LOOKS)
    seen = job(transitions=STEPS, looks=LOOKS, listed=listed)
    found = judge_jobs.last_modified(seen)
    assert found.verdict is Verdict.AS_ASSUMED
    assert found.values["list_delay_most_seconds"] == 30
    slow = tuple(replace(one, at=one.at + 200) for one in LOOKS)
    assert judge_jobs.last_modified(replace(seen, listed=slow)).verdict is Verdict.DIFFERENT
    still = (*LOOKS[:2], replace(LOOKS[2], last_modified=LOOKS[1].last_modified))
    assert judge_jobs.last_modified(replace(seen, looks=still)).values["stood_still"] == ["Training"]
    assert judge_jobs.last_modified(replace(seen, listed=listed[:1])).verdict is Verdict.DIFFERENT
    assert judge_jobs.last_modified(replace(seen, looks=LOOKS[:1])).verdict is Verdict.UNKNOWN


def test_a_list_without_secondary_statuses_is_different() -> None:
    assert judge_jobs.listed_secondary(job(listed=LOOKS)).verdict is Verdict.AS_ASSUMED
    bare = tuple(replace(one, secondary=None) for one in LOOKS)
    assert judge_jobs.listed_secondary(job(listed=bare)).verdict is Verdict.DIFFERENT
    assert judge_jobs.listed_secondary(job()).verdict is Verdict.UNKNOWN


def test_a_new_job_is_described_within_the_grace_or_not() -> None:
    refused = (Answer(START, "ValidationException", "Requested resource not found."),)
    found = judge_jobs.described_after_create([job(before_described=refused, described_after_seconds=12.0)])
    assert found.verdict is Verdict.AS_ASSUMED
    assert found.values["codes_before"] == ["ValidationException"]
    late = judge_jobs.described_after_create([job(described_after_seconds=1.0), job(described_after_seconds=130.0)])
    assert late.verdict is Verdict.DIFFERENT
    assert judge_jobs.described_after_create([]).verdict is Verdict.UNKNOWN


def test_a_flattened_channel_is_different() -> None:
    def holding(*paths: str) -> JobSeen:
        return job(lines=tuple(line("file", START, path=path) for path in paths))

    assert judge_jobs.channel_folders(holding("probe.py", "a/b/leaf.txt")).verdict is Verdict.AS_ASSUMED
    assert judge_jobs.channel_folders(holding("probe.py", "leaf.txt")).verdict is Verdict.DIFFERENT
    assert judge_jobs.channel_folders(job()).verdict is Verdict.UNKNOWN


def outstaying(seconds: float, host: str = "algo-1") -> tuple[Line, ...]:
    alive = tuple(line("alive", START + n / 2, host=host, n=n) for n in range(1, int(2 * seconds) + 21))
    return (*alive, line("sigterm", START + 10, host=host))


def test_the_grace_is_from_sigterm_to_the_last_line() -> None:
    seen = job(lines=outstaying(120), stopped_at=START + 9, status="Stopped")
    assert judge_jobs.stop_grace(seen).values["stop_grace_seconds"] == 120
    assert judge_jobs.stop_grace(seen).verdict is Verdict.AS_ASSUMED
    assert judge_jobs.stop_grace(replace(seen, lines=outstaying(30))).verdict is Verdict.DIFFERENT
    assert judge_jobs.stop_grace(replace(seen, lines=(), stopped_at=None)).verdict is Verdict.UNKNOWN


def test_a_stopped_jobs_files_are_in_s3_to_the_last_one_or_are_lost() -> None:
    written = (2 * 30) + 20
    objects = {f"algo-1-alive-{n}": START for n in range(1, written + 1)} | {"algo-1-sigterm": START}
    seen = job(lines=outstaying(30), stopped_at=START + 9, status="Stopped", objects=objects)
    assert judge_jobs.stop_upload(seen).verdict is Verdict.AS_ASSUMED
    early = {name: at for name, at in objects.items() if name == "algo-1-alive-20"}
    found = judge_jobs.stop_upload(replace(seen, objects=early))
    assert found.verdict is Verdict.DIFFERENT
    assert found.values["files_lost_at_the_end"] == written - 20


def test_a_peer_that_is_killed_without_a_word_or_never_is_different() -> None:
    failing = line("failing", START + 9, host="algo-2")
    seen = job(hosts=2, status="Failed", lines=(*outstaying(30), failing))
    found = judge_jobs.peer_ending(seen)
    assert found.verdict is Verdict.AS_ASSUMED
    assert found.values["peer_sigterm_after_seconds"] == 1
    assert found.values["peer_grace_seconds"] == 30
    silent = tuple(one for one in seen.lines if one.event != "sigterm")
    assert judge_jobs.peer_ending(replace(seen, lines=silent)).values["peer_gets_sigterm"] is False
    spared = (*seen.lines, line("outlived", START + 300))
    assert judge_jobs.peer_ending(replace(seen, lines=spared)).verdict is Verdict.DIFFERENT
    assert judge_jobs.peer_ending(replace(seen, lines=outstaying(30))).verdict is Verdict.UNKNOWN
