"""`make sandbox` as a person uses it: paste what it prints, see a run succeed, end it with Ctrl-C."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.core.read_config import read_config
from sandbox.__main__ import CONFIG, instructions, wait
from sandbox.cloud.lifecycle import Cloud, CloudError
from tests.docs.pages import OWN_CODE, write_files
from tests.sandbox.cloud.processes import heed_ctrl_c
from tests.sandbox.test_demo import processes_that_mention

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass
class Standing:
    """The command, with its output as it comes."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A thread, so that a full pipe never stops the command and waiting for a line can end.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def until(self, words: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not any(words in line for line in self.lines):
            if time.monotonic() > deadline or (self.process.poll() is not None and not self._reader.is_alive()):
                pytest.fail(f"never said {words!r}:\n" + "\n".join(self.lines[-30:]))
            time.sleep(0.05)

    def command(self, *words: str) -> str:
        """The printed line, to be pasted, that holds all of the words."""
        return next(line.strip() for line in self.lines if all(word in line for word in words))

    def close(self) -> None:
        self._reader.join(10)
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def standing() -> Iterator[Standing]:
    process = subprocess.Popen(
        [sys.executable, "-m", "sandbox"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=heed_ctrl_c,  # noqa: PLW1509 - no threads of ours live yet, and it only sets a signal
    )
    stands = Standing(process)
    try:
        yield stands
    finally:
        process.kill()  # the emulator ends itself when it is gone
        process.wait()
        stands.close()


def paste(folder: Path, export: str, line: str) -> subprocess.CompletedProcess[str]:
    """Into a shell that knows nothing of AWS but what was pasted before."""
    return subprocess.run(
        ["/bin/sh", "-c", f"{export}\n{line}"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.mark.end_to_end
def test_what_it_prints_takes_a_script_to_a_run_that_succeeds_and_ctrl_c_leaves_nothing(
    standing: Standing, tmp_path: Path
) -> None:
    write_files(tmp_path, OWN_CODE)
    subprocess.run(["tar", "czf", "code.tar.gz", "-C", "mycode", "."], cwd=tmp_path, check=True)
    standing.until("print(s3.get_object", seconds=120)
    export = standing.command("export AWS_ACCESS_KEY_ID")

    for words in ("'code.tar.gz'", "'my-run.yaml'"):
        done = paste(tmp_path, export, standing.command("upload_file", words))
        assert done.returncode == 0, done.stderr
    status = {}
    deadline = time.monotonic() + 120
    while status.get("phase") != "succeeded" and time.monotonic() < deadline:
        time.sleep(0.5)
        told = paste(tmp_path, export, standing.command("print(s3.get_object")).stdout
        status = json.loads(told) if told else {}
    assert status.get("phase") == "succeeded", status
    assert status["step"] == 60

    state = next(line for line in standing.lines if "its log is" in line).split("its log is ")[1].split("/emulator")[0]
    assert processes_that_mention(state)
    standing.process.send_signal(signal.SIGINT)
    assert standing.process.wait(timeout=60) == 0
    assert processes_that_mention(state) == []


def test_the_lines_for_the_aws_command_name_the_same_objects_as_those_without_it(tmp_path: Path) -> None:
    config = read_config((REPOSITORY / CONFIG).read_text())
    endpoint = "http://127.0.0.1:4566"
    cloud = a_cloud(endpoint, tmp_path)
    lines = [line.strip() for line in instructions(cloud, config, python="python3").splitlines()]
    copies = [shlex.split(line) for line in lines if line.startswith("aws ")]
    without = [line for line in lines if line.startswith("python3 ")]
    assert [words[:5] for words in copies] == [["aws", "--endpoint-url", endpoint, "s3", "cp"]] * 3
    assert len(without) == 3
    for (*_, source, target), other in zip(copies, without, strict=True):
        bucket, _, key = (source if target == "-" else target).removeprefix("s3://").partition("/")
        assert bucket == config.bucket
        assert f"'{bucket}'" in other
        assert f"'{key}'" in other


def a_cloud(endpoint: str, folder: Path) -> Cloud:
    return Cloud(endpoint_url=endpoint, region="us-east-1", account="000000000000", state_dir=folder, pid=1)


def test_a_cloud_that_is_gone_is_told_and_not_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cloud = a_cloud(f"http://127.0.0.1:{listener.getsockname()[1]}", tmp_path)
        told: list[str] = []

        def wait_for_its_end() -> None:
            try:
                wait(cloud, every_seconds=0.05)
            except CloudError as error:
                told.append(str(error))

        waiting = threading.Thread(target=wait_for_its_end)
        waiting.start()
        waiting.join(0.5)
        assert told == [], "waits for as long as something listens"
    waiting.join(10)
    assert [words.startswith("the embedded cloud is gone") for words in told] == [True]
