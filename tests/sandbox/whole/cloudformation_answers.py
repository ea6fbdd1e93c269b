"""The place to which a custom resource's function sends its answer, as CloudFormation's presigned URL is one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Answers:
    """`url` takes PUTs; `all` holds their bodies, oldest first."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.all: list[dict[str, Any]] = []


@contextmanager
def taking_answers() -> Iterator[Answers]:
    """On a free port of 127.0.0.1 until the block ends."""

    class Taker(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            answers.all.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing: pytest shows what is of interest."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taker)
    answers = Answers(f"http://127.0.0.1:{server.server_address[1]}/answer")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
