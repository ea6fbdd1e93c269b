"""The launcher: one on every host, as the container's only entry, whatever the image.

Checks and unpacks the code, takes the lease (leader only), starts the user's script, passes SIGTERM on, ends the job
when the watcher asks for it, and leaves a failure file that says what happened. It never restarts anything itself.

Its own environment variables, beside the job's (holdfast_agent.contract.JobContext):
HOLDFAST_STOP_GRACE_SECONDS (100: SageMaker sends SIGKILL 120 s after SIGTERM), HOLDFAST_END_GRACE_SECONDS (10),
HOLDFAST_CONTROL_POLL_SECONDS (5), MASTER_PORT (29400), SAGEMAKER_BASE_DIR (/opt/ml).
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Callable

from holdfast_agent.beat import Beat
from holdfast_agent.command import DEFAULT_MASTER_PORT, script_command, script_environment
from holdfast_agent.contract import (
    EXIT_BAD_LAUNCH,
    EXIT_ENDED_ON_REQUEST,
    EXIT_FENCED,
    ContractError,
    EndRequest,
    JobContext,
)
from holdfast_agent.control import ControlPoll
from holdfast_agent.failure import REFUSAL, ErrorTail, describe_failure, root_cause, shell_code, write_failure
from holdfast_agent.hosts import Cluster, ConfigurationError, await_name, count_gpus, read_cluster, read_hyperparameters
from holdfast_agent.lease import Fence, FencedError, LeaseUnknownError, take_lease
from holdfast_agent.lines import say
from holdfast_agent.objects import ObjectStore, ObjectsUnavailableError, S3Objects
from holdfast_agent.processes import Script, adopt_orphans
from holdfast_agent.source import SourceError, unpack_source

EXIT_STOPPED = 128 + signal.SIGTERM
_LOOK_SECONDS = 0.1
_KILL_AGAIN_SECONDS = 10.0
_NAME_PATIENCE_SECONDS = 300.0
OpenObjects = Callable[[], ObjectStore]


class LaunchError(Exception):
    """The script is not started, in words; `code` is the launcher's exit code. `same_again`: it would be refused at
    every start, because of what the job was given. A host that did not come or a newer attempt may differ next time."""

    def __init__(self, words: str, code: int = EXIT_BAD_LAUNCH, *, same_again: bool = True) -> None:
        super().__init__(words)
        self.code = code
        self.same_again = same_again


@dataclass(frozen=True)
class Graces:
    """Seconds from SIGTERM to SIGKILL when SageMaker stops the job, and when the watcher asked for its end; seconds
    from one look at the control object to the next."""

    stop_seconds: float = 100.0
    end_seconds: float = 10.0
    control_poll_seconds: float = 5.0

    @staticmethod
    def from_env(env: Mapping[str, str]) -> Graces:
        return Graces(
            _seconds(env, "HOLDFAST_STOP_GRACE_SECONDS", 100.0),
            _seconds(env, "HOLDFAST_END_GRACE_SECONDS", 10.0),
            _seconds(env, "HOLDFAST_CONTROL_POLL_SECONDS", 5.0),
        )


class Asked:
    """What came from outside while the script runs: SIGTERM, or the watcher's request. Plain fields and no Event: a
    signal handler that sets an Event on which its own thread waits can deadlock on the Event's lock."""

    def __init__(self) -> None:
        self.to_stop = False
        self.to_end: EndRequest | None = None

    def on_sigterm(self, _number: int, _frame: FrameType | None) -> None:
        self.to_stop = True

    def on_request(self, request: EndRequest) -> None:
        self.to_end = request


def main() -> int:
    """Entry of the agent channel: the launcher's exit code for this container's environment."""
    env = dict(os.environ)
    base = Path(env.get("SAGEMAKER_BASE_DIR") or "/opt/ml")
    return launch(env, base, Path(__file__).resolve().parent.parent, lambda: S3Objects(env))


def launch(env: Mapping[str, str], base: Path, package_folder: Path, open_objects: OpenObjects) -> int:
    """Runs the job's script on this host and returns the exit code: the script's own (128 + n for a signal n),
    85 ended on request, 86 fenced, 87 not started. `package_folder` holds the package holdfast_agent."""
    asked = Asked()
    before = signal.signal(signal.SIGTERM, asked.on_sigterm)
    try:
        return _launch(env, base, package_folder, open_objects, asked)
    except LaunchError as refused:
        words = f"{REFUSAL if refused.same_again else ''}{_host_words(base)}{refused}"
        say(words)
        if not asked.to_stop:
            write_failure(base, words)
        return refused.code
    finally:
        signal.signal(signal.SIGTERM, before)


def _launch(env: Mapping[str, str], base: Path, package_folder: Path, open_objects: OpenObjects, asked: Asked) -> int:
    try:
        context = JobContext.from_env(env)
        graces = Graces.from_env(env)
        cluster = read_cluster(base / "input" / "config" / "resourceconfig.json")
        hyperparameters = read_hyperparameters(base / "input" / "config" / "hyperparameters.json")
        folder = base / f"code-{context.code_sha256[:12]}"
        unpack_source(base / "input" / "data" / "code" / "source.tar.gz", context.code_sha256, folder)
    except (ContractError, ConfigurationError, SourceError) as error:
        raise LaunchError(str(error)) from None
    _check_script(context, folder)
    fence, incarnation = _take_lease(context, cluster, open_objects)
    _await_leader(context, cluster, asked)

    # Every host says start and end in its own log; from here to there the lines are the script's.
    beat = Beat(context.attempt, speaks=True)
    beat.phase("start", detail=_word(f"host={cluster.current}"))
    processes = context.processes_per_host or count_gpus() or 1
    tail = ErrorTail()
    adopt_orphans()
    script = Script(
        script_command(
            sys.executable,
            context=context,
            cluster=cluster,
            processes=processes,
            master_port=env.get("MASTER_PORT") or DEFAULT_MASTER_PORT,
            hyperparameters=hyperparameters,
        ),
        folder,
        script_environment(env, base, package_folder, cluster, incarnation),
        has_workers=context.launch == "torchrun",
        on_error_line=tail.take,
    )
    control = _start_control(context, open_objects, graces, asked)
    try:
        ended = _wait(script, asked, graces)
    finally:
        if control is not None:
            control.stop()
        script.clean_up()
    result = _conclude(ended, tail.lines(), fence, base, cluster.current)
    beat.phase("end", detail=f"exit={result}")
    return result


def _host_words(base: Path) -> str:
    try:
        return f"host {read_cluster(base / 'input' / 'config' / 'resourceconfig.json').current}: "
    except ConfigurationError:
        return ""  # which may be the very reason of the refusal


def _check_script(context: JobContext, folder: Path) -> None:
    entry = (folder / context.entry_point).resolve()
    if folder.resolve() not in entry.parents or not entry.is_file():
        raise LaunchError(f"entry point {context.entry_point!r} is not a file of the code archive")
    if context.launch not in ("torchrun", "python"):
        raise LaunchError(f"launch {context.launch!r} is unknown; use torchrun or python")
    if context.launch == "torchrun" and importlib.util.find_spec("torch") is None:
        raise LaunchError("launch torchrun needs torch in the image; use an image with torch, or launch: python")


def _take_lease(context: JobContext, cluster: Cluster, open_objects: OpenObjects) -> tuple[Fence | None, int]:
    """(fence, incarnation) on the leader; (None, 0) elsewhere and where fencing is off, which is said in words."""
    if not cluster.is_leader:
        return None, 0
    if not context.lease_uri:
        say("fencing is off: the job was given no lease")
        return None, 0
    try:
        objects = open_objects()
        lease = take_lease(objects, context.lease_uri, context.attempt)
    except FencedError as fenced:
        raise LaunchError(str(fenced), EXIT_FENCED, same_again=False) from None
    except (ObjectsUnavailableError, LeaseUnknownError) as error:
        say(f"fencing is off, an older attempt that is still alive could write too: {error}")
        return None, 0
    say(f"lease taken: attempt {lease.attempt}, incarnation {lease.incarnation}")
    return Fence(objects, context.lease_uri, lease), lease.incarnation


def _await_leader(context: JobContext, cluster: Cluster, asked: Asked) -> None:
    if context.launch != "torchrun" or len(cluster.hosts) == 1:
        return
    if not await_name(cluster.leader, _NAME_PATIENCE_SECONDS, give_up=lambda: asked.to_stop):
        if asked.to_stop:
            raise LaunchError("stopped before the script was started", EXIT_STOPPED, same_again=False)
        words = f"host name {cluster.leader!r} did not resolve within {_NAME_PATIENCE_SECONDS:.0f} s"
        raise LaunchError(words, same_again=False)


def _start_control(context: JobContext, open_objects: OpenObjects, graces: Graces, asked: Asked) -> ControlPoll | None:
    if not context.control_uri:
        say("end-yourself requests are not read: the job was given no control object")
        return None
    poll = ControlPoll(
        open_objects=open_objects,
        uri=context.control_uri,
        job=context.job,
        attempt=context.attempt,
        every_seconds=graces.control_poll_seconds,
        on_request=asked.on_request,
        say=say,
    )
    poll.start()
    return poll


@dataclass(frozen=True)
class Ended:
    """How the script ended: its exit code, and what it had been asked before it did (not what came too late)."""

    code: int
    on_request: EndRequest | None
    on_sigterm: bool


def _wait(script: Script, asked: Asked, graces: Graces) -> Ended:
    """Until the script's end, which is brought about where that was asked for."""
    ending: EndRequest | None = None
    stopping = False
    kill_at = math.inf
    while True:
        code = script.poll()
        if code is not None:
            return Ended(code, ending, stopping)
        now = time.monotonic()
        if asked.to_end is not None and ending is None:
            ending = asked.to_end
            say(f"asked to end this job: {ending.reason}; SIGTERM now, SIGKILL in {graces.end_seconds:.0f} s")
            kill_at = min(kill_at, now + graces.end_seconds)
            script.ask_to_end()
        elif asked.to_stop and not stopping:
            stopping = True
            say(f"SIGTERM: passed on to the script, which has {graces.stop_seconds:.0f} s")
            kill_at = min(kill_at, now + graces.stop_seconds)
            script.ask_to_end()
        if now >= kill_at:
            say("the script did not end in time: SIGKILL")
            script.kill()
            kill_at = now + _KILL_AGAIN_SECONDS
        time.sleep(_LOOK_SECONDS)


def _conclude(ended: Ended, lines: list[str], fence: Fence | None, base: Path, host: str) -> int:
    """The launcher's exit code, with the failure file where the job failed."""
    if ended.on_request is not None:
        write_failure(base, f"host {host}: ended on the watcher's request: {ended.on_request.reason}")
        return EXIT_ENDED_ON_REQUEST
    if ended.code == 0:
        return 0
    if ended.on_sigterm:
        return EXIT_STOPPED
    if fence is not None:
        try:
            fence.check()
        except FencedError as fenced:
            write_failure(base, f"host {host}: {fenced}")
            return EXIT_FENCED
        except LeaseUnknownError as unknown:
            say(f"whether this attempt was fenced is not known: {unknown}")
    words = describe_failure(host, ended.code, lines)
    say(words)
    write_failure(base, words)
    cause = root_cause(lines)
    # torchrun ends with 1 whatever happened to its worker; the worker's own code tells more (137: killed).
    return shell_code(cause.exit_code if cause is not None and cause.exit_code != 0 else ended.code)


def _word(text: str) -> str:
    return re.sub(r"\s", "_", text)[:200]


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name, "")
    if not text:
        return default
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text):
        raise ContractError(f"{name}={text!r} is not a number of seconds")
    return float(text)
