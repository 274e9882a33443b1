"""An answer in lines of JSON, each sent as soon as it is known."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from starlette.requests import Request
from starlette.types import Send

from docnmt.apps.serve.http_error import Refused

STREAM = "application/x-ndjson"


def wanted(request: Request) -> bool:
    """The client asks for a stream."""
    return STREAM in request.headers.get("accept", "")


class Stream:
    """Sends lines; `EventStream` sends them as server-sent events.

    Raises:
        Refused: the client, which reads nothing, is given up at the deadline.
    """

    media_type: ClassVar[str] = STREAM
    #: What stands around each piece of JSON.
    frame: ClassVar[tuple[bytes, bytes]] = b"", b"\n"

    def __init__(self, send: Send, deadline: float) -> None:
        self._send, self._deadline = send, deadline

    async def begin(self, told: Mapping[str, str] | None = None) -> None:
        """The head of the answer, with these headers."""
        headers = [(b"content-type", self.media_type.encode()), (b"x-accel-buffering", b"no")]
        headers += [(name.encode(), value.encode()) for name, value in (told or {}).items()]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(self, content: dict[str, Any]) -> None:
        """A line."""
        await self._body(self._framed(content), more=True)

    async def end(self, content: dict[str, Any]) -> None:
        """The last line; nobody is told where it, too, is not read."""
        with contextlib.suppress(Refused):
            await self._body(self._framed(content), more=False)

    def _framed(self, content: dict[str, Any]) -> bytes:
        before, behind = self.frame
        return before + msgspec.json.encode(content) + behind

    async def _body(self, line: bytes, *, more: bool) -> None:
        message = {"type": "http.response.body", "body": line, "more_body": more}
        try:
            await asyncio.wait_for(self._send(message), max(self._deadline - time.monotonic(), 1))
        except asyncio.TimeoutError:
            raise Refused(499, "gone", "the client does not read") from None


class EventStream(Stream):
    """Server-sent events, of which the last is no JSON."""

    media_type = "text/event-stream; charset=utf-8"
    frame = b"data: ", b"\n\n"

    async def done(self) -> None:
        """The last event."""
        with contextlib.suppress(Refused):
            await self._body(b"data: [DONE]\n\n", more=False)
