"""AWS's answers that are not results, sorted once for everyone."""

from __future__ import annotations

from botocore.exceptions import BotoCoreError, ClientError

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
DENIALS = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "Forbidden", "403"})
MISSING = frozenset({"NoSuchKey", "404", "NotFound", "ResourceNotFound", "ResourceNotFoundException", "NoSuchBucket"})


def code_of(error: Exception) -> str:
    return str(error.response["Error"].get("Code", "")) if isinstance(error, ClientError) else type(error).__name__


def words_of(error: Exception) -> str:
    """One line for a person: the code and AWS's message."""
    if isinstance(error, ClientError):
        said = error.response["Error"]
        return " ".join(f"{said.get('Code', 'Error')}: {said.get('Message', '')}".split())[:500]
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]
