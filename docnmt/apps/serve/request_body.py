"""What a request sends: its body, read within limits, and the parameters of its address."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qs

import msgspec
from starlette.requests import ClientDisconnect, Request

from docnmt.apps.serve.http_error import Refused

FORM = "application/x-www-form-urlencoded"
#: Fields of a form, at most; a list has one for each of its entries.
MOST_FIELDS = 100_000
StructT = TypeVar("StructT", bound=msgspec.Struct)


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


def fields(kind: str, body: bytes, lists: Collection[str] = ()) -> dict[str, Any]:
    """What a body of JSON or of a form says, by name; of a form, all but `lists` are single values.

    Raises:
        Refused: it is of another `kind`, no object or no form, or says something twice.
    """
    if kind == "application/json":
        try:
            found: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(400, "invalid_request", f"the body is not as expected: {error}") from None
        return found
    if kind != FORM:
        message = f"expected Content-Type: application/json or {FORM}, got '{kind[:80]}'"
        raise Refused(415, "wrong_type", message)
    try:
        form = parse_qs(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise Refused(400, "invalid_request", f"the form is not as expected: {error}") from None
    if twice := [name for name, values in form.items() if len(values) > 1 and name not in lists]:
        raise Refused(400, "invalid_request", f"the form has '{twice[0][:80]}' more than once")
    return {name: values if name in lists else values[0] for name, values in form.items()}


def as_request(found: Mapping[str, Any], kind: type[StructT]) -> StructT:
    """Fields as a request of some form; those that it does not know count for nothing.

    Raises:
        Refused: one is missing or of another type; it is named.
    """
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(400, "invalid_request", f"the request is not as expected: {error}") from None
