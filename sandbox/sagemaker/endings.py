"""How a job can leave its course, and SageMaker's words for it.

FailureReason texts are those that SageMaker's users have reported; where none was found, the wording is assumed.
"""

from __future__ import annotations

INTERNAL_ERROR = "InternalServerError: We encountered an internal error. Please try again."

CAPACITY = (
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a different ML instance type."
)
"""Matched by grand-challenge.org in production (rse-grand-challenge#2631)."""

INSUFFICIENT_CAPACITY = (
    "InsufficientCapacityError: There is not enough capacity for the requested instance type at this time."
)
"""The error's name: developer guide, training-plan-utilization-for-training-jobs; the sentence is assumed."""

HEALTH_CHECK = "The health check failed on algo-1: the instance is unhealthy."
"""Assumed: no public report of the text was found."""

IMAGE = (
    "ClientError: Cannot pull algorithm container. Either the image does not exist or its permissions are incorrect."
)
"""aws/sagemaker-python-sdk#1968."""

UPLOAD = "ClientError: Artifact upload failed:Error 5: Received a failed archive status."
"""huggingface/notebooks#138."""


class Failed(Exception):  # noqa: N818 - like the three below, an end of the job and no error of the plane
    """The job ends as Failed, unless it is restarted; the text is its FailureReason."""


class Interrupted(Exception):  # noqa: N818
    """EC2 took the spot instances back."""


class Stopping(Exception):  # noqa: N818
    """Somebody called StopTrainingJob, or the job's time is over."""


class Abandoned(Exception):  # noqa: N818
    """The emulator is ending: no status, no upload, only an end."""
