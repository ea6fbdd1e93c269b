"""SageMaker's status words, turned into ours in one table.

Source: botocore's model of DescribeTrainingJob (TrainingJobStatus, SecondaryStatus). AWS calls the secondary words
"subject to change", so a word that is not here gives the primary status' own meaning, never an exception.
"""

from __future__ import annotations

from holdfast.core.model import JobState

_BY_BOTH: dict[tuple[str, str], JobState] = {
    ("InProgress", "Pending"): JobState.PENDING,
    ("InProgress", "Starting"): JobState.STARTING,
    ("InProgress", "LaunchingMLInstances"): JobState.STARTING,
    ("InProgress", "PreparingTrainingStack"): JobState.STARTING,
    ("InProgress", "DownloadingTrainingImage"): JobState.DOWNLOADING,
    ("InProgress", "Downloading"): JobState.DOWNLOADING,
    ("InProgress", "Training"): JobState.TRAINING,
    ("InProgress", "Updating"): JobState.RETRYING,
    ("InProgress", "Restarting"): JobState.RETRYING,
    ("InProgress", "Interrupted"): JobState.INTERRUPTED,
    ("InProgress", "Uploading"): JobState.UPLOADING,
    # A job that ran out of time is Stopped, not Failed.
    ("Stopped", "MaxRuntimeExceeded"): JobState.MAX_RUNTIME,
    ("Stopped", "MaxWaitTimeExceeded"): JobState.MAX_WAIT,
}

_BY_STATUS: dict[str, JobState] = {
    "Completed": JobState.COMPLETED,
    "Failed": JobState.FAILED,
    "Stopping": JobState.STOPPING,
    "Stopped": JobState.STOPPED,
    "Deleting": JobState.STOPPED,
}


def job_state(status: str, secondary: str) -> JobState:
    """UNKNOWN for words that this version does not know; UNKNOWN is never acted on."""
    return _BY_BOTH.get((status, secondary)) or _BY_STATUS.get(status, JobState.UNKNOWN)
