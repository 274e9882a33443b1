"""Properties of Java: the values; keys, comments, continued lines and the file's way with other letters stay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from docnmt.apps.documents.catalogue import Catalogue, CatalogueMessage

_LINE = re.compile(
    r"""\ufeff?[ \t\f]*(?:
        [\#!][^\r\n]*                                                   # a comment
        | (?P<key>(?:\\(?:\r\n|.|\n)|[^\\\s=:])+)[ \t\f]*[=:]?[ \t\f]*(?:\\(?:\r\n|\r|\n)[ \t\f]*)*
          (?P<value>[^\\\r\n]*(?:\\(?:\r\n|[\s\S])[^\\\r\n]*)*)(?:\\\Z)?
        | [=:][^\r\n]*
        )?(?:\r\n|\r|\n|\Z)""",
    re.VERBOSE,
)
_PROPERTIES_ESCAPE = re.compile(r"\\(?:u+([0-9A-Fa-f]{4})|(?:\r\n|\r|\n)[ \t\f]*|([^u]))")
_PROPERTIES_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_PROPERTIES_WRITTEN = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\f": "\\f"})
_ARGUMENT = re.compile(r"\{\d+[},]")


@dataclass(frozen=True)
class _Value(CatalogueMessage):
    """A value; `doubled` if Java reads it as a format, in which apostrophes are doubled."""

    doubled: bool = False


class Properties(Catalogue):
    """A bundle of resources, in UTF-8 or, as before Java 9, in Latin 1 with escapes."""

    def _decoded(self) -> str:
        try:
            self.content.decode()
        except UnicodeDecodeError:
            self.encoding = "latin-1"
        return super()._decoded()

    def _messages(self) -> Iterator[CatalogueMessage]:
        place = 0
        while place < len(self.source):
            match = _LINE.match(self.source, place)
            if match is None:
                raise self._wrong(place, "expected 'key = value'")
            if match["value"]:
                text = self._read(match["value"], match.start("value"))
                doubled = _ARGUMENT.search(text) is not None and "'" not in text.replace("''", "")
                yield _Value(text.replace("''", "'") if doubled else text, *match.span("value"), doubled=doubled)
            place = match.end()

    def _read(self, raw: str, begin: int) -> str:
        """A value without its escapes."""
        if wrong := re.search(r"(?<!\\)(?:\\\\)*\\u(?!u*[0-9A-Fa-f]{4})", raw):
            raise self._wrong(begin + wrong.start(), "expected four hexadecimal digits behind \\u")

        def letter(match: re.Match[str]) -> str:
            if match[1]:
                return chr(int(match[1], 16))
            return _PROPERTIES_LETTERS.get(match[2], match[2]) if match[2] else ""

        text = _PROPERTIES_ESCAPE.sub(letter, raw)
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")  # pairs of \u are one character
        except UnicodeDecodeError as error:
            raise self._wrong(begin, "half of a character: a \\ud… without its second half") from error

    def _written(self, entry: CatalogueMessage, text: str) -> str:
        assert isinstance(entry, _Value)
        out = (text.replace("'", "''") if entry.doubled else text).translate(_PROPERTIES_WRITTEN)
        if out[:1].isspace():
            out = f"\\{out}"
        kept = "latin-1" if self.encoding == "latin-1" else "ascii" if self.source.isascii() else "utf-8"
        try:
            out.encode(kept)
        except UnicodeEncodeError:
            small = re.search(r"\\u[0-9A-F]*[a-f]", self.source) is not None
            return "".join(_escaped(each, kept, "04x" if small else "04X") for each in out)
        return out


def _escaped(character: str, encoding: str, form: str) -> str:
    """A character, by its number where the encoding does not have it."""
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        units = character.encode("utf-16-be")
        return "".join(f"\\u{units[at] << 8 | units[at + 1]:{form}}" for at in range(0, len(units), 2))
    return character
