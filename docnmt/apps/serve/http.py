"""HTTP around all routes: limits of bodies, errors, JSON, streams, counters, security headers."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import re
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, ClassVar, TypeVar
from urllib.parse import parse_qs

import anyio
import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.datastructures import Headers, MutableHeaders, UploadFile
from starlette.formparsers import (  # type: ignore[attr-defined]  # the parser's own reader of headers
    MultiPartException,
    MultiPartParser,
    parse_options_header,
)
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docnmt.apps.documents.kinds import kind_of
from docnmt.runtime.system import UserError

# The metrics of the service, in Prometheus's text format.


SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """The counters, gauges and histograms of one service.

    Args:
        slots: returns the number of sentences that are being translated.
    """

    def __init__(self, slots: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "docnmt_requests", "Requests that have ended.", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "docnmt_request_seconds",
            "Seconds from a request's first byte to its end.",
            ["path"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.active = Gauge("docnmt_requests_active", "Translations read, waiting or at work.", registry=self.registry)
        self.sentences = Counter("docnmt_sentences", "Sentences translated.", registry=self.registry)
        self.tokens = Counter("docnmt_source_tokens", "Source subwords accepted.", registry=self.registry)
        rows = Gauge("docnmt_sentences_at_work", "Sentences that are written now.", registry=self.registry)
        rows.set_function(slots)
        ProcessCollector(registry=self.registry)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self.registry)


# Errors of the service, as HTTP answers in the form that the client knows.


#: A function that returns an error's status and body in another service's form.
Told = Callable[["Refused"], tuple[int, dict[str, Any]]]
#: The message for an unknown address, in this service's own form.
_NOTHING = "there is nothing here; GET /openapi.json says what there is"


class Refused(Exception):
    """An HTTP error as JSON: `{"error": {"status": 413, "code": "too_large", "message": "…"}}`.

    Args:
        why: more than the code says, for a form that has other words for it.
    """

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None, *, why: str = ""
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.headers, self.why = status, code, dict(headers or {}), why
        self.message = message.encode(errors="replace").decode()  # a client may have sent halves of characters

    @classmethod
    def of_routing(cls, status: int, detail: str, allowed: str) -> Refused:
        """Return the error for a status of Starlette's, for instance an unknown address (404) or method (405).

        Args:
            allowed: the methods that the address answers.
        """
        if status == 405:
            return cls(status, "wrong_method", f"this address answers {allowed} only", {"allow": allowed})
        code, message = ("not_found", _NOTHING) if status == 404 else ("refused", detail)
        return cls(status, code, message)

    @property
    def content(self) -> dict[str, Any]:
        """The body in this service's own form."""
        return {"error": {"status": self.status, "code": self.code, "message": self.message}}

    def told(self, scope: Scope) -> tuple[int, dict[str, Any]]:
        """Return status and body in the form that the client of the request `scope` knows."""
        told: Told | None = scope["state"].get("told")
        return (self.status, self.content) if told is None else told(self)

    def response(self, scope: Scope) -> JSONResponse:
        """Return the answer to the request `scope`."""
        status, content = self.told(scope)
        return JSONResponse(content, status, self.headers)


# Files in multipart forms, as browsers and clients of other services send them.


MULTIPART = "multipart/form-data"


def kind_of_upload(name: str) -> str:
    """Return the kind of an uploaded document, by its name.

    Raises:
        Refused: this kind cannot be read; the message says what can be done.
    """
    try:
        return kind_of(name[-80:])
    except UserError as error:
        raise Refused(415, "unknown_kind", str(error)) from None


async def form_fields(request: Request, body: bytes, most: int) -> tuple[list[tuple[str, bytes]], dict[str, str]]:
    """Return name and content of the files in a form, at most one, and the other fields, at most `most`.

    Raises:
        Refused: the form is malformed, is not in UTF-8, has too many fields or files, or a field twice.
    """
    return await asyncio.to_thread(lambda: asyncio.run(_form_fields(request, body, most)))  # it takes seconds


async def _form_fields(request: Request, body: bytes, most: int) -> tuple[list[tuple[str, bytes]], dict[str, str]]:
    async def stream() -> AsyncIterator[bytes]:
        yield body

    charset = parse_options_header(request.headers["content-type"])[1].get(
        b"charset", b"utf-8"
    )  # as the parser finds it
    if charset.lower() not in (b"utf-8", b"utf8"):  # some of Python's codecs take quadratic time
        raise Refused(400, "invalid_request", "the form's charset: expected UTF-8")
    parser = MultiPartParser(request.headers, stream(), max_files=1, max_fields=most)  # type: ignore[arg-type]
    parser.spool_max_size = parser.max_part_size = len(body) + 1  # all is in memory already
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError) as error:
        raise Refused(400, "invalid_request", f"the form is not as expected: {error}") from None
    files: list[tuple[str, bytes]] = []
    fields: dict[str, str] = {}
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            files.append((value.filename or "", await value.read()))
        elif fields.setdefault(name, value) is not value:
            raise Refused(400, "invalid_request", f"the form has '{name[:80]}' more than once")
    return files, fields


async def form_file(request: Request, body: bytes, most: int = 1) -> tuple[str, bytes, dict[str, str]]:
    """Return the name and the content of the only file in a form, and the other fields, at most `most`.

    Raises:
        Refused: as for `form_fields`, or the form does not have exactly one file.
    """
    files, fields = await form_fields(request, body, most)
    if len(files) != 1:
        raise Refused(400, "invalid_request", "expected a form with one file", why="no_file")
    return *files[0], fields


# Answers that are streamed, as lines of JSON or as server-sent events.


STREAM = "application/x-ndjson"


def wanted(request: Request) -> bool:
    """Return True if the client accepts a stream of JSON lines."""
    return STREAM in request.headers.get("accept", "")


class Stream:
    """Sends JSON values as lines; `EventStream` sends them as server-sent events.

    Raises:
        Refused: the client has not read until the deadline.
    """

    media_type: ClassVar[str] = STREAM
    #: The bytes before and after each JSON value.
    frame: ClassVar[tuple[bytes, bytes]] = b"", b"\n"

    def __init__(self, send: Send, deadline: float) -> None:
        self._send, self._deadline = send, deadline

    async def begin(self, told: Mapping[str, str] | None = None) -> None:
        """Send the status 200 and the headers, including those in `told`."""
        headers = [(b"content-type", self.media_type.encode()), (b"x-accel-buffering", b"no")]
        headers += [(name.encode(), value.encode()) for name, value in (told or {}).items()]
        await self._sent({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(self, content: dict[str, Any]) -> None:
        """Send one value."""
        await self._body(self._framed(content), more=True)

    async def end(self, content: dict[str, Any]) -> None:
        """Send the last value; there is no error if the client does not read it."""
        with contextlib.suppress(Refused):
            await self._body(self._framed(content), more=False)

    def _framed(self, content: dict[str, Any]) -> bytes:
        before, behind = self.frame
        return before + msgspec.json.encode(content) + behind

    async def _body(self, line: bytes, *, more: bool) -> None:
        await self._sent({"type": "http.response.body", "body": line, "more_body": more})

    async def _sent(self, message: Message) -> None:
        try:
            # asyncio.wait_for would lose a cancellation that comes with the end of a write, before Python 3.12
            with anyio.fail_after(max(self._deadline - time.monotonic(), 1)):
                await self._send(message)
        except TimeoutError:
            raise Refused(499, "gone", "the client does not read") from None


class EventStream(Stream):
    """Sends JSON values as server-sent events; the last event is `[DONE]`, which is no JSON."""

    media_type = "text/event-stream; charset=utf-8"
    frame = b"data: ", b"\n\n"

    async def done(self) -> None:
        """Send the last event, `[DONE]`."""
        with contextlib.suppress(Refused):
            await self._body(b"data: [DONE]\n\n", more=False)


# Answers in JSON, encoded by msgspec.


class JsonResponse(Response):
    """An answer in JSON, encoded by msgspec."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:  # as Starlette's
        """Return a value as JSON."""
        return msgspec.json.encode(content)


# Reading of requests: the body, within limits, and the parameters of the address.


FORM = "application/x-www-form-urlencoded"
#: The largest number of fields in a form; a list has one field per entry.
MOST_FIELDS = 100_000
#: The largest number of lists and objects in JSON, which are made at once while nothing else runs.
MOST_LISTS = 400_000
StructT = TypeVar("StructT", bound=msgspec.Struct)


async def read_body(request: Request, *, limit: int, seconds: float) -> bytes:
    """Return the whole body of a request.

    Raises:
        Refused: it is longer than `limit` bytes, takes longer than `seconds`, is compressed, or the client has
            disconnected.
    """
    too_large = Refused(413, "too_large", f"the body has more than {limit:,} bytes, which is what --max-body allows")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refused(415, "compressed", "send the body without Content-Encoding")
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise too_large
    parts: list[bytes] = []

    async def read() -> None:
        """Collect the parts of the body."""
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise too_large
            parts.append(part)

    try:
        with anyio.fail_after(seconds):
            await read()
    except TimeoutError:
        message = f"the body did not arrive within {seconds:g} seconds"
        raise Refused(408, "too_slow", message, {"connection": "close"}) from None
    except ClientDisconnect:
        raise Refused(499, "gone", "the client has gone") from None
    return b"".join(parts)


def parameters(request: Request, *names: str) -> Mapping[str, str]:
    """Return the query parameters of the address.

    Raises:
        Refused: a parameter is not in `names`, or is given twice.
    """
    given = [name for name, _ in request.query_params.multi_items()]
    expected = f"expected {' and '.join(names)}, once each" if names else "expected none; options go into the body"
    for name in given:
        if name not in names or given.count(name) > 1:
            raise Refused(400, "invalid_request", f"the address has the parameter '{name[:80]}'; {expected}")
    return request.query_params


def media_type(request: Request) -> str:
    """Return the media type of the body, in lower case and without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_lists(body: bytes, most: int = 0) -> None:
    """Count the lists and objects of a body in JSON, before all of them are made at once.

    Raises:
        Refused: they are more than `MOST_LISTS`, and four for each of `most` subwords.
    """
    if (count := body.count(b"[") + body.count(b"{")) > (allowed := max(MOST_LISTS, 4 * most)):
        raise too_many("lists and objects", count, allowed)


def fields(kind: str, body: bytes, lists: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a body in JSON or of a form, by name; in a form, only the fields in `lists` are lists.

    Raises:
        Refused: the media type `kind` is another one, the body is malformed, or a form repeats a single value.
    """
    if kind == "application/json":
        check_lists(body)
        try:
            found: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(400, "invalid_request", f"the body is not as expected: {error}") from None
        return found
    if kind != FORM:
        message = f"expected Content-Type: application/json or {FORM}, got '{kind[:80]}'"
        raise Refused(415, "wrong_type", message)
    if 3 * body.count(b"%") > len(body):  # each begins %XX; millions of others would hold the interpreter for seconds
        raise Refused(400, "invalid_request", "the form is not as expected: a % is not followed by two digits")
    try:
        form = parse_qs(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise Refused(400, "invalid_request", f"the form is not as expected: {error}") from None
    if twice := [name for name, values in form.items() if len(values) > 1 and name not in lists]:
        raise Refused(400, "invalid_request", f"the form has '{twice[0][:80]}' more than once")
    return {name: values if name in lists else values[0] for name, values in form.items()}


async def read_request(
    request: Request, body: bytes, kind: type[StructT], lists: Collection[str] = (), *, most: int | None = None
) -> StructT:
    """Convert a body to a request of class `kind`, in a thread: a large form takes seconds.

    Raises:
        Refused: as for `fields` and `as_request`.
    """
    return await asyncio.to_thread(lambda: as_request(fields(media_type(request), body, lists), kind, most=most))


def as_request(found: Mapping[str, Any], kind: type[StructT], *, most: int | None = None) -> StructT:
    """Convert fields to a request of class `kind`; unknown fields are ignored unless the class forbids them.

    A field that is null counts as absent. The lists are counted before anything is made of their entries.

    Raises:
        Refused: a field is missing or has another type, or a list has more than `most` entries; the message names it.
    """
    for name, value in found.items():
        if most is not None and isinstance(value, list) and len(value) > most:
            raise too_many(name, len(value), most)
    try:
        return msgspec.convert({name: value for name, value in found.items() if value is not None}, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(400, "invalid_request", f"the request is not as expected: {error}") from None


def too_many(name: str, count: int, most: int) -> Refused:
    """Return the error for a request with more texts, lines or elements than `--max-request-tokens` allows."""
    message = f"{name[:80]}: {count:,} are too many; expected at most {most:,} (--max-request-tokens)"
    return Refused(413, "too_long", f"{message}: send them in parts", why=f"{count} {most}")


# The middleware before every route: access control, security headers, one line of log, errors as JSON.


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
