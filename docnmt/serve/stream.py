"""An answer in lines of JSON, each sent as soon as it is known."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.types import Send

STREAM = "application/x-ndjson"


def wanted(request: Request) -> bool:
    """The client asks for a stream."""
    return STREAM in request.headers.get("accept", "")


class Stream:
    """Sends lines; one that reads nothing is given up at the deadline."""

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
        """The last line."""
        await self._body(msgspec.json.encode(content) + b"\n", more=False)

    async def _body(self, line: bytes, *, more: bool) -> None:
        message = {"type": "http.response.body", "body": line, "more_body": more}
        await asyncio.wait_for(self._send(message), max(self._deadline - time.monotonic(), 1))
