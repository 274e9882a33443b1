"""Files in multipart forms, as browsers and clients of other services send them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.datastructures import UploadFile
from starlette.formparsers import (  # type: ignore[attr-defined]  # the parser's own reader of headers
    MultiPartException,
    MultiPartParser,
    parse_options_header,
)
from starlette.requests import Request

from docnmt.apps.documents import kind_of
from docnmt.apps.serve.http_error import Refused
from docnmt.runtime.errors import UserError


def kind_of_upload(name: str) -> str:
    """Return the kind of an uploaded document, by its name.

    Raises:
        Refused: this kind cannot be read; the message says what can be done.
    """
    try:
        return kind_of(name[-80:])
    except UserError as error:
        raise Refused(415, "unknown_kind", str(error)) from None


async def form_file(request: Request, body: bytes, most: int = 1) -> tuple[str, bytes, dict[str, str]]:
    """Return the name and the content of the only file in a form, and the other fields, at most `most`.

    Raises:
        Refused: the form is malformed, is not in UTF-8, has too many fields, or does not have exactly one file.
    """

    async def stream() -> AsyncIterator[bytes]:
        yield body

    charset = parse_options_header(request.headers["content-type"])[1].get(
        b"charset", b"utf-8"
    )  # as the parser finds it
    if charset.lower() not in (b"utf-8", b"utf8"):  # some of Python's codecs take quadratic time
        raise Refused(400, "invalid_request", "the form's charset: expected UTF-8")
    parser = MultiPartParser(request.headers, stream(), max_files=1, max_fields=most)  # type: ignore[arg-type]
    parser.spool_max_size = len(body) + 1  # keep the file in memory
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError) as error:
        raise Refused(400, "invalid_request", f"the form is not as expected: {error}") from None
    files = [value for value in form.values() if isinstance(value, UploadFile)]
    if len(files) != 1:
        raise Refused(400, "invalid_request", "expected a form with one file")
    return files[0].filename or "", await files[0].read(), {n: v for n, v in form.items() if isinstance(v, str)}
