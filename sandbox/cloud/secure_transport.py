"""The http endpoint counts as TLS.

Policies that demand TLS (`enforce_ssl`, CDK's own bootstrap bucket) deny every request on a plain http endpoint, with
IAM enforced. The sandbox listens on loopback without certificates and says to MiniStack what a TLS-terminating load
balancer would say. So `aws:SecureTransport` is always true here: that one condition is not tested by the sandbox.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]

_FORWARDED_PROTO = b"x-forwarded-proto"


def behind_tls(app: Asgi) -> Asgi:
    """`app`, with every http request marked as one that came over TLS."""

    async def marked(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [(name, value) for name, value in scope["headers"] if name.lower() != _FORWARDED_PROTO]
            scope = {**scope, "headers": [*headers, (_FORWARDED_PROTO, b"https")]}
        await app(scope, receive, send)

    return marked
