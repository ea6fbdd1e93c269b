import asyncio
from typing import Any

from sandbox.cloud.secure_transport import behind_tls


def _seen(scope: dict[str, Any]) -> dict[str, Any]:
    seen: list[Any] = []

    async def app(given: Any, _receive: Any, _send: Any) -> None:
        seen.append(given)

    asyncio.run(behind_tls(app)(scope, None, None))
    return dict(seen[0])


def test_an_http_request_is_marked_as_tls() -> None:
    assert (b"x-forwarded-proto", b"https") in _seen({"type": "http", "headers": [(b"host", b"x")]})["headers"]


def test_a_client_cannot_unmark_it() -> None:
    headers = _seen({"type": "http", "headers": [(b"X-Forwarded-Proto", b"http")]})["headers"]
    assert headers == [(b"x-forwarded-proto", b"https")]


def test_other_traffic_passes_untouched() -> None:
    scope = {"type": "lifespan"}
    assert _seen(scope) == scope
