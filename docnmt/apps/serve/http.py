"""HTTP around all routes: limits of bodies, errors, JSON, streams, counters, security headers.

request → `Guard` (host, token, log) → an `Endpoint`: `read_body` → `decoded` → … → JSON or a stream
"""

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
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qs

import anyio
import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
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

if TYPE_CHECKING:
    from docnmt.apps.serve.service import Service

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """The counters, gauges and histograms of one service, for Prometheus; `slots` returns the sentences at work."""

    def __init__(self, slots: Callable[[], float]) -> None:
        registry = self.registry = CollectorRegistry()
        self.requests = Counter("docnmt_requests", "Requests that have ended.", ["path", "status"], registry=registry)
        about = "Seconds from a request's first byte to its end."
        self.seconds = Histogram("docnmt_request_seconds", about, ["path"], buckets=SECONDS, registry=registry)
        self.active = Gauge("docnmt_requests_active", "Translations read, waiting or at work.", registry=registry)
        self.sentences = Counter("docnmt_sentences", "Sentences translated.", registry=registry)
        self.tokens = Counter("docnmt_source_tokens", "Source subwords accepted.", registry=registry)
        at_work = Gauge("docnmt_sentences_at_work", "Sentences that are written now.", registry=registry)
        at_work.set_function(slots)
        ProcessCollector(registry=registry)


# Errors, as answers in the form that the client knows.

#: Returns an error's status and body in another service's form.
ErrorForm = Callable[["Refused"], tuple[int, dict[str, Any]]]


class Refused(Exception):
    """An HTTP error: `{"error": {"status": 413, "code": "too_large", "message": "…"}}`; `why`: more about it."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None, *, why: str = ""
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.headers, self.why = status, code, dict(headers or {}), why
        self.message = message.encode(errors="replace").decode()  # a client may have sent halves of characters

    @classmethod
    def internal(cls) -> Refused:
        """Return the error for a fault of the service."""
        return cls(500, "internal", "something went wrong in the service; its log says more")

    def content(self, scope: Scope | None = None) -> tuple[int, dict[str, Any]]:
        """Return status and body in the form that the client of the request `scope` knows; None: in our own."""
        if scope is not None and (error_form := scope["state"].get("error_form")) is not None:
            status, content = error_form(self)
            return status, content
        return self.status, {"error": {"status": self.status, "code": self.code, "message": self.message}}

    def response(self, scope: Scope) -> JSONResponse:
        """Log the error, and return the answer to the request `scope`."""
        scope["state"]["log"]["error"] = self.code
        status, content = self.content(scope)
        return JSONResponse(content, status, self.headers)


# The body of a request, and its fields.

JSON, FORM, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
#: The largest number of fields in a form; a list has one field per entry.
MOST_FIELDS = 100_000
#: The largest number of lists and objects in JSON, which are made at once while nothing else runs.
MOST_LISTS = 400_000
StructT = TypeVar("StructT", bound=msgspec.Struct)
T = TypeVar("T")
HALF_PAIR = re.compile(rb"(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})(?!\\u[dD][c-fC-F])")  # of UTF-16, in JSON


async def read_body(request: Request, *, limit: int, seconds: float) -> bytes:
    """Return the whole body of a request, of at most `limit` bytes, if it comes within `seconds`."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refused(415, "compressed", "send the body without Content-Encoding")
    length, too_large = request.headers.get("content-length", "0"), f"the body has more than {limit:,} bytes"
    if length.isdigit() and int(length) > limit:
        raise Refused(413, "too_large", f"{too_large}, which is what --max-body allows")
    parts, size = list[bytes](), 0
    try:
        with anyio.fail_after(seconds):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise Refused(413, "too_large", f"{too_large}, which is what --max-body allows")
                parts.append(part)
    except TimeoutError:
        message = f"the body did not arrive within {seconds:g} seconds"
        raise Refused(408, "too_slow", message, {"connection": "close"}) from None
    except ClientDisconnect:
        raise Refused(499, "gone", "the client has gone") from None
    return b"".join(parts)


def parameters(request: Request, *names: str) -> Mapping[str, str]:
    """Return the query parameters of the address, of which there are no others than `names`."""
    sent = [name for name, _ in request.query_params.multi_items()]
    expected = f"expected {' and '.join(names)}, once each" if names else "expected none; options go into the body"
    for name in sent:
        if name not in names or sent.count(name) > 1:
            raise Refused(400, "invalid_request", f"the address has the parameter '{name[:80]}'; {expected}")
    return request.query_params


def media_type(request: Request, expected: str | None = None) -> str:
    """Return the media type of the body, in lower case and without parameters; any but `expected` is refused."""
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if expected not in (None, said):
        raise Refused(415, "wrong_type", f"expected Content-Type: {expected}, got '{said[:80]}'")
    return said


def check_lists(body: bytes, most: int = 0) -> None:
    """Count the lists and objects of a body in JSON, before all of them are made at once; `most`: subwords allowed."""
    if (number := body.count(b"[") + body.count(b"{")) > (allowed := max(MOST_LISTS, 4 * most)):
        raise too_many("lists and objects", number, allowed)


def of_json(body: bytes, kind: type[T]) -> T:
    """Return the content of a body in JSON; the error of an unknown field names the fields of `kind`, a struct."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = str(error)
        if "truncated" in why and (half := HALF_PAIR.search(body)):  # msgspec says no more
            why = f"{half[1].decode()} is half a surrogate pair, without its other half behind it"
        if "unknown field" in why:
            why += f"; expected one of {', '.join(getattr(kind, '__struct_encode_fields__', ()))}"
        raise Refused(400, "invalid_request", f"the body is not as expected: {why}") from None


def fields(kind: str, body: bytes, lists: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a body of media type `kind`, by name; in a form, only the fields in `lists` are lists."""
    if kind == JSON:
        check_lists(body)
        return of_json(body, dict[str, Any])
    if kind != FORM:
        raise Refused(415, "wrong_type", f"expected Content-Type: {JSON} or {FORM}, got '{kind[:80]}'")
    if 3 * body.count(b"%") > len(body):  # each begins %XX; millions of others would hold the interpreter for seconds
        raise Refused(400, "invalid_request", "the form is not as expected: a % is not followed by two digits")
    try:
        form = parse_qs(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise Refused(400, "invalid_request", f"the form is not as expected: {error}") from None
    if twice := [name for name, entries in form.items() if len(entries) > 1 and name not in lists]:
        raise Refused(400, "invalid_request", f"the form has '{twice[0][:80]}' more than once")
    return {name: entries if name in lists else entries[0] for name, entries in form.items()}


def as_request(values: Mapping[str, Any], kind: type[StructT], *, most: int | None = None) -> StructT:
    """Convert fields to a request of class `kind`, with at most `most` entries in each list; null counts as absent."""
    for name, value in values.items():
        if most is not None and isinstance(value, list) and len(value) > most:
            raise too_many(name, len(value), most)
    try:
        return msgspec.convert({name: value for name, value in values.items() if value is not None}, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(400, "invalid_request", f"the request is not as expected: {error}") from None


def decoded(
    request: Request, body: bytes, kind: type[StructT], *, lists: Collection[str] = (), most: int | None = None
) -> StructT:
    """Convert a body in JSON or of a form to a request of class `kind`, in a thread: a large form takes seconds."""
    return as_request(fields(media_type(request), body, lists), kind, most=most)


def too_many(name: str, number: int, most: int) -> Refused:
    """Return the error for a request with more texts, lines or elements than `--max-request-tokens` allows."""
    message = f"{name[:80]}: {number:,} are too many; expected at most {most:,} (--max-request-tokens)"
    return Refused(413, "too_long", f"{message}: send them in parts", why=f"{number} {most}")


# Files in multipart forms, as browsers and clients of other services send them.


def kind_of_upload(name: str) -> str:
    """Return the kind of an uploaded document, by its name."""
    try:
        return kind_of(name[-80:])
    except UserError as error:
        raise Refused(415, "unknown_kind", str(error)) from None


async def form_fields(request: Request, body: bytes, most: int) -> tuple[list[tuple[str, bytes]], dict[str, str]]:
    """Return name and content of the files in a form, at most one, and the other fields, at most `most`."""
    return await asyncio.to_thread(lambda: asyncio.run(_form_fields(request, body, most)))  # it takes seconds


async def _form_fields(request: Request, body: bytes, most: int) -> tuple[list[tuple[str, bytes]], dict[str, str]]:
    async def stream() -> AsyncIterator[bytes]:
        yield body

    charset = parse_options_header(request.headers["content-type"])[1].get(b"charset", b"utf-8")  # as the parser has it
    if charset.lower() not in (b"utf-8", b"utf8"):  # some of Python's codecs take quadratic time
        raise Refused(400, "invalid_request", "the form's charset: expected UTF-8")
    parser = MultiPartParser(request.headers, stream(), max_files=1, max_fields=most)  # type: ignore[arg-type]
    parser.spool_max_size = parser.max_part_size = len(body) + 1  # all is in memory already
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError) as error:
        raise Refused(400, "invalid_request", f"the form is not as expected: {error}") from None
    files: list[tuple[str, bytes]] = []
    values: dict[str, str] = {}
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            files.append((value.filename or "", await value.read()))
        elif values.setdefault(name, value) is not value:
            raise Refused(400, "invalid_request", f"the form has '{name[:80]}' more than once")
    return files, values


async def form_file(request: Request, body: bytes, most: int = 1) -> tuple[str, bytes, dict[str, str]]:
    """Return the name and the content of the only file in a form, and the other fields, at most `most`."""
    files, values = await form_fields(request, body, most)
    if len(files) != 1:
        raise Refused(400, "invalid_request", "expected a form with one file", why="no_file")
    return *files[0], values


# Answers.


class Endpoint(NamedTuple):
    """A row of the table of routes, for Starlette and for OpenAPI; `kinds`: the media types of its body."""

    api: str
    path: str
    method: str
    summary: str
    answer: Callable[..., Any]
    body: type[msgspec.Struct] | None = None
    kinds: tuple[str, ...] = (JSON, FORM)


def json_response(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer in JSON, encoded by msgspec."""
    return Response(msgspec.json.encode(content), status, headers, JSON)


#: The media types of streams: lines of JSON, and server-sent events.
LINES, EVENTS = "application/x-ndjson", "text/event-stream; charset=utf-8"


def wants_lines(request: Request) -> bool:
    """Return True if the client accepts a stream of JSON lines."""
    return LINES in request.headers.get("accept", "")


# The middleware before every route: access control, security headers, one line of log, errors as JSON.

#: Paths that need no token: the page, which contains no data, and descriptions of the service.
OPEN = ("/", "/health", "/ready", "/openapi.json", "/languages", "/frontend/settings")
#: Paths with this beginning need no token, because they contain a key that cannot be guessed.
SECRET = "/download_file/"
#: Upper bounds for a body that is read only to find the key in it: bytes, and seconds until it has arrived.
KEY_BODY, KEY_SECONDS = 1 << 18, 10.0
#: Seconds in which the rest of a refused request's body is read and dropped.
LINGER = 5.0
#: The Host header: a name or an address, and perhaps a port.
HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?")
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

    Without a token the Host header must be an IP address or a name of the service, so that no page of another site
    reaches it under a name of its own (DNS rebinding).

    Args:
        routes: their paths are the names in the log and the metrics. errors: the form of errors by the beginning of the
            path, also without a route. keys: by path, finds the token in the body of a POST ("" if none).
    """

    def __init__(
        self, app: ASGIApp, service: Service, token: str | None, routes: Sequence[Route],
        errors: Mapping[str, ErrorForm], keys: Mapping[str, Callable[[Request, bytes], Awaitable[str]]],
    ) -> None:  # fmt: skip
        self._app, self._service, self._token, self._errors, self._keys = app, service, token, errors, keys
        self._paths = {route.path: route.path_regex for route in routes}
        self._hosts = {"localhost", *(host.lower() for host in (service.config.host, *service.config.allowed_hosts))}
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and log it."""
        if scope["type"] != "http":
            return
        if scope["path"].startswith(("http://", "https://")):  # as requests to a proxy are
            scope["path"] = "/" + "".join(scope["path"].split("/", 3)[3:])
        number, begun, status, unread = next(self._numbers), time.monotonic(), 0, True
        path, address = f"{scope['path']}/", scope["client"][0] if scope.get("client") else ""
        scope["state"] = {
            "log": {},
            "error_form": next((form for begin, form in self._errors.items() if path.startswith(f"{begin}/")), None),
            "client": client_of(address, proxied=bool(self._service.config.proxy)),
        }

        async def received() -> Message:
            nonlocal unread
            message = await receive()
            unread = message.get("more_body", False)
            return message

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status, headers = message["status"], MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            elif status >= 400 and unread and not message.get("more_body", False):
                await send({**message, "more_body": True})  # if it closed now, the client could lose the answer
                scope["state"]["answered"], size = True, 0
                with anyio.move_on_after(LINGER):
                    while unread and size <= self._service.config.max_body:
                        size += len((await received()).get("body", b""))
                message = {"type": "http.response.body"}
            await send(message)

        try:
            with self._service.until_the_end():
                self._check(scope)
                await self._app(scope, await self._proven(scope, received), guarded)
        except Refused as refused:
            response = refused.response(scope)
            if not status:  # else uvicorn closes the connection, and the answer has no end
                await response(scope, receive, guarded)
        except Exception:  # where it is the application's, Starlette has already sent an answer
            traceback.print_exc(file=sys.stderr)
            if not status:
                await Refused.internal().response(scope)(scope, receive, guarded)
        finally:
            seconds = time.monotonic() - begun
            path = next((path for path, pattern in self._paths.items() if pattern.match(scope["path"])), "other")
            self._service.metrics.requests.labels(path, str(status)).inc()
            self._service.metrics.seconds.labels(path).observe(seconds)
            facts = "".join(f" {name}={value}" for name, value in scope["state"]["log"].items())
            line = f"{number} {scope['method']} {path} {status or 'gone'} {seconds * 1000:.0f}ms{facts}"
            print(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {line}", file=sys.stderr, flush=True)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if "content-length" in headers and "transfer-encoding" in headers:  # two readers would find two bodies
            message = "a request has Content-Length or Transfer-Encoding, not both"
            raise Refused(400, "invalid_request", message, {"connection": "close"})
        if host and HOST.fullmatch(host) is None:
            raise Refused(400, "invalid_host", f"Host: expected a name or an address, got '{host[:80]}'")
        if self._token is None and not self._is_own(host):
            message = f"this service is not called '{host[:80]}'; start it with --allowed-hosts NAME"
            raise Refused(421, "unknown_host", message)
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            raise Refused(403, "foreign_origin", "pages of other sites may not use this service")

    def _is_own(self, host: str) -> bool:
        name = host.rsplit("]", 1)[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        if name.lower() in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    async def _proven(self, scope: Scope, receive: Receive) -> Receive:
        """Check the token, and return ASGI's `receive` for the application: it delivers again a body that was read."""
        path = scope["path"]
        if self._token is None or path in OPEN or path.startswith(SECRET):
            return receive
        request, secret = Request(scope, receive), ""
        if "authorization" in request.headers or scope["method"] != "POST" or path not in self._keys:
            scheme, _, secret = request.headers.get("authorization", "").partition(" ")
            secret = secret.strip() if scheme.lower() in ("bearer", "deepl-auth-key") else ""
        else:
            place = self._service.place(request.state.client)
            with place, contextlib.suppress(Refused):  # a body that is too long or too slow has no token
                body = await read_body(request, limit=KEY_BODY, seconds=KEY_SECONDS)
                secret, receive = await self._keys[path](request, body), again(body, receive)
        if not hmac.compare_digest(secret.encode(errors="replace"), self._token.encode()):
            message = "give the service's token: Authorization: Bearer TOKEN"
            raise Refused(401, "unauthorized", message, {"www-authenticate": "Bearer"}, why="" if secret else "no_key")
        return receive


def client_of(address: str, *, proxied: bool) -> str | None:
    """Return what a client is known by: its address, or the network of an IPv6 address (/64), of which one has many.

    None: it is this machine, or a proxy there that is not named; it has no share.
    """
    try:
        number = ipaddress.ip_address(address)
    except ValueError:
        return None
    if isinstance(number, ipaddress.IPv6Address):
        number = number.ipv4_mapped or ipaddress.IPv6Address(int(number) >> 64 << 64 if not number.is_loopback else 1)
    return None if number.is_loopback and not proxied else str(number)


def again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first delivers a body that was already read."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received
