"""Answers that are streamed, as lines of JSON or as server-sent events."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import anyio
import msgspec
from starlette.requests import Request
from starlette.types import Message, Send

from docnmt.apps.serve.http_error import Refused

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
