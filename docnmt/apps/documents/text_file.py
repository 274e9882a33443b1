"""Text in files: decoding with clear messages, and pieces of it that get other text."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from docnmt.runtime.errors import UserError

#: Codecs of Python that no file is in; some take the square of its size.
_NO_TEXT = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})


def decode(content: bytes, name: str, *, encoding: str = "utf-8") -> str:
    """A file's text, a byte order mark included as its first character.

    Raises:
        UserError: it is not text in this encoding; the line and the byte are named.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{name}: not UTF-8 but UTF-16, by its byte order mark; convert it: iconv -f UTF-16 -t UTF-8")
    try:
        if codecs.lookup(encoding).name in _NO_TEXT:
            raise LookupError(encoding)
        text = content.decode(encoding)
    except LookupError as error:
        raise UserError(f"{name}: says that its encoding is '{encoding}', which is not known; convert it") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{name}:{line}: byte {error.start + 1:,} of the file (0x{content[error.start]:02X}) is not valid "
            f"{encoding}; convert the file, for example with iconv -f LATIN1 -t UTF-8"
        ) from error
    if "\0" in text:
        raise UserError(f"{name}:{text.count(chr(10), 0, text.index(chr(0))) + 1}: NUL byte; this is not a text file")
    return text


def replaced(source: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """A text in which parts, given from left to right as (begin, end, new text), are replaced."""
    out, place = [], 0
    for begin, end, text in changes:
        out += [source[place:begin], text]
        place = end
    return "".join([*out, source[place:]])
