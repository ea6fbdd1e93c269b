"""The other end of a custom resource's ResponseURL, on a loopback port."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class CloudFormation:
    """Keeps the answers that it is given. Refuses the first `refusals` answers, as a busy S3 would."""

    url: str = ""
    refusals: int = 0
    answers: list[dict[str, Any]] = field(default_factory=list)
    content_types: list[str | None] = field(default_factory=list)

    def event(self, kind: str, **more: str) -> dict[str, Any]:
        return {
            "RequestType": kind,
            "RequestId": "request",
            "StackId": "stack",
            "LogicalResourceId": "Bundle",
            "ResponseURL": self.url,
            **more,
        }


@contextmanager
def listening() -> Iterator[CloudFormation]:
    service = CloudFormation()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if service.refusals:
                service.refusals -= 1
                self.send_error(503)
                return
            service.answers.append(json.loads(body))
            service.content_types.append(self.headers["Content-Type"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
