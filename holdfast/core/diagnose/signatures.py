"""What is known of how jobs die: data, not code. The first signature that matches decides.

Each holds a pattern for SageMaker's FailureReason or for a log line, the cause it stands for, and what it means for a
person. Patterns have no nested repetition, so that none can be made to backtrack by a hostile log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from holdfast.core.model import Cause


@dataclass(frozen=True)
class Signature:
    id: str
    pattern: re.Pattern[str]
    cause: Cause
    meaning: str
    source: str


def _signature(identity: str, pattern: str, cause: Cause, meaning: str, source: str) -> Signature:
    return Signature(identity, re.compile(pattern), cause, meaning, source)


# FailureReason, most telling first. Texts as quoted by public users of the API where the source says so.
OF_FAILURE_REASON: tuple[Signature, ...] = (
    _signature(
        "capacity",
        r"CapacityError|InsufficientCapacityError|Insufficient capacity",
        Cause.CAPACITY,
        "AWS has no free instances of this type here at the moment.",
        "the SageMaker SDK raises CapacityError on this text",
    ),
    _signature(
        "internal-server-error",
        r"InternalServerError",
        Cause.PLATFORM,
        "SageMaker failed inside; the code is not at fault.",
        "botocore: RetryStrategy covers InternalServerError only",
    ),
    _signature(
        "hardware-repair",
        r"(?i)hardware failure|unhealthy instance|health check fail",
        Cause.HARDWARE,
        "SageMaker found a broken host.",
        "status messages quoted in botocore's DescribeTrainingJob",
    ),
    _signature(
        "artifact-upload",
        r"Artifact upload failed",
        Cause.USER_ERROR,
        "Training ended, but what it left in /opt/ml/model or /opt/ml/output could not be uploaded; keep checkpoints "
        "out of the model folder.",
        "huggingface/notebooks#138",
    ),
    _signature(
        "host-memory",
        r"Please use an instance type with more memory",
        Cause.USER_ERROR,
        "A host ran out of memory; the same job will run out of it again.",
        "text matched by grand-challenge.org in production",
    ),
    _signature(
        "client-error",
        r"ClientError:",
        Cause.USER_ERROR,
        "SageMaker could not start the job with this data, image or role.",
        "SageMaker's prefix for errors of the request's author",
    ),
)

# Log lines and the failure file's text. Hardware before user error: a dying GPU also ends in a Python traceback.
OF_LOG: tuple[Signature, ...] = (
    _signature(
        "gpu-lost",
        r"Xid \(PCI|GPU has fallen off the bus|uncorrectable ECC error|NVRM: .{0,80}GPU.{0,40}lost",
        Cause.HARDWARE,
        "A GPU failed.",
        "NVIDIA's Xid catalogue",
    ),
    _signature(
        "import-error",
        r"(?:ModuleNotFoundError|ImportError): ",
        Cause.USER_ERROR,
        "A Python module is missing in the image or the code.",
        "Python",
    ),
    _signature(
        "code-error",
        r"(?:SyntaxError|IndentationError|NameError|AttributeError|TypeError|KeyError|ValueError|AssertionError"
        r"|FileNotFoundError|IndexError|ZeroDivisionError|NotImplementedError|UnicodeDecodeError)(?::|\b)",
        Cause.USER_ERROR,
        "The training script raised an error that it will raise again.",
        "Python",
    ),
    _signature(
        "gpu-memory",
        r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError",
        Cause.USER_ERROR,
        "The model does not fit the GPU's memory with these settings.",
        "PyTorch",
    ),
    _signature(
        "bad-launch",
        r"Holdfast: ",
        Cause.USER_ERROR,
        "Holdfast's agent could not start the script.",
        "holdfast_agent",
    ),
    _signature(
        "peer-died",
        r"Connection reset by peer|Connection closed by (?:remote )?peer"
        r"|NCCL.{0,200}(?:remote process exited|unhandled system error)"
        r"|Timed out waiting .{0,40}for (?:send|recv)|Watchdog caught collective operation timeout",
        Cause.PLATFORM,
        "A rank lost its peers: a host died or the network failed.",
        "gloo and NCCL texts; NVIDIA/nccl#795",
    ),
    _signature(
        "killed",
        r"signal 9\b|SIGKILL|exit code:? 137\b|Exit Code: 137\b",
        Cause.HARDWARE,
        "A process was killed from outside: the host ran out of memory or died.",
        "sagemaker-training-toolkit maps 137 to SIGKILL",
    ),
)
