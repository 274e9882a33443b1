"""What a request sends: its body, read within limits, and the parameters of its address."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.requests import ClientDisconnect, Request

from docnmt.apps.serve.http_error import Refused


async def read_body(request: Request, *, limit: int, seconds: float) -> bytes:
    """All of it.

    Raises:
        Refused: it is longer than `limit` bytes, comes too slowly, is compressed, or its client has gone.
    """
    too_large = Refused(413, "too_large", f"the body has more than {limit:,} bytes, which is what --max-body allows")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refused(415, "compressed", "send the body without Content-Encoding")
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise too_large
    parts: list[bytes] = []

    async def read() -> None:
        """Collect what arrives."""
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise too_large
            parts.append(part)

    try:
        await asyncio.wait_for(read(), seconds)
    except asyncio.TimeoutError:
        message = f"the body did not arrive within {seconds:g} seconds"
        raise Refused(408, "too_slow", message, {"connection": "close"}) from None
    except ClientDisconnect:
        raise Refused(499, "gone", "the client has gone") from None
    return b"".join(parts)


def parameters(request: Request, *names: str) -> Mapping[str, str]:
    """Those behind the `?`.

    Raises:
        Refused: one has none of these names, or stands there twice.
    """
    given = [name for name, _ in request.query_params.multi_items()]
    expected = f"expected {' and '.join(names)}, once each" if names else "expected none; options go into the body"
    for name in given:
        if name not in names or given.count(name) > 1:
            raise Refused(400, "invalid_request", f"the address has the parameter '{name[:80]}'; {expected}")
    return request.query_params


def media_type(request: Request) -> str:
    """Of the body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
