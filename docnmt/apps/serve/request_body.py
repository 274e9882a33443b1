"""Reading of requests: the body, within limits, and the parameters of the address."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qs

import anyio
import msgspec
from starlette.requests import ClientDisconnect, Request

from docnmt.apps.serve.http_error import Refused

FORM = "application/x-www-form-urlencoded"
#: The largest number of fields in a form; a list has one field per entry.
MOST_FIELDS = 100_000
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


def fields(kind: str, body: bytes, lists: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a body in JSON or of a form, by name; in a form, only the fields in `lists` are lists.

    Raises:
        Refused: the media type `kind` is another one, the body is malformed, or a form repeats a single value.
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
