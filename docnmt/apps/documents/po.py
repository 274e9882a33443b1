"""PO: messages and their translations; those without one get it, the rest of the file stays byte for byte.

The Translate Toolkit reads the messages. Where each translation stands in the file is found by its lines, and both are
counted against each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from translate.storage import pypo

from docnmt.apps.documents.languages import check_language
from docnmt.apps.documents.segment import Translated
from docnmt.apps.documents.splice import Place, Spliced, render
from docnmt.apps.documents.tagged import read, wrapped
from docnmt.runtime.errors import UserError

_CHARSET = re.compile(rb"charset=([\w.:-]+)")
_LINE = re.compile(
    r'^\ufeff?(?:(msgid|msgctxt)[ \t]*(?=")|msgstr(?:\[(\d{1,9})\])?[ \t]*(?="))?[ \t]*"(?:[^"\\\n]|\\.)*"[ \t]*\r?$',
    re.MULTILINE,
)
_SENTENCE_END = ".!?:;…"


@dataclass(frozen=True)
class _Message(Place):
    """A message; `width` is that of its lines, if some of its line breaks only fill lines."""

    width: int = 0


class Po(Spliced):
    """A file of messages of GNU gettext."""

    bilingual = True

    def _decoded(self) -> str:
        said = _CHARSET.search(self.content[:8192])
        if said and said[1] != b"CHARSET":
            self.encoding = said[1].decode("ascii")
        return super()._decoded()

    def _places(self) -> Iterator[Place]:
        places = list(self._translations())
        units = self._units()
        if len(units) != len(places):
            raise UserError(f"{self.name}: {len(units)} messages, but {len(places)} with a msgstr; was it cut off?")
        for number, (unit, forms) in enumerate(zip(units, places, strict=True)):
            if unit.isheader():
                self._check_language(str(unit.target))
                continue
            sources, targets = _strings(unit.source), _strings(unit.target)
            for form, (begin, end) in forms.items():
                source = sources[-1] if form or len(forms) == 1 else sources[0]
                inline = read(source, _hard)
                translation = read(targets[form] if form < len(targets) else "", _hard).segment().text
                segment = inline.segment(translation=translation or None, units=("0", str(number)))
                soft = source.count("\n") - sum(raw.count("\n") for raw, _ in inline.payloads)
                width = max(map(len, source.split("\n"))) if soft else 0
                yield _Message(segment, begin, end, inline.payloads, width)

    def _units(self) -> list[pypo.pounit]:
        try:
            store = pypo.pofile.parsestring(self.content)
        except Exception as error:  # the toolkit raises what it likes
            raise UserError(f"{self.name}: cannot be read as PO: {' '.join(str(error).split())}") from error
        return [unit for unit in store.units if not unit.isobsolete() and (unit.msgid or unit.isheader())]

    def _translations(self) -> Iterator[dict[int, tuple[int, int]]]:
        """For each message the places of its translations, by number: the strings behind `msgstr` or `msgstr[N]`."""
        found: dict[int, tuple[int, int]] | None = None
        form: int | None = None
        for match in _LINE.finditer(self.source):
            keyword = match[0].split('"')[0].strip("\ufeff \t")
            begin = match.start() + match[0].index('"')
            end = match.start() + len(match[0].rstrip())
            if keyword == "msgid":
                if found is not None:
                    yield found
                found, form = {}, None
            elif keyword == "msgctxt":  # of the next message
                form = None
            elif keyword.startswith("msgstr") and found is not None:
                form = int(match[2] or 0)
                found[form] = begin, end
            elif not keyword and found is not None and form is not None:
                found[form] = found[form][0], end
        if found is not None:
            yield found

    def _check_language(self, header: str) -> None:
        said = re.search(r"^Language: *(\w+)", header, re.MULTILINE)
        check_language(said and said[1], self.languages[1], file=self.name, what="Language")

    def _render(self, place: Place, text: Translated) -> str:
        if isinstance(place, _Message) and place.width:
            text = wrapped(text, place.width)
        lines = pypo.quoteforpo(render(place, text, str))
        return ("\r\n" if "\r\n" in self.source else "\n").join(lines) or '""'


def _strings(text: object) -> list[str]:
    """All plural forms of a message, or the one that there is."""
    return [str(each) for each in getattr(text, "strings", [text])]


def _hard(space: re.Match[str]) -> bool:
    """Whether white space has a meaning: at the ends, indented, wide, or a line break that ends more than a line."""
    text, (begin, end) = space.string, space.span()
    if begin == 0 or end == len(text) or "\t" in space[0]:
        return True
    if "\n" not in space[0]:
        return len(space[0]) > 2
    return not (space[0] == "\n" and text[begin - 1] not in _SENTENCE_END and text[end].islower())
