"""Several processes as one service: what the first one keeps is asked of it, and all are counted together.

Each worker answers a request by itself, but for these. Sessions, glossaries and documents in the background are in the
memory of the first worker, so requests that need them are passed on to it. Numbers of the whole service are those of
all workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import h11
from prometheus_client import Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docnmt.apps.serve.http_error import Refused, Told
from docnmt.apps.serve.json_response import JsonResponse
from docnmt.apps.serve.middleware import KEY_BODY, KEY_SECONDS, again, secured
from docnmt.apps.serve.request_body import read_body
from docnmt.apps.serve.service import Service

#: The beginnings of paths under which something is kept between requests.
KEPT = ("/sessions", "/v2/document", "/v2/glossaries", "/translate_file", "/download_file")
#: The path of requests that may name a glossary, and the word by which they do.
NAMING, GLOSSARY = "/v2/translate", b"glossary"
#: Seconds in which each worker must have answered a request to all.
SECONDS = 5.0
#: Headers of one connection, which the next one sets for itself; uvicorn sets the date.
_HOP = {b"connection", b"keep-alive", b"expect", b"transfer-encoding", b"date"}
#: A function from the workers' answers, by their numbers, to the answer of the service.
Joined = Callable[[dict[int, bytes]], Response]


@dataclass(frozen=True)
class Fellows:
    """A worker's place among the workers of a service.

    Attributes:
        number: the worker's, from 0. ports: for each worker, the port on 127.0.0.1 at which only it listens.
    """

    number: int
    ports: tuple[int, ...]


class Together:
    """An ASGI application that passes requests on to other workers where they know the answer.

    Args:
        app: this worker's own application, which has its own access control; so have those of the others.
        told: returns the form of errors for a path.
    """

    def __init__(self, app: ASGIApp, service: Service, fellows: Fellows, told: Callable[[str], Told | None]) -> None:
        self._app, self._service, self._fellows, self._told = app, service, fellows, told
        self._joined: dict[str, Joined] = {"/metrics": _metrics, "/v2/usage": _usage}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(secured(message))

        try:
            with self._service.told_of_the_end():
                await self._pass(scope, receive, noted)
        except Refused as refused:
            if not begun:  # else uvicorn closes the connection, and the answer has no end
                scope["state"] = {"told": self._told(scope["path"])}
                await refused.response(scope)(scope, receive, noted)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        ours = self._fellows.ports[self._fellows.number]
        if scope["type"] != "http" or scope["server"][1] == ours:  # another worker asks
            await self._app(scope, receive, send)
        elif (joined := self._joined.get(scope["path"])) is not None:
            await self._of_all(joined, scope, receive, send)
        elif self._fellows.number == 0:
            await self._app(scope, receive, send)
        else:
            kept = any(f"{scope['path']}/".startswith(f"{begin}/") for begin in KEPT)
            if scope["path"] == NAMING:
                kept, receive = await _names_glossary(scope, receive)
            await (self._of_first if kept else self._app)(scope, receive, send)

    async def _of_first(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request as the first worker does; if it has ended, say so, or break off the answer."""
        try:
            await pass_on(scope, receive, send, self._fellows.ports[0])
        except (OSError, h11.RemoteProtocolError):
            message = "the process that keeps sessions, glossaries and documents has ended; they are lost"
            raise Refused(503, "lost", message, {"connection": "close"}) from None

    async def _of_all(self, joined: Joined, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request from the answers of all workers; one that has ended, or is late, has none."""
        found = await asyncio.gather(*(_answer(scope, port) for port in self._fellows.ports), return_exceptions=True)
        bodies = {}
        for number, each in enumerate(found):
            if isinstance(each, BaseException):
                if not isinstance(each, (OSError, h11.RemoteProtocolError)):
                    raise each
            elif each[0]["status"] == 200:
                bodies[number] = b"".join(message.get("body", b"") for message in each[1:])
            else:  # it is refused, as by the others
                for message in each:
                    await send(message)
                return
        if not bodies:
            raise Refused(503, "lost", f"no worker has answered within {SECONDS:g} seconds", {"connection": "close"})
        await joined(bodies)(scope, receive, send)


async def _names_glossary(scope: Scope, receive: Receive) -> tuple[bool, Receive]:
    """Return whether a request may name a glossary, and a `receive` that delivers its body all the same."""
    request = Request(scope, receive)
    length = request.headers.get("content-length", "")
    if not (length.isdigit() and int(length) <= KEY_BODY):
        return True, receive
    try:
        body = await read_body(request, limit=KEY_BODY, seconds=KEY_SECONDS)
    except Refused as error:
        refused = error  # the application refuses it in the client's form

        async def fail() -> Message:
            raise refused

        return False, fail
    return GLOSSARY in body or b"\\u" in body, again(body, receive)  # JSON may write any letter as \uXXXX


async def _answer(scope: Scope, port: int) -> list[Message]:
    """Return the messages of another worker's answer to a request without its body.

    Raises:
        OSError, h11.RemoteProtocolError: the worker has ended, or is late.
    """
    messages: list[Message] = []
    method = "GET" if scope["method"] == "HEAD" else scope["method"]  # uvicorn leaves the body out
    headers = [(name, value) for name, value in scope["headers"] if name not in (b"content-length", *_HOP)]

    async def keep(message: Message) -> None:
        messages.append(message)

    with anyio.fail_after(SECONDS):
        await pass_on({**scope, "method": method, "headers": headers}, again(b"", _never), keep, port)
    return messages


async def _never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def pass_on(scope: Scope, receive: Receive, send: Send, port: int) -> None:
    """Answer a request as the worker does that listens at a port of this machine.

    Raises:
        OSError, h11.RemoteProtocolError: it has ended.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    connection = h11.Connection(h11.CLIENT)
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    chunked = [pair for pair in scope["headers"] if pair[0] == b"transfer-encoding"]
    headers = [pair for pair in scope["headers"] if pair[0] not in _HOP] + [*chunked, (b"connection", b"close")]
    if not any(name == b"host" for name, _ in headers):  # HTTP/1.0 needs none
        headers.append((b"host", b""))

    async def upload() -> None:
        """Send the body; close the connection if the client has gone."""
        with contextlib.suppress(OSError, h11.LocalProtocolError):  # the answer came before the body's end
            while (message := await receive())["type"] == "http.request":
                writer.write(connection.send(h11.Data(data=message.get("body", b""))) or b"")
                if not message.get("more_body"):
                    writer.write(connection.send(h11.EndOfMessage()) or b"")
                await writer.drain()
        writer.transport.abort()

    writer.write(connection.send(h11.Request(method=scope["method"], target=target, headers=headers)) or b"")
    uploading = asyncio.ensure_future(upload())
    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(1 << 16))
            elif isinstance(event, h11.Response):
                kept = [pair for pair in event.headers.raw_items() if pair[0].lower() not in _HOP]
                await send({"type": "http.response.start", "status": event.status_code, "headers": kept})
            elif isinstance(event, h11.Data):
                await send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
            elif isinstance(event, h11.EndOfMessage):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            elif not isinstance(event, h11.InformationalResponse):
                raise ConnectionResetError("the worker has ended")
    finally:
        uploading.cancel()
        writer.close()


def _metrics(bodies: dict[int, bytes]) -> Response:
    """Join metrics; each has a label with the number of its worker, from 1."""
    families: dict[str, Metric] = {}
    for number, body in bodies.items():
        for family in text_string_to_metric_families(body.decode()):
            joined = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            joined.samples += [
                each._replace(labels={**each.labels, "worker": str(number + 1)}) for each in family.samples
            ]
    text = generate_latest(_Collected(list(families.values())))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@dataclass
class _Collected:
    """Metrics as prometheus_client's registry has them."""

    families: list[Metric]

    def collect(self) -> list[Metric]:
        return self.families


def _usage(bodies: dict[int, bytes]) -> Response:
    """Add the characters up that the workers have translated for clients of DeepL."""
    found: list[dict[str, Any]] = [json.loads(body) for body in bodies.values()]
    return JsonResponse({**found[0], "character_count": sum(each["character_count"] for each in found)})
