"""What stands before every route: who may ask, security headers, one line of log, errors as JSON."""

from __future__ import annotations

import hmac
import ipaddress
import sys
import time
import traceback
from collections.abc import Sequence
from itertools import count

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docnmt.apps.serve.counters import Metrics
from docnmt.apps.serve.http_error import Refused

#: What answers without a token: the page, which has no data, and what says how the service is.
OPEN = ("/", "/health", "/ready", "/openapi.json")
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


class Guard:
    """An ASGI application around another one.

    Args:
        token: what requests must bring; None: everybody may ask, and Host must be a name in `hosts` or an IP address,
            so that no page of another site reaches the service under a name of its own (DNS rebinding).
        paths: those that are logged and counted by name.
    """

    def __init__(
        self, app: ASGIApp, *, token: str | None, hosts: Sequence[str], metrics: Metrics, paths: Sequence[str]
    ) -> None:
        self._app, self._token, self._metrics, self._paths = app, token, metrics, set(paths)
        self._hosts = {"localhost", *(host.lower() for host in hosts)}
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        number, begun, status = next(self._numbers), time.monotonic(), 0
        scope["state"] = {"log": {}}

        async def guarded(message: Message) -> None:
            """Send, with the headers that every answer has."""
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, guarded)
        except Refused as refused:
            scope["state"]["log"]["error"] = refused.code
            await refused.response(scope, receive, guarded)
        except Exception:  # the application has answered
            traceback.print_exc(file=sys.stderr)
        finally:
            self._note(scope, number, status, time.monotonic() - begun)

    def _check(self, scope: Scope) -> None:
        headers, path = Headers(scope=scope), scope["path"]
        host, origin = headers.get("host", ""), headers.get("origin")
        if self._token is None and not self._known(host):
            raise Refused(
                421, "unknown_host", f"this service is not called '{host[:80]}'; start it with --allowed-hosts NAME"
            )
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            raise Refused(403, "foreign_origin", "pages of other sites may not use this service")
        if self._token is not None and path not in OPEN:
            scheme, _, secret = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(secret.strip().encode(), self._token.encode()):
                message = "give the service's token: Authorization: Bearer TOKEN"
                raise Refused(401, "unauthorized", message, {"www-authenticate": "Bearer"})

    def _known(self, host: str) -> bool:
        name = host.rsplit("]", 1)[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        if name.lower() in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _note(self, scope: Scope, number: int, status: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self._paths else "other"
        self._metrics.requests.labels(path, str(status)).inc()
        self._metrics.seconds.labels(path).observe(seconds)
        facts = "".join(f" {name}={value}" for name, value in scope["state"]["log"].items())
        now = time.strftime("%Y-%m-%dT%H:%M:%S")
        print(
            f"{now} {number} {scope['method']} {path} {status or 'gone'} {seconds * 1000:.0f}ms{facts}",
            file=sys.stderr, flush=True,
        )  # fmt: skip
