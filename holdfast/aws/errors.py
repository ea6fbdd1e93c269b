"""AWS's answers that are not results, sorted once for everyone."""

from __future__ import annotations

from botocore.exceptions import BotoCoreError, ClientError

from holdfast.core.observation import Unknown

FAILED_READ = (ClientError, BotoCoreError)

# Documented and seen codes of throttling over the services used here; none of them says anything about the object.
THROTTLES = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "RequestLimitExceeded",
        "ProvisionedThroughputExceededException",
        "SlowDown",
    }
)
# AuthorizationError is SNS's (botocore's model of it). Of all these only IAM, a bucket's or key's policy, or an
# organization's can be the reason, so it is the deployment's trouble and never the run's.
DENIALS = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "AuthorizationErrorException",
        "UnauthorizedOperation",
        "Forbidden",
        "403",
    }
)
MISSING = frozenset({"NoSuchKey", "404", "NotFound", "ResourceNotFound", "ResourceNotFoundException", "NoSuchBucket"})


def code_of(error: Exception) -> str:
    return str(error.response["Error"].get("Code", "")) if isinstance(error, ClientError) else type(error).__name__


def words_of(error: Exception) -> str:
    """One line for a person: the code and AWS's message."""
    if isinstance(error, ClientError):
        said = error.response["Error"]
        return " ".join(f"{said.get('Code', 'Error')}: {said.get('Message', '')}".split())[:500]
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def is_denied(error: Exception) -> bool:
    """Whether AWS refused the call for want of a permission."""
    return code_of(error) in DENIALS


def call_and_words(error: Exception) -> str:
    """The call and what became of it, in one line: `PutObject: AccessDenied: User: ... is not authorized to ...`."""
    call = f"{error.operation_name}: " if isinstance(error, ClientError) else ""
    return call + words_of(error)


def unknown(what: str, error: Exception) -> Unknown:
    """A reading that failed. `what`: the call, or what was to be read by it."""
    return Unknown(f"{what}: {words_of(error)}", throttled=code_of(error) in THROTTLES, denied=is_denied(error))
