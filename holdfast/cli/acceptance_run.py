"""The part of `holdfast acceptance` that speaks to the account: from the first call to the last finding."""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType

from rich.console import Console

from holdfast.aws.acceptance.bench import Bench, Place
from holdfast.aws.acceptance.clients import AccountError, Clients, check_account, connect
from holdfast.aws.acceptance.session import Session
from holdfast.aws.errors import FAILED_READ, words_of
from holdfast.cli import acceptance_view as view
from holdfast.cli.acceptance import FAILED, INTERRUPTED, Asked, RefusedError, say_and_return
from holdfast.cli.deploy import DeployFailedError, deploy
from holdfast.cli.offline import source_tree, templates
from holdfast.core.acceptance.pace import pace_of
from holdfast.core.acceptance.probes import judge_all, trials_of
from holdfast.core.acceptance.recording import render_recording
from holdfast.core.acceptance.seen import Missing, Seen


def account_of(asked: Asked) -> Clients:
    """Clients of the account that the config names. Raises RefusedError for credentials of another one."""
    clients = connect(asked.config.region)
    try:
        check_account(clients.sts, asked.config.account)
    except AccountError as problem:
        raise RefusedError(str(problem)) from None
    return clients


def run(console: Console, asked: Asked, clients: Clients, *, skip_deploy: bool, unattended: bool) -> int:
    before = signal.signal(signal.SIGTERM, _as_ctrl_c)
    try:
        return _run(console, asked, clients, skip_deploy=skip_deploy, unattended=unattended)
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(console: Console, asked: Asked, clients: Clients, *, skip_deploy: bool, unattended: bool) -> int:
    try:
        if not skip_deploy:
            deploy(source_tree(), asked.account, asked.config, unattended=unattended)
    except DeployFailedError as problem:
        return say_and_return(FAILED, str(problem))
    except KeyboardInterrupt:
        return say_and_return(INTERRUPTED, "interrupted while deploying; no job was started")
    began = time.monotonic()

    def say(words: str) -> None:
        console.print(f"{time.monotonic() - began:7.1f} s  {words}", markup=False)

    bench = Bench(_place(asked), clients, pace_of(asked.config.kind), time.time, threading.Event(), say)
    keeper = _Keeper(asked)
    session = Session(
        bench, template=min(templates(source_tree(), asked.config)), jobs_folder=source_tree() / "acceptance_jobs",
        on_seen=keeper.keep,
    )  # fmt: skip
    code = 0
    try:
        for name in bench.stop_earlier():
            say(f"{name}, which an earlier acceptance left behind, is being stopped")
        session.run(trials_of(asked.probes))
    except KeyboardInterrupt:
        say("interrupted: stopping what was started")
        code = INTERRUPTED
    except FAILED_READ as error:
        code = say_and_return(FAILED, f"AWS lets nothing begin: {words_of(error)}")
    finally:
        _end(session, bench, say)
    view.print_findings(console, keeper.recording, asked.probes)
    if keeper.recording.findings:
        console.print(f"recorded in {asked.out}; the same command goes on with what has no answer", markup=False)
    return code


def _end(session: Session, bench: Bench, say: Callable[[str], None]) -> None:
    try:
        left = session.end()
    except KeyboardInterrupt:
        # Whoever presses it twice wants out at once; what it costs is bounded by the jobs themselves.
        left = [f"perhaps job {name}; it ends by itself at its MaxRuntimeInSeconds" for name in bench.jobs]
        left += [f"perhaps role {name}" for name in bench.roles]
    for words in left:
        say(f"left: {words}")


def _place(asked: Asked) -> Place:
    config = asked.config
    uid = uuid.uuid4().hex[:6]
    return Place(config, asked.team, asked.image, config.images[asked.image], asked.plan.instance_type, uid)


class _Keeper:
    """Writes the recording anew after each trial, so that whatever happens next loses nothing."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._seen: dict[str, Seen | Missing] = {}
        self.recording = asked.recording

    def keep(self, trial: str, seen: Seen | Missing) -> None:
        self._seen[trial] = seen
        found = judge_all(self._seen, self._asked.probes)
        self.recording = self.recording.with_findings(found, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
        out = self._asked.out
        out.parent.mkdir(parents=True, exist_ok=True)
        written = out.with_name(f"{out.name}.part")
        written.write_text(render_recording(self.recording), encoding="utf-8")
        written.replace(out)


def _as_ctrl_c(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
