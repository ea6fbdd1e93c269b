"""One run, one observation, one step: `(run, observation) -> (new record, actions)`. Pure.

Whoever calls this writes the record first, on the condition that nobody else did, and only then carries out the
actions. A crash in between loses nothing: the next tick reads the same record, sees the same world and derives the same
actions again. Each action is safe to repeat: a create by its job name, a stop and a request by their meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.decide.creation import CAUSE_OF_ANSWER, CreateAnswer, CreateResult, creation, may_exist_unseen
from holdfast.core.decide.decision import (
    AskToEnd,
    CreateAttempt,
    Decision,
    GiveUp,
    Keep,
    RestStopped,
    SendIntent,
    StopJob,
    Succeed,
    WithdrawRequest,
)
from holdfast.core.decide.ending import OUTCOME_OF_STATE, ending
from holdfast.core.decide.hang import hang
from holdfast.core.decide.holding import Held, holding
from holdfast.core.decide.restart import restart
from holdfast.core.decide.wish import wish
from holdfast.core.detect.health import Health, Verdict, judge
from holdfast.core.detect.mass import Doubt, believed
from holdfast.core.diagnose.cause import diagnose
from holdfast.core.model import Attempt, Cause, Described, JobState, Outcome, Phase, Run
from holdfast.core.notices import notice
from holdfast.core.observation import Absent, Job, Observation, Progress, Seals, Unknown
from holdfast.core.quotas.preflight import read_refusal
from holdfast_agent.contract import EndRequest

# Throttled or failing for so long, a create is something for people to know; it is tried on all the same.
UNANSWERED_SECONDS = 900.0


@dataclass(frozen=True)
class SendCreate:
    job: str
    request: dict[str, Any]


@dataclass(frozen=True)
class SendStop:
    job: str


@dataclass(frozen=True)
class SendEndRequest:
    team: str
    run: str
    request: EndRequest


@dataclass(frozen=True)
class RemoveEndRequest:
    team: str
    run: str


Action = SendCreate | SendStop | SendEndRequest | RemoveEndRequest


@dataclass(frozen=True)
class Intent:
    """A new attempt's job: its name and the exact request."""

    job: str
    request: dict[str, Any]
    request_digest: str


@dataclass(frozen=True)
class Step:
    run: Run
    actions: tuple[Action, ...]
    decision: Decision
    verdict: Verdict | None = None


def reconcile(
    run: Run,
    observation: Observation,
    *,
    intend: Callable[[Run, int], Intent],
    poll_seconds: float,
    doubt: Doubt | None,
) -> Step:
    """`intend` compiles the request of attempt number n from the run's own pins; it is pure as well.

    `doubt`: whether the watcher may be believed, from a sweep over all runs. None, as after an event: nobody counted
    them, and nothing is ended for a hang.
    """
    if run.phase.terminal:
        return Step(run, (), Keep(f"the run is {run.phase.value}"))
    seen = _take_in(replace(run, withdraw_due=False), observation)
    step = _reconcile(seen, observation, intend, poll_seconds, doubt)
    if not run.withdraw_due:
        return step
    # Taken back a second time, since a function may have died before the first. A new request comes after it.
    return replace(step, actions=(RemoveEndRequest(run.team, run.name), *step.actions))


def _reconcile(
    seen: Run,
    observation: Observation,
    intend: Callable[[Run, int], Intent],
    poll_seconds: float,
    doubt: Doubt | None,
) -> Step:
    attempt = seen.attempt
    wished = wish(seen, observation)
    if isinstance(wished, RestStopped):
        return _rest(seen, observation, wished)
    if attempt is None or attempt.ended_at is not None or attempt.seen_at is None:
        return _without_job(seen, observation, intend)
    if isinstance(observation.job, Absent):
        return _vanished(seen, attempt, observation)
    if isinstance(observation.job, Job) and observation.job.state.terminal:
        return _ended(seen, attempt, observation.job, observation)
    return _living(seen, attempt, observation, wished, poll_seconds, doubt)


def _take_in(run: Run, observation: Observation) -> Run:
    """Write down what was seen of the newest attempt: that its job exists, its step, its seals."""
    attempt = run.attempt
    if attempt is None or attempt.ended_at is not None:
        return run
    job = observation.job
    if isinstance(job, Job) and job.ours and attempt.seen_at is None:
        attempt = replace(attempt, seen_at=observation.now, request=None)
        run = replace(run, phase=Phase.STARTING, due_at=None, why="the job was created", hold=None, quota_refusal=None)
    if isinstance(job, Job) and job.ours and job.modified_at is not None:
        attempt = replace(attempt, described=Described(job.state, job.modified_at, observation.now))
    if isinstance(observation.progress, Progress):
        progress = observation.progress
        attempt = replace(
            attempt,
            last_step=attempt.last_step if progress.step is None else progress.step,
            last_step_at=attempt.last_step_at if progress.step is None else progress.step_at,
            resumed_from_step=(
                attempt.resumed_from_step if progress.resumed_from_step is None else progress.resumed_from_step
            ),
        )
    if isinstance(observation.seals, Seals):
        attempt = replace(attempt, sealed_step=observation.seals.newest_step)
    return _with_attempt(run, attempt)


def _without_job(run: Run, observation: Observation, intend: Callable[[Run, int], Intent]) -> Step:
    attempt, job = run.attempt, observation.job
    if attempt is not None and attempt.ended_at is None and isinstance(job, Job) and not job.ours:
        # The name is taken by a job that this intent did not ask for. It is not ours to adopt or to stop.
        said = f"{attempt.job} exists already and was not created for this attempt; the next number is taken."
        given_up = replace(attempt, ended_at=observation.now, outcome=Outcome.NOT_CREATED, reason=said, request=None)
        return Step(_changed(_with_attempt(run, given_up), why=said), (), Keep(said))
    held = holding(run, observation)
    if held is not None:
        return _hold_back(run, held)
    stopping = run.manifest.state == "stopped"
    decision = Keep("the manifest asks for state: stopped") if stopping else creation(run, observation)
    if isinstance(decision, CreateAttempt):
        return _intend(run, observation, intend, decision)
    if isinstance(decision, SendIntent) and attempt is not None and attempt.request is not None:
        # `sent_at` makes the record differ, so that of two reconcilers only the one whose write holds sends.
        sent = _with_attempt(run, replace(attempt, sent_at=observation.now))
        if attempt.sent_at is not None and observation.now - attempt.intended_at >= UNANSWERED_SECONDS:
            minutes = UNANSWERED_SECONDS / 60
            sent = _worry(sent, f"CreateTrainingJob has not answered for {minutes:.0f} minutes; it is tried on.")
        return Step(sent, (SendCreate(attempt.job, attempt.request),), decision)
    if observation.live_jobs and isinstance(decision, Keep):
        return Step(_worry(run, decision.reason), (), decision)
    return Step(run, (), decision)


def _hold_back(run: Run, held: Held) -> Step:
    """No attempt is written and the ledger stays as it is: nothing ran and nothing was refused."""
    decision = held.decision
    waiting = _changed(
        replace(run, hold=held.hold),
        phase=Phase.WAITING,
        due_at=decision.due_at,
        why=decision.reason,
        cause=decision.cause,
    )
    told = _tell(waiting, "waiting", decision.reason, key=f"hold-{held.hold.since:.0f}")
    # People are told once for a hold, however often it is looked at.
    return Step(waiting if run.hold is not None else told, (), decision)


def _intend(run: Run, observation: Observation, intend: Callable[[Run, int], Intent], decision: CreateAttempt) -> Step:
    # A table that was emptied counts from one again; the names of the jobs before are taken for good.
    number = max(run.next_number, (observation.highest_number or 0) + 1)
    kept = run.attempts
    if run.attempt is not None and run.attempt.ended_at is None:
        # Never sent: the same number is written anew.
        number, kept = run.attempt.number, run.attempts[:-1]
    intent = intend(run, number)
    attempt = Attempt(
        number=number,
        job=intent.job,
        spec_hash=run.spec_hash,
        request_digest=intent.request_digest,
        intended_at=observation.now,
        sent_at=observation.now,
        request=intent.request,
        sealed_step=observation.seals.newest_step if isinstance(observation.seals, Seals) else None,
    )
    planned = replace(run, attempts=(*kept, attempt), next_number=number + 1, suspicion=None, alerted=False)
    new = _changed(planned, phase=Phase.STARTING, due_at=None, why=f"creating {intent.job}")
    return Step(new, (SendCreate(intent.job, intent.request),), decision)


def after_create(run: Run, result: CreateResult, now: float) -> Run:
    """Take in SageMaker's answer to a create. An answer that was lost changes nothing: the next tick looks."""
    attempt = run.attempt
    if attempt is None or attempt.ended_at is not None:
        return run
    if result.answer is CreateAnswer.CREATED:
        seen = replace(_with_attempt(run, replace(attempt, seen_at=now, request=None)), hold=None, quota_refusal=None)
        return _changed(seen, phase=Phase.STARTING, why="the job was created", due_at=None, cause=None)
    if result.answer not in CAUSE_OF_ANSWER:
        return run
    if result.answer is CreateAnswer.QUOTA:
        # SageMaker was asked, so a hold begins anew; what it said is fresher than any reading.
        run = replace(run, hold=None, quota_refusal=read_refusal(result.words, now))
    cause, meaning = CAUSE_OF_ANSWER[result.answer]
    went = restart(
        cause=cause,
        basis=f"{meaning}: {result.words}",
        ledger=run.ledger,
        sealed_step=run.ledger.best_sealed_step,
        limits=run.manifest.limits,
        uid=run.uid,
        now=now,
    )
    if isinstance(went.decision, GiveUp):
        closed = replace(
            attempt, ended_at=now, outcome=Outcome.NOT_CREATED, cause=cause, reason=went.decision.reason, request=None
        )
        return _fail(_with_attempt(run, closed), went.decision)
    # The attempt stays as it is, with its number: its name was certainly not used.
    waiting = _changed(
        _with_attempt(replace(run, ledger=went.ledger), replace(attempt, sent_at=None)),
        phase=Phase.WAITING,
        due_at=went.decision.due_at,
        why=went.decision.reason,
        cause=cause,
    )
    return _tell(waiting, "waiting", went.decision.reason, key=f"{cause.value}-{attempt.job}")


def _vanished(run: Run, attempt: Attempt, observation: Observation) -> Step:
    """SageMaker forgot a job that it had: somebody deleted it. Its checkpoints are still there."""
    if may_exist_unseen(attempt, observation.now):
        return Step(run, (), Keep(f"{attempt.job} is not described yet; it was created a moment ago"))
    said = f"{attempt.job} was deleted in SageMaker."
    closed = replace(
        attempt, ended_at=observation.now, outcome=Outcome.STOPPED, cause=Cause.STOPPED_BY_PERSON, reason=said
    )
    decision = RestStopped(
        f"{said} That is respected: it is not restarted. Set state: stopped, then running, to go on."
    )
    return _rest(_with_attempt(run, closed), observation, decision)


def _ended(run: Run, attempt: Attempt, job: Job, observation: Observation) -> Step:
    if not isinstance(observation.seals, Seals):
        why = observation.seals.why if isinstance(observation.seals, Unknown) else "not read"
        said = f"the job is {job.state}; which checkpoints are sealed is unknown: {why}"
        return Step(_worry(run, said), (), Keep(said))
    diagnosis = None if job.state is JobState.COMPLETED else diagnose(job, attempt, observation.tail)
    end = ending(
        diagnosis=diagnosis,
        manifest=run.manifest,
        ledger=run.ledger,
        sealed_step=observation.seals.newest_step,
        uid=run.uid,
        now=observation.now,
    )
    closed = replace(
        attempt,
        ended_at=job.ended_at or observation.now,
        outcome=OUTCOME_OF_STATE[job.state],
        cause=diagnosis.cause if diagnosis else None,
        reason=diagnosis.basis if diagnosis else end.decision.reason,
    )
    new = replace(_with_attempt(run, closed), ledger=end.ledger, suspicion=None, alerted=False)
    asked = attempt.asked_at is not None
    actions: tuple[Action, ...] = (RemoveEndRequest(run.team, run.name),) if asked else ()
    new = replace(new, withdraw_due=asked)
    decision = end.decision
    if isinstance(decision, Succeed):
        done = _changed(new, phase=Phase.SUCCEEDED, why=decision.reason, cause=None, due_at=None)
        return Step(_tell(done, "succeeded", decision.reason, key=attempt.job), actions, decision)
    if isinstance(decision, RestStopped):
        return replace(_rest(new, observation, decision), actions=actions)
    if isinstance(decision, GiveUp):
        return Step(_fail(new, decision), actions, decision)
    waiting = _changed(new, phase=Phase.WAITING, due_at=decision.due_at, why=decision.reason, cause=decision.cause)
    return Step(_tell(waiting, "restarted", decision.reason, key=attempt.job), actions, decision)


def _living(
    run: Run,
    attempt: Attempt,
    observation: Observation,
    wished: StopJob | None,
    poll_seconds: float,
    doubt: Doubt | None,
) -> Step:
    job = observation.job
    if isinstance(job, Job) and job.state is JobState.TRAINING and attempt.training_at is None:
        attempt = replace(attempt, training_at=job.training_at or observation.now)
        run = _with_attempt(run, attempt)
    if isinstance(job, Job) and job.state is JobState.TRAINING and run.phase is Phase.STARTING:
        run = _changed(run, phase=Phase.TRAINING, why="training", cause=None)
    alone = judge(
        observation,
        manifest=run.manifest,
        training_at=attempt.training_at,
        before=run.suspicion,
        poll_seconds=poll_seconds,
    )
    verdict = believed(alone, doubt)
    # What was decided for a hang and lost on its way is sent again only where a hang may be believed.
    may_repeat = attempt.hung_at is None or run.manifest.state == "stopped" or (doubt is not None and not doubt.stands)
    run = _with_verdict(run, verdict)
    decision = wished or hang(verdict=verdict, attempt=attempt, watch=run.manifest.watch, now=observation.now)
    if isinstance(decision, AskToEnd):
        asked = replace(attempt, hung_at=observation.now, asked_at=observation.now)
        new = _changed(_with_attempt(run, asked), phase=Phase.STOPPING, why=decision.reason, cause=Cause.HANG)
        request = EndRequest(attempt.job, attempt.number, decision.reason, observation.now)
        since = f"{attempt.job}-{run.suspicion.since:.0f}" if run.suspicion else attempt.job
        told = _tell(new, "hung", f"{decision.reason} The agent is asked to end itself.", key=since)
        return Step(told, (SendEndRequest(run.team, run.name, request),), decision, verdict)
    if isinstance(decision, WithdrawRequest):
        back = replace(attempt, hung_at=None, asked_at=None)
        new = _changed(
            _with_attempt(run, back), phase=Phase.TRAINING, why=decision.reason, cause=None, withdraw_due=True
        )
        return Step(new, (RemoveEndRequest(run.team, run.name),), decision, verdict)
    if isinstance(decision, StopJob):
        stopping = replace(attempt, stopped_at=observation.now)
        new = _changed(_with_attempt(run, stopping), phase=Phase.STOPPING, why=decision.reason)
        return Step(new, (SendStop(attempt.job),), decision, verdict)
    if may_repeat and attempt.stopped_at is not None and isinstance(job, Job) and job.state is not JobState.STOPPING:
        # The record says that it was stopped and SageMaker does not: the call was lost. Calling again is harmless.
        return Step(run, (SendStop(attempt.job),), decision, verdict)
    if may_repeat and attempt.asked_at is not None and attempt.stopped_at is None:
        # Asked again at each look: a request that was lost would cost the run its chance of an unbilled node repair.
        request = EndRequest(attempt.job, attempt.number, run.why, attempt.asked_at)
        return Step(run, (SendEndRequest(run.team, run.name, request),), decision, verdict)
    return Step(run, (), decision, verdict)


def _with_verdict(run: Run, verdict: Verdict) -> Run:
    new = replace(run, suspicion=verdict.suspicion, health=f"{verdict.health}: {verdict.basis}")
    if verdict.alert and not run.alerted:
        new = _worry(new, f"Not sure, so nothing is stopped: {verdict.basis}.", kind="hung")
    if verdict.health in (Health.HEALTHY, Health.STARTING) and run.alerted:
        new = _changed(new, alerted=False, why="training again" if verdict.health is Health.HEALTHY else "starting")
    return new


def _worry(run: Run, words: str, *, kind: str = "waiting") -> Run:
    """Tell people once that something stands still; told again only after it has moved in between."""
    if run.alerted:
        return run
    key = f"{run.next_number}-{run.attempt.last_step if run.attempt else None}-{kind}"
    return _tell(_changed(replace(run, alerted=True), why=words), kind, words, key=key)


def _rest(run: Run, observation: Observation, decision: RestStopped) -> Step:
    attempt = run.attempt
    if attempt is not None and attempt.ended_at is None:
        closed = replace(
            attempt, ended_at=observation.now, outcome=Outcome.NOT_CREATED, reason=decision.reason, request=None
        )
        run = _with_attempt(run, closed)
    new = _changed(run, phase=Phase.STOPPED, why=decision.reason, cause=Cause.STOPPED_BY_PERSON, due_at=None)
    return Step(_tell(new, "stopped", decision.reason, key=str(run.next_number)), (), decision)


def _fail(run: Run, decision: GiveUp) -> Run:
    new = _changed(run, phase=Phase.FAILED, why=decision.reason, cause=decision.cause, due_at=None)
    return _tell(new, "gave_up", decision.reason, key=str(run.next_number))


def _tell(run: Run, kind: str, words: str, *, key: str) -> Run:
    told = notice(run, kind, words, key=key)
    return run if told is None else replace(run, notices=(*run.notices, told))


def _changed(run: Run, **fields: Any) -> Run:
    return replace(run, status_due=True, **fields)


def _with_attempt(run: Run, attempt: Attempt) -> Run:
    return replace(run, attempts=(*run.attempts[:-1], attempt))
