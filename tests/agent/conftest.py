"""An S3 server on loopback, for launchers that run as real processes and speak to it through boto3.

MiniStack's, in a process of its own: it evaluates If-Match and If-None-Match on a PutObject as S3 does.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
import pytest

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

BUCKET = "holdfast-dev-123456789012-us-east-1"


@dataclass(frozen=True)
class S3Server:
    environment: dict[str, str]

    def put(self, key: str, text: str) -> None:
        self._client().put_object(Bucket=BUCKET, Key=key, Body=text.encode())

    def text(self, key: str) -> str:
        return str(self._client().get_object(Bucket=BUCKET, Key=key)["Body"].read().decode())

    def delete(self, key: str) -> None:
        self._client().delete_object(Bucket=BUCKET, Key=key)

    def create_bucket(self) -> None:
        self._client().create_bucket(Bucket=BUCKET)

    def _client(self) -> S3Client:
        return boto3.client(
            "s3",
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )

    def uri(self, key: str) -> str:
        return f"s3://{BUCKET}/{key}"


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SERVICES": "s3",
        "LOG_LEVEL": "ERROR",
        # None of MiniStack's other listeners, and no look at the machine's containers.
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "DOCKER_HOST": "unix:///nonexistent",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "ministack"], env={**os.environ, **settings}, stdout=subprocess.DEVNULL
    )
    try:
        wait_for_port(port, process)
        server = S3Server(
            {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "testing",
                "AWS_SECRET_ACCESS_KEY": "testing",
            }
        )
        server.create_bucket()
        yield server
    finally:
        process.kill()
        process.wait()


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"the S3 server did not start (exit code {process.poll()})")
