"""Files in multipart forms, as browsers and clients of other services send them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.datastructures import UploadFile
from starlette.formparsers import (  # type: ignore[attr-defined]  # the parser's own reader of headers
    MultiPartException,
    MultiPartParser,
    parse_options_header,
)
from starlette.requests import Request

from docnmt.apps.documents.kinds import kind_of
from docnmt.apps.serve.http_error import Refused
from docnmt.runtime.errors import UserError

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
