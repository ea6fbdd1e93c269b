"""What calls tell whose answers cost nothing: refusals, limits, pages, and who is let through."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

from holdfast.core.acceptance.finding import Finding, judged, unknown
from holdfast.core.acceptance.seen import CallsSeen, JobSeen, KeysSeen, Missing, MutedSeen, PoolSeen

DESCRIBES_PER_SECOND = 5
"""General reference, SageMaker endpoints and quotas."""
BURST_CALLS = 5
"""Assumed: one second's worth."""
CHECKS = ("rules", "name", "role", "inputs", "quotas")
"""The order in which a request with several faults is assumed to be refused: a rule broken, the name taken, a role that
cannot be assumed, inputs that are not there, more instances than a quota allows."""
THROTTLES = ("ThrottlingException", "Throttling", "TooManyRequestsException")

ASSUMED_WORDS = {
    "longest_run": "MaxRuntimeInSeconds must be at most 2419200.",
    "no_volume": "VolumeSizeInGB must be specified for an instance type without local storage.",
    "channel_twice": "Channel names must be unique; given more than once: code.",
    "tag_twice": "Tag keys must be unique.",
}
"""Rule -> the sandbox's words for it (sandbox/sagemaker/rules.py); a test holds the two together."""


def burst(seen: CallsSeen) -> Finding:
    if not seen.burst:
        return unknown("no calls were sent at once")
    other = sorted({one.code for one in seen.burst if one.code not in (*THROTTLES, "ValidationException", "")})
    if other:
        return unknown(f"calls were answered with {', '.join(other)}, which is neither an answer nor a throttle")
    admitted = sum(1 for one in seen.burst if one.code not in THROTTLES)
    took = max(one.at for one in seen.burst) - min(one.at for one in seen.burst)
    # What came back to the bucket while the calls were on their way.
    refilled = DESCRIBES_PER_SECOND * took
    all_of_them = admitted == len(seen.burst)
    return judged(
        not all_of_them and abs(admitted - BURST_CALLS) <= refilled + 1,
        f"{admitted} of {len(seen.burst)} DescribeTrainingJob calls within {took:.1f} s were let through"
        + (", so at least as many may come at once" if all_of_them else "")
        + f"; assumed are {BURST_CALLS}, and {DESCRIBES_PER_SECOND} more a second",
        describes_at_once=float(admitted),
        describes_sent=float(len(seen.burst)),
        is_lower_bound=all_of_them,
        took_seconds=round(took, 2),
    )


def unknown_job(seen: CallsSeen) -> Finding:
    """Assumed: ValidationException for Describe, Stop, Update and Delete alike."""
    if not seen.unknown_job:
        return unknown("no call was made for an unknown job")
    vague = {name: one.code for name, one in seen.unknown_job.items() if one.code in THROTTLES or "Denied" in one.code}
    if vague:
        return unknown("refused for another reason: " + ", ".join(f"{name} {code}" for name, code in vague.items()))
    codes = {name: one.code or "accepted" for name, one in seen.unknown_job.items()}
    return judged(
        set(codes.values()) == {"ValidationException"},
        "; ".join(f"{name}: {one.code or 'accepted'} {one.words}" for name, one in seen.unknown_job.items()),
        codes=[f"{name}={code}" for name, code in sorted(codes.items())],
    )


def create_order(seen: CallsSeen) -> Finding:
    if not seen.order:
        return unknown("no request with two faults was sent: no job of ours was there whose name is taken")
    unclear = {pair: one for pair, one in seen.order.items() if one not in pair}
    if unclear:
        return unknown(
            "the answer to a request with two faults names neither: "
            + "; ".join(f"{first} and {second}: {one}" for (first, second), one in unclear.items())
        )
    wins = Counter(seen.order.values())
    order = sorted(CHECKS, key=lambda one: -wins[one])
    consistent = all(
        seen.order.get((first, second), seen.order.get((second, first))) == first
        for first, second in itertools.combinations(order, 2)
    )
    if not consistent:
        return judged(
            False, "there is no fixed order", answers=[f"{a}+{b}: {one}" for (a, b), one in seen.order.items()]
        )
    return judged(
        tuple(order) == CHECKS, f"a request is refused in the order {', '.join(order)}", order_of_checks=list(order)
    )


def refusal_wording(seen: CallsSeen) -> Finding:
    if not seen.wording:
        return unknown("no request was sent that breaks one rule alone")
    accepted = sorted(rule for rule, one in seen.wording.items() if one.ok)
    if accepted:
        return judged(False, f"accepted, and stopped at once: {', '.join(accepted)}", accepted=accepted)
    other = {rule: one for rule, one in seen.wording.items() if one.words != ASSUMED_WORDS[rule]}
    return judged(
        not other,
        "; ".join(f"{rule}: {one.code}: {one.words}" for rule, one in sorted(seen.wording.items())),
        other_words=sorted(other),
    )


def list_token(seen: CallsSeen) -> Finding:
    """Assumed: a NextToken is taken a minute later."""
    if isinstance(seen.token, Missing):
        return unknown(seen.token.why)
    age = f"{seen.token_age_seconds:.0f} s"
    if seen.token.ok:
        return judged(True, f"a NextToken that was {age} old was taken", token_age_seconds=seen.token_age_seconds)
    return judged(
        False,
        f"a NextToken that was {age} old was refused: {seen.token.code} {seen.token.words}",
        token_age_seconds=seen.token_age_seconds,
    )


def condition_keys(seen: KeysSeen) -> Finding:
    """By the service authorization reference CreateTrainingJob fills all of them where the request has the field."""
    if seen.control_allowed != "iam:PassRole" or seen.control_denied != "sagemaker:CreateTrainingJob":
        return unknown(
            "the controls fail: without a condition the caller was denied "
            f"{seen.control_allowed or 'nothing'}, without a statement {seen.control_denied or 'nothing'}"
        )
    filled = sorted(key for key, action in seen.denied.items() if action == "iam:PassRole")
    empty = sorted(key for key, action in seen.denied.items() if action == "sagemaker:CreateTrainingJob")
    unclear = sorted(seen.denied.keys() - {*filled, *empty})
    if unclear:
        return unknown(f"no answer about {', '.join(unclear)}", filled=filled, not_filled=empty)
    return judged(
        not empty,
        f"filled: {', '.join(filled) or 'none'}; not filled: {', '.join(empty) or 'none'}",
        filled=filled,
        not_filled=empty,
    )


def missing_permission(seen: MutedSeen) -> Finding:
    """Assumed: a job whose role may write no logs, or no metrics, fails."""
    values: dict[str, bool] = {}
    words: list[str] = []
    jobs: Mapping[str, JobSeen | Missing] = {"logs": seen.without_logs, "metrics": seen.without_metrics}
    for what, job in jobs.items():
        if isinstance(job, Missing):
            return unknown(f"the job without permission to write {what}: {job.why}")
        if not job.ended:
            return unknown(f"the end of the job without permission to write {what} was not seen")
        values[f"fails_without_{what}"] = job.status == "Failed"
        words.append(f"without {what}: {job.status} {job.reason}".strip())
    return judged(all(values.values()), "; ".join(words), **values)


def new_role(seen: MutedSeen) -> Finding:
    """Assumed: a ValidationException that says `assume`, for as long as a new role spreads through IAM."""
    if seen.usable_after_seconds is None:
        return unknown(
            "no create with a new role was accepted while it was waited for"
            + (f"; the last answer: {seen.spreading[-1].code} {seen.spreading[-1].words}" if seen.spreading else "")
        )
    refused = [one for one in seen.spreading if not one.ok and one.code not in THROTTLES]
    seconds = round(seen.usable_after_seconds, 1)
    if not refused:
        return unknown(
            f"a new role was taken at once, {seconds} s after it was made: there was no refusal to read words from",
            usable_after_seconds=seconds,
        )
    expected = all(one.code == "ValidationException" and "assume" in one.words for one in refused)
    return judged(
        expected,
        f"refused {len(refused)} times until {seconds} s after the role was made: {refused[0].code} {refused[0].words}",
        usable_after_seconds=seconds,
        codes=sorted({one.code for one in refused}),
    )


def warm_pool_list(seen: PoolSeen) -> Finding:
    """Assumed: the filter is applied before the page is taken."""
    if isinstance(seen.job, Missing):
        return unknown(seen.job.why)
    if seen.pool_status != "Available":
        return unknown(f"the pool was {seen.pool_status or 'never there'} when it was asked for")
    before = seen.first_page == (seen.job.name,)
    if not before and not (seen.more and not seen.first_page):
        return unknown(f"the first page held {len(seen.first_page)} jobs, of which none is the one with the pool")
    return judged(
        before,
        "the first page of one held the job with the pool, though a newer job has none"
        if before
        else "the first page of one was empty and went on: the page is taken first",
        filtered_before_the_page=before,
    )
