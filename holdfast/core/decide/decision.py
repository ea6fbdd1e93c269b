"""The decisions there are. Data: `reconcile` turns one into a new record and actions, `act` carries these out."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.model import Cause


@dataclass(frozen=True)
class Keep:
    """Nothing to do now."""

    reason: str


@dataclass(frozen=True)
class CreateAttempt:
    """Write the intent of a new attempt; a later step creates it."""

    reason: str


@dataclass(frozen=True)
class SendIntent:
    """Create the job whose intent is written and which SageMaker does not know."""

    reason: str


@dataclass(frozen=True)
class AskToEnd:
    """Ask the agent to end itself, so that the job fails and SageMaker's own repair can start."""

    reason: str


@dataclass(frozen=True)
class WithdrawRequest:
    """The step moved again after the request: take it back."""

    reason: str


@dataclass(frozen=True)
class StopJob:
    """Call StopTrainingJob."""

    reason: str


@dataclass(frozen=True)
class WaitUntil:
    """No attempt before `due_at`."""

    due_at: float
    reason: str
    cause: Cause | None = None


@dataclass(frozen=True)
class GiveUp:
    cause: Cause
    reason: str


@dataclass(frozen=True)
class Succeed:
    reason: str


@dataclass(frozen=True)
class RestStopped:
    """Rest in `stopped`: a person wished it, in the manifest or in SageMaker."""

    reason: str


Decision = (
    Keep
    | CreateAttempt
    | SendIntent
    | AskToEnd
    | WithdrawRequest
    | StopJob
    | WaitUntil
    | GiveUp
    | Succeed
    | RestStopped
)
