"""The middleware before every route: access control, security headers, one line of log, errors as JSON."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import re
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import count

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docnmt.apps.serve.counters import Metrics
from docnmt.apps.serve.http_error import Refused, Told
from docnmt.apps.serve.request_body import read_body

#: Paths that need no token: the page, which contains no data, and descriptions of the service.
OPEN = ("/", "/health", "/ready", "/openapi.json", "/languages", "/frontend/settings")
#: Paths with this beginning need no token, because they contain a key that cannot be guessed.
SECRET = "/download_file/"
#: The schemes before the token in the Authorization header; the second one is DeepL's.
SCHEMES = ("bearer", "deepl-auth-key")
#: Upper bounds for a body that is read only to find the key in it: bytes, and seconds until it has arrived.
KEY_BODY, KEY_SECONDS = 1 << 18, 10.0
#: The Host header: a name or an address, and perhaps a port.
HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?")
#: A function that returns the key in a body; "" if it has none.
KeyOf = Callable[[Request, bytes], Awaitable[str]]
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
    """An ASGI application that checks each request before another application answers it.

    Args:
        token: the secret that requests must have. None: no secret is needed, but the Host header must be a name in
            `hosts` or an IP address, so that no page of another site reaches the service under a name of its own (DNS
            rebinding).
        routes: their paths are the names in the log and the metrics. keys: by path, finds the token in the body of a
            POST. told: returns the form of errors for a path.
        ends: the context of a request, which turns its cancellation at shutdown into an error.
        places: holds a place in the queue for a client. proxied: True if a proxy is named.
    """

    def __init__(
        self, app: ASGIApp, *, token: str | None, hosts: Sequence[str], metrics: Metrics, routes: Sequence[Route],
        told: Callable[[str], Told | None], keys: Mapping[str, KeyOf],
        ends: Callable[[], AbstractContextManager[None]],
        places: Callable[[str | None], AbstractContextManager[float]], proxied: bool = False,
    ) -> None:  # fmt: skip
        self._app, self._token, self._metrics, self._told, self._keys = app, token, metrics, told, keys
        self._paths = {route.path: route.path_regex for route in routes}
        self._hosts = {"localhost", *(host.lower() for host in hosts)}
        self._numbers, self._ends, self._places, self._proxied = count(1), ends, places, proxied

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and log it."""
        if scope["type"] != "http":
            return
        number, begun, status = next(self._numbers), time.monotonic(), 0
        scope["state"] = {
            "log": {},
            "told": self._told(scope["path"]),
            "client": client_of(scope["client"][0] if scope.get("client") else "", proxied=self._proxied),
        }

        async def guarded(message: Message) -> None:
            """Send a message, with the headers that every answer has."""
            nonlocal status
            status = message.get("status", status)
            await send(secured(message))

        try:
            with self._ends():
                self._check(scope)
                receive = await self._proven(scope, receive)
                await self._app(scope, receive, guarded)
        except Refused as refused:
            scope["state"]["log"]["error"] = refused.code
            if not status:  # else uvicorn closes the connection, and the answer has no end
                await refused.response(scope)(scope, receive, guarded)
        except Exception:  # where it is the application's, Starlette has already sent an answer
            traceback.print_exc(file=sys.stderr)
            if not status:
                error = Refused(500, "internal", "something went wrong in the service; its log says more")
                await error.response(scope)(scope, receive, guarded)
        finally:
            self._note(scope, number, status, time.monotonic() - begun)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if "content-length" in headers and "transfer-encoding" in headers:  # two readers would find two bodies
            message = "a request has Content-Length or Transfer-Encoding, not both"
            raise Refused(400, "invalid_request", message, {"connection": "close"})
        if host and HOST.fullmatch(host) is None:
            raise Refused(400, "invalid_host", f"Host: expected a name or an address, got '{host[:80]}'")
        if self._token is None and not self._known(host):
            raise Refused(
                421, "unknown_host", f"this service is not called '{host[:80]}'; start it with --allowed-hosts NAME"
            )
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            raise Refused(403, "foreign_origin", "pages of other sites may not use this service")

    async def _proven(self, scope: Scope, receive: Receive) -> Receive:
        """Check the token, and return ASGI's `receive` for the application, which delivers a body that was read again.

        Raises:
            Refused: the token is missing or wrong.
        """
        path = scope["path"]
        if self._token is None or path in OPEN or path.startswith(SECRET):
            return receive
        request, secret = Request(scope, receive), ""
        if "authorization" in request.headers or scope["method"] != "POST" or path not in self._keys:
            scheme, _, secret = request.headers.get("authorization", "").partition(" ")
            secret = secret.strip() if scheme.lower() in SCHEMES else ""
        else:
            place = self._places(request.state.client)
            with place, contextlib.suppress(Refused):  # a body that is too long or too slow has no token
                body = await read_body(request, limit=KEY_BODY, seconds=KEY_SECONDS)
                secret, receive = await self._keys[path](request, body), again(body, receive)
        if not hmac.compare_digest(secret.encode(errors="replace"), self._token.encode()):
            message = "give the service's token: Authorization: Bearer TOKEN"
            raise Refused(401, "unauthorized", message, {"www-authenticate": "Bearer"}, why="" if secret else "no_key")
        return receive

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
        found = (path for path, pattern in self._paths.items() if pattern.match(scope["path"]))
        path = next(found, "other")
        self._metrics.requests.labels(path, str(status)).inc()
        self._metrics.seconds.labels(path).observe(seconds)
        facts = "".join(f" {name}={value}" for name, value in scope["state"]["log"].items())
        now = time.strftime("%Y-%m-%dT%H:%M:%S")
        print(
            f"{now} {number} {scope['method']} {path} {status or 'gone'} {seconds * 1000:.0f}ms{facts}",
            file=sys.stderr,
            flush=True,
        )


def client_of(address: str, *, proxied: bool) -> str | None:
    """Return what a client is known by: its address, or the network of an IPv6 address (/64), of which one has many.

    None: it is no other machine, or its requests come by a proxy on this machine that is not named; it has no share.
    """
    try:
        number = ipaddress.ip_address(address)
    except ValueError:
        return None
    if isinstance(number, ipaddress.IPv6Address):
        number = number.ipv4_mapped or ipaddress.IPv6Address(int(number) >> 64 << 64 if not number.is_loopback else 1)
    return None if number.is_loopback and not proxied else str(number)


def secured(message: Message) -> Message:
    """Return a message; if it begins an answer, with the headers that every answer has."""
    if message["type"] == "http.response.start":
        headers = MutableHeaders(scope=message)
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
    return message


def again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first delivers a body that was already read."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received
