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


# FailureReason in SageMaker's own words, told by how it begins: what stands after "AlgorithmError: " is the script's
# own text, which may quote any of these. Most telling first; texts as quoted by public users where the source
# says so.
OF_FAILURE_REASON: tuple[Signature, ...] = (
    _signature(
        "capacity",
        r"^(?:CapacityError|InsufficientCapacityError)\b",
        Cause.CAPACITY,
        "AWS has no free instances of this type here at the moment.",
        "the SageMaker SDK raises CapacityError on this text",
    ),
    _signature(
        "internal-server-error",
        r"^InternalServerError\b",
        Cause.PLATFORM,
        "SageMaker failed inside; the code is not at fault.",
        "botocore: RetryStrategy covers InternalServerError only",
    ),
    _signature(
        "hardware-repair",
        r"(?i)^(?!AlgorithmError).{0,200}(?:hardware failure|unhealthy instance|health check fail)",
        Cause.HARDWARE,
        "SageMaker found a broken host.",
        "status messages quoted in botocore's DescribeTrainingJob",
    ),
    _signature(
        "role-permission",
        r"^ClientError: .{0,400}(?:AccessDenied|is not authorized to perform)",
        Cause.USER_ERROR,
        "The job's role was denied a call. If the manifest asks for what is not its team's, change that; else somebody "
        "has to give the role its permission back. A changed manifest resumes the run from its last sealed checkpoint.",
        "S3's code, as SageMaker quotes it: huggingface/notebooks#138; IAM's sentence",
    ),
    _signature(
        "artifact-upload",
        r"^ClientError: Artifact upload failed",
        Cause.USER_ERROR,
        "Training ended, but what it left in /opt/ml/model or /opt/ml/output could not be uploaded; keep checkpoints "
        "out of the model folder.",
        "huggingface/notebooks#138",
    ),
    _signature(
        "host-memory",
        r"^ClientError: Please use an instance type with more memory",
        Cause.USER_ERROR,
        "A host ran out of memory; the same job will run out of it again.",
        "text matched by grand-challenge.org in production",
    ),
    _signature(
        "client-error",
        r"^ClientError:",
        Cause.USER_ERROR,
        "SageMaker could not start the job with this data, image or role.",
        "SageMaker's prefix for errors of the request's author",
    ),
)

# An exception's own line: `ValueError: ...`, with the rank that torchrun puts before it. A line that only mentions an
# error, such as "skipping sample 17: KeyError", is none.
_RAISED = r"^(?:\[[^\]]{1,40}\]:? ?)?(?:[A-Za-z_][A-Za-z0-9_]{0,60}\.){0,8}"

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
        _RAISED + r"(?:ModuleNotFoundError|ImportError): ",
        Cause.USER_ERROR,
        "A Python module is missing in the image or the code.",
        "Python",
    ),
    _signature(
        "code-error",
        _RAISED
        + r"(?:SyntaxError|IndentationError|NameError|AttributeError|TypeError|KeyError|ValueError|AssertionError"
        + r"|IndexError|ZeroDivisionError|NotImplementedError|UnicodeDecodeError)(?::|$)",
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
        r"^(?:\[holdfast\] )?Holdfast: ",
        Cause.USER_ERROR,
        "Holdfast's agent could not start the script.",
        "holdfast_agent",
    ),
    _signature(
        "ended-on-request",
        r"exit code:? 85\b",
        Cause.HANG,
        "The agent ended it, as the watcher had asked for a hang.",
        "holdfast_agent.contract: EXIT_ENDED_ON_REQUEST",
    ),
    _signature(
        "fenced",
        r"exit code:? 86\b",
        Cause.PLATFORM,
        "A newer attempt holds the lease on its checkpoints, so this one did not start.",
        "holdfast_agent.contract: EXIT_FENCED",
    ),
    _signature(
        "bad-options",
        r"ended with exit code 2\b|error: unrecognized arguments|error: the following arguments are required",
        Cause.USER_ERROR,
        "The script does not take the options that it was given: check hyperparameters.",
        "Python's argparse exits with 2",
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
        r"signal 9\b|SIGKILL|(?i:exit code:? 137\b)",
        Cause.HARDWARE,
        "A process was killed from outside: the host ran out of memory or died.",
        "sagemaker-training-toolkit maps 137 to SIGKILL",
    ),
)
