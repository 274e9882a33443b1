"""An answer in lines of JSON, each sent as soon as it is known."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.types import Send

from docnmt.apps.serve.http_error import Refused

STREAM = "application/x-ndjson"


def wanted(request: Request) -> bool:
    """The client asks for a stream."""
    return STREAM in request.headers.get("accept", "")


class Stream:
    """Sends lines.

    Raises:
        Refused: the client, which reads nothing, is given up at the deadline.
    """

    def __init__(self, send: Send, deadline: float) -> None:
        self._send, self._deadline = send, deadline

    async def begin(self) -> None:
        """The head of the answer."""
        headers = [(b"content-type", STREAM.encode()), (b"x-accel-buffering", b"no")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(self, content: dict[str, Any]) -> None:
        """A line."""
        await self._body(msgspec.json.encode(content) + b"\n", more=True)

    async def end(self, content: dict[str, Any]) -> None:
        """The last line; nobody is told where it, too, is not read."""
        with contextlib.suppress(Refused):
            await self._body(msgspec.json.encode(content) + b"\n", more=False)

    async def _body(self, line: bytes, *, more: bool) -> None:
        message = {"type": "http.response.body", "body": line, "more_body": more}
        try:
            await asyncio.wait_for(self._send(message), max(self._deadline - time.monotonic(), 1))
        except asyncio.TimeoutError:
            raise Refused(499, "gone", "the client does not read") from None
