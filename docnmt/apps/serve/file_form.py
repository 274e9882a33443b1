"""A file in a form, as browsers and other services' clients send it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from docnmt.apps.documents import kind_of
from docnmt.apps.serve.http_error import Refused
from docnmt.runtime.errors import UserError

_CHARSET = re.compile(r"charset\s*=\s*\"?([^\";\s]*)", re.IGNORECASE)


def kind_of_upload(name: str) -> str:
    """The kind of a document that a client sends, by its name.

    Raises:
        Refused: it is of none that is read; the message says what can be done.
    """
    try:
        return kind_of(name[-80:])
    except UserError as error:
        raise Refused(415, "unknown_kind", str(error)) from None


async def form_file(request: Request, body: bytes, most: int = 1) -> tuple[str, bytes, dict[str, str]]:
    """Name and content of the one file of a form, and its other fields, of which there may be so many.

    Raises:
        Refused: it is no such form.
    """

    async def stream() -> AsyncIterator[bytes]:
        yield body

    charset = _CHARSET.search(request.headers["content-type"])
    if charset and charset[1].lower() not in ("utf-8", "utf8"):  # Python has codecs that take the square of a size
        raise Refused(400, "invalid_request", "the form's charset: expected UTF-8")
    parser = MultiPartParser(request.headers, stream(), max_files=1, max_fields=most)  # type: ignore[arg-type]
    parser.spool_max_size = len(body) + 1  # in memory
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError) as error:
        raise Refused(400, "invalid_request", f"the form is not as expected: {error}") from None
    files = [value for value in form.values() if isinstance(value, UploadFile)]
    if len(files) != 1:
        raise Refused(400, "invalid_request", "expected a form with one file")
    return files[0].filename or "", await files[0].read(), {n: v for n, v in form.items() if isinstance(v, str)}
