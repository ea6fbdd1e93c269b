"""The life of an embedded cloud: start it, use it, and be sure that nothing of it stays behind.

    with running_cloud(new_state_dir(Path(".sandbox"))) as cloud:
        boto3.client("s3", **cloud.client_arguments())

How the end is guaranteed:

- The emulator runs in a session of its own, so the terminal's Ctrl-C reaches only the caller, which ends it in order.
- The caller holds the write end of a pipe. When the caller dies, by SIGTERM or SIGKILL too, the kernel closes it and
  the emulator ends itself in order.
- The emulator has a warden (`warden.py`) that kills the emulator's processes and its job hosts when it is gone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox.cloud.denials import Denial, read_denials
from sandbox.cloud.state import LOG_FILE, READY_FILE, new_state_dir

__all__ = ["Cloud", "CloudError", "new_state_dir", "running_cloud"]

START_SECONDS = 60.0
STOP_SECONDS = 20.0
"""Above the emulator's own limit for an orderly end, so that this is only reached when even that limit failed."""

_HEALTH_PATH = "/_ministack/health"
_POLL_SECONDS = 0.05
_REPOSITORY = Path(__file__).resolve().parents[2]


class CloudError(Exception):
    """The embedded cloud did not start; the text holds the end of its log."""


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """A running embedded AWS."""

    endpoint_url: str
    region: str
    account: str
    state_dir: Path
    pid: int
    """The emulator, which is also its process group."""

    @property
    def log_file(self) -> Path:
        return self.state_dir / LOG_FILE

    def denials(self) -> list[Denial]:
        """What IAM has denied to anybody so far, oldest first."""
        return read_denials(self.state_dir)

    def client_arguments(self) -> dict[str, str]:
        """Keyword arguments of `boto3.client` for the account's root user."""
        return {
            "endpoint_url": self.endpoint_url,
            "region_name": self.region,
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
        }

    def env(self, base: Mapping[str, str]) -> dict[str, str]:
        """`base` without its own AWS settings, and with this cloud's: for AWS command lines and the CDK's.

        The person's profiles are out of reach, so nothing started with this can touch a real account.
        """
        kept = {name: value for name, value in base.items() if not name.startswith(("AWS_", "CDK_"))}
        return {
            **kept,
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ENDPOINT_URL_S3": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            # The CDK's command line remembers accounts per access key, and every emulator has the same key.
            "CDK_HOME": str(self.state_dir / "cdk-home"),
            "CDK_DISABLE_VERSION_CHECK": "true",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DEFAULT_ACCOUNT": self.account,
            "CDK_DEFAULT_REGION": self.region,
        }


@contextmanager
def running_cloud(
    state_dir: Path,
    *,
    region: str = "us-east-1",
    account: str = "000000000000",
    planes: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Cloud]:
    """An embedded AWS on a free port of 127.0.0.1, for as long as the block runs.

    `planes` are the modules to plug in (default: those of `emulator.DEFAULT_PLANES`); `environment` is what the
    emulator, its functions and its job hosts may see of the caller's environment (default: PATH, LANG and TMPDIR).
    Raises CloudError if the emulator ends or stays silent instead of serving.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    parent_reads, parent_holds = os.pipe()
    given = environment if environment is not None else _visible(os.environ)
    command = _command(state_dir, region=region, account=account, planes=planes, parent_fd=parent_reads)
    try:
        process = _spawn(command, state_dir, given, parent_reads)
    finally:
        os.close(parent_reads)
    try:
        endpoint_url = _wait_until_served(process, state_dir)
        yield Cloud(
            endpoint_url=endpoint_url, region=region, account=account, state_dir=state_dir.absolute(), pid=process.pid
        )
    except BaseException as error:
        if _interrupts(error) > 1:
            _kill_group(process.pid)
        raise
    finally:
        try:
            _end(process)
        finally:
            os.close(parent_holds)


def _command(state_dir: Path, *, region: str, account: str, planes: Sequence[str] | None, parent_fd: int) -> list[str]:
    command = [sys.executable, "-m", "sandbox.cloud.emulator", "--state-dir", str(state_dir.absolute())]
    command += ["--region", region, "--account", account, "--parent-fd", str(parent_fd)]
    if planes is None:
        return command
    return command + ([argument for plane in planes for argument in ("--plane", plane)] or ["--no-planes"])


def _spawn(
    command: Sequence[str], state_dir: Path, environment: Mapping[str, str], parent_fd: int
) -> subprocess.Popen[bytes]:
    (state_dir / READY_FILE).unlink(missing_ok=True)
    with (state_dir / LOG_FILE).open("ab") as log:
        return subprocess.Popen(
            command,
            cwd=_REPOSITORY,
            env={**environment, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(parent_fd,),
            start_new_session=True,
        )


def _visible(environment: Mapping[str, str]) -> dict[str, str]:
    """Functions and job hosts inherit this: nothing by which a person's machine could change what they do."""
    return {name: environment[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in environment}


def _wait_until_served(process: subprocess.Popen[bytes], state_dir: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise CloudError(f"the embedded cloud ended at its start:\n{_log_tail(state_dir)}")
        endpoint_url = _announced(state_dir)
        if endpoint_url is not None and _is_healthy(endpoint_url):
            return endpoint_url
        time.sleep(_POLL_SECONDS)
    raise CloudError(f"the embedded cloud did not answer within {START_SECONDS:.0f} s:\n{_log_tail(state_dir)}")


def _announced(state_dir: Path) -> str | None:
    try:
        return str(json.loads((state_dir / READY_FILE).read_text())["endpoint_url"])
    except FileNotFoundError:
        return None


def _is_healthy(endpoint_url: str) -> bool:
    # Without a proxy: a person's http_proxy must not see, or fail, a request to loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(endpoint_url + _HEALTH_PATH, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def _log_tail(state_dir: Path, lines: int = 15) -> str:
    text = (state_dir / LOG_FILE).read_text(errors="replace")
    return "\n".join(text.splitlines()[-lines:])


def _interrupts(error: BaseException) -> int:
    """How often Ctrl-C was pressed: the second one mostly hits the tidying up that the first one set off, and whatever
    is raised while another error is on its way has that as its context."""
    before = _interrupts(error.__context__) if error.__context__ is not None else 0
    return before + isinstance(error, KeyboardInterrupt)


def _end(process: subprocess.Popen[bytes]) -> None:
    """In order first, then by force. A second Ctrl-C, before or while waiting, skips straight to force."""
    try:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        _kill_group(process.pid)
        process.wait()


def _kill_group(pgid: int) -> None:
    # All gone already; PermissionError is macOS's answer for a group of zombies.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, signal.SIGKILL)
