"""How long things are waited for. A sandbox and an account differ in this alone, never in what is asked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Pace:
    """All in seconds, but where the name says otherwise."""

    poll_seconds: float
    """Between two looks at a job; what is found is no finer than this."""
    create_gap_seconds: float
    """Between two CreateTrainingJob calls, of which an account has one a second for everyone."""
    talk_seconds: float
    """How long the talking job writes a line a second."""
    settle_seconds: float
    """How long late lines and metrics are waited for after a job's end."""
    token_age_seconds: float
    """How old a NextToken is made before it is used."""
    linger_seconds: float
    """How long a job is left alone before it is stopped."""
    job_deadline_seconds: float
    """From a job's creation to its end, its longest run included."""
    role_deadline_seconds: float
    """How long a new role is waited for to be known everywhere."""
    stall_after_seconds: int
    """The frozen run's bound in its manifest."""
    ask_seconds: int
    """How long the frozen run's agent may take to end itself, in its manifest."""
    run_deadline_seconds: float
    """For the run that is frozen, ended, restarted, stopped, resumed."""
    keep_alive_seconds: int
    """The warm pool's longest life."""
    step_seconds: float
    """Of the run's script."""
    run_steps: int
    """After which the run is over by itself, should nobody be there any more to stop it: less than an attempt's
    longest run, and more than it takes to see that the restarted one trains."""
    longest_direct_seconds: int
    """MaxRuntimeInSeconds of a single job."""
    longest_attempt_seconds: int
    """MaxRuntimeInSeconds of each of the run's attempts."""
    metric_period_seconds: int
    """Granularity at which host metrics are read; SageMaker's own come once a minute."""
    instances_at_once: int
    """Trials wait for each other so that no more instances are in use."""


ACCOUNT = Pace(
    poll_seconds=5.0,
    create_gap_seconds=1.2,
    talk_seconds=180.0,
    settle_seconds=420.0,
    token_age_seconds=70.0,
    linger_seconds=90.0,
    job_deadline_seconds=2_400.0,
    role_deadline_seconds=120.0,
    stall_after_seconds=180,
    ask_seconds=120,
    run_deadline_seconds=5_400.0,
    keep_alive_seconds=300,
    step_seconds=1.0,
    run_steps=900,
    # Image downloads count; what is left of it is ample for a script that ends within five minutes.
    longest_direct_seconds=900,
    longest_attempt_seconds=1_500,
    metric_period_seconds=60,
    instances_at_once=2,
)

EMULATED = Pace(
    poll_seconds=0.7,
    create_gap_seconds=1.05,
    talk_seconds=8.0,
    settle_seconds=8.0,
    token_age_seconds=3.0,
    linger_seconds=3.0,
    job_deadline_seconds=90.0,
    role_deadline_seconds=10.0,
    stall_after_seconds=10,
    ask_seconds=5,
    run_deadline_seconds=240.0,
    keep_alive_seconds=60,
    step_seconds=0.1,
    run_steps=600,
    longest_direct_seconds=120,
    longest_attempt_seconds=300,
    metric_period_seconds=1,
    instances_at_once=4,
)


def pace_of(kind: str) -> Pace:
    """`kind` is the config's: `aws` or `emulated`."""
    return EMULATED if kind == "emulated" else ACCOUNT
