"""What stands before every route: who may ask, security headers, one line of log, errors as JSON."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docnmt.apps.serve.counters import Metrics
from docnmt.apps.serve.http_error import Refused, Told
from docnmt.apps.serve.request_body import read_body

#: What answers without a token: the page, which has no data, and what says how the service is.
OPEN = ("/", "/health", "/ready", "/openapi.json", "/languages", "/frontend/settings")
#: What answers whoever knows its address, which nobody can guess.
SECRET = "/download_file/"
#: What a token follows; the second one is DeepL's.
SCHEMES = ("bearer", "deepl-auth-key")
#: Bytes of a body that is read for the key in it, before anybody knows who sends it, and seconds in which it must come.
KEY_BODY, KEY_SECONDS = 1 << 18, 10.0
#: The key in a body, "" if it has none.
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
    """An ASGI application around another one.

    Args:
        token: what requests must bring; None: everybody may ask, and Host must be a name in `hosts` or an IP address,
            so that no page of another site reaches the service under a name of its own (DNS rebinding).
        routes: those whose paths are logged and counted by name. forms: how errors are told, by how paths begin, where
            that is not this service's own form. keys: finds the token in the body of a POST to one of these paths.
    """

    def __init__(
        self, app: ASGIApp, *, token: str | None, hosts: Sequence[str], metrics: Metrics, routes: Sequence[Route],
        forms: Mapping[str, Told], keys: Mapping[str, KeyOf],
    ) -> None:  # fmt: skip
        self._app, self._token, self._metrics, self._forms, self._keys = app, token, metrics, forms, keys
        self._paths = {route.path: route.path_regex for route in routes}
        self._hosts = {"localhost", *(host.lower() for host in hosts)}
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        number, begun, status = next(self._numbers), time.monotonic(), 0
        scope["state"] = {"log": {}, "told": self._told(scope["path"])}

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
            receive = await self._proven(scope, receive)
            await self._app(scope, receive, guarded)
        except Refused as refused:
            scope["state"]["log"]["error"] = refused.code
            await refused.response(scope)(scope, receive, guarded)
        except Exception:  # the application has answered
            traceback.print_exc(file=sys.stderr)
        finally:
            self._note(scope, number, status, time.monotonic() - begun)

    def _told(self, path: str) -> Told | None:
        """How errors are told below a path; None: in this service's own form."""
        return next((told for begin, told in self._forms.items() if f"{path}/".startswith(f"{begin}/")), None)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if self._token is None and not self._known(host):
            raise Refused(
                421, "unknown_host", f"this service is not called '{host[:80]}'; start it with --allowed-hosts NAME"
            )
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            raise Refused(403, "foreign_origin", "pages of other sites may not use this service")

    async def _proven(self, scope: Scope, receive: Receive) -> Receive:
        """What the application receives: the request, once it is known that it brings the token, where there is one.

        Raises:
            Refused: it does not.
        """
        path = scope["path"]
        if self._token is None or path in OPEN or path.startswith(SECRET):
            return receive
        request, secret = Request(scope, receive), ""
        if "authorization" in request.headers or scope["method"] != "POST" or path not in self._keys:
            scheme, _, secret = request.headers.get("authorization", "").partition(" ")
            secret = secret.strip() if scheme.lower() in SCHEMES else ""
        else:
            with contextlib.suppress(Refused):  # whoever sends too much or too slowly has not shown a token, either
                body = await read_body(request, limit=KEY_BODY, seconds=KEY_SECONDS)
                secret, receive = await self._keys[path](request, body), _again(body, receive)
        if not hmac.compare_digest(secret.encode(errors="replace"), self._token.encode()):
            message = "give the service's token: Authorization: Bearer TOKEN"
            raise Refused(401, "unauthorized", message, {"www-authenticate": "Bearer"})
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


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read is received once more; then what comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received
