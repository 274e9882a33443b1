"""Strings of macOS and iOS: `"key" = "value";` with comments, in UTF-8 or UTF-16."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from docnmt.apps.documents.catalogue import Catalogue, CatalogueMessage

#: Each alternative matches in one way only, so that what does not fit is known at once.
_SPACE = r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/|//[^\r\n]*(?![^\r\n]))"
_WORD = r"[\w.$:-]+"
_STRINGS_STRING = r'"[^"\\]*(?:\\[\s\S][^"\\]*)*"'
_PAIR = re.compile(
    rf"{_SPACE}*(?:{_STRINGS_STRING}|{_WORD}){_SPACE}*(?:={_SPACE}*(?P<value>{_STRINGS_STRING}|{_WORD}){_SPACE}*)?;"
)
_REST = re.compile(rf"{_SPACE}*")
_STRINGS_ESCAPE = re.compile(r"\\(?:[Uu]([0-9A-Fa-f]{4})|([\s\S]))")
_STRINGS_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}
_STRINGS_WRITTEN = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})
_ENCODINGS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class AppleStrings(Catalogue):
    """A table of strings."""

    def _decoded(self) -> str:
        self.encoding = next((name for mark, name in _ENCODINGS if self.content.startswith(mark)), "utf-8")
        return self.content.decode(self.encoding) if self._is_utf16() else super()._decoded()

    def _is_utf16(self) -> bool:
        if self.encoding == "utf-8":
            return False
        try:
            self.content.decode(self.encoding)
        except UnicodeDecodeError:
            return False  # refused as any text is
        return True

    def _messages(self) -> Iterator[CatalogueMessage]:
        place = len(self.source) - len(self.source.lstrip("\ufeff"))
        while match := _PAIR.match(self.source, place):
            if (value := match["value"]) is not None and value[0] == '"':
                yield CatalogueMessage(_read(value[1:-1]), match.start("value") + 1, match.end("value") - 1)
            place = match.end()
        rest = _REST.match(self.source, place)
        end = rest.end() if rest else place
        if end < len(self.source):
            raise self._wrong(end, 'expected "key" = "value"; was it cut off?')

    def _written(self, entry: CatalogueMessage, text: str) -> str:
        raw = self.source[entry.begin : entry.end]
        lines = "\n" in raw and "\\n" not in raw  # it has its line breaks as they are
        return text.translate({**_STRINGS_WRITTEN, 10: "\n", 13: "\r"} if lines else _STRINGS_WRITTEN)


def _read(raw: str) -> str:
    """A string without its escapes."""

    def letter(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _STRINGS_LETTERS.get(match[2], match[2])

    return _STRINGS_ESCAPE.sub(letter, raw).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
