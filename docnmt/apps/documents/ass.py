"""ASS, the subtitles of Aegisub: the texts of dialogue; styles, times, codes, drawings and comments stay."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docnmt.apps.documents.segments import Translated
from docnmt.apps.documents.splice import SegmentPlace
from docnmt.apps.documents.subtitles import Subtitles, besides

_ASS_LINE = re.compile(r"[^\r\n]+")
#: Codes that leave no text to translate as one: karaoke, whose words have a time each.
_KARAOKE = re.compile(r"\\[kK][fot]?\d")
#: Whether what follows is a drawing.
_SCALE = re.compile(r"\\p(\d)")
_CODE = re.compile(r"\{[^{}]*\}")
_FIELDS = 10


class Ass(Subtitles):
    """Subtitles with styles, whose lines end in `\\N`."""

    def _texts(self) -> Iterator[tuple[int, int]]:
        section, fields = "", _FIELDS
        self.left = left = list[str]()
        number, counted = 1, 0
        for line in _ASS_LINE.finditer(self.source):
            name, _, rest = line[0].lstrip("\ufeff").partition(":")
            if line[0].lstrip("\ufeff \t").startswith("["):
                section, fields = line[0].strip("\ufeff \t[]").lower(), _FIELDS
            elif section == "events" and name == "Format":
                fields = rest.count(",") + 1
            elif section == "events" and name == "Dialogue":
                found = rest.split(",", fields - 1)
                if len(found) < fields:
                    raise self._refused(line.start(), f"expected {fields} fields, divided by commas, got {len(found)}")
                codes = "".join(_CODE.findall(found[-1]))
                if _KARAOKE.search(codes):
                    number, counted = number + self.source.count("\n", counted, line.start()), line.start()
                    left.append(f"line {number}: karaoke, each syllable of which has a time")
                elif _CODE.sub("", _without_drawings(found[-1])).strip():
                    yield line.end() - len(found[-1]), line.end()
        if not section:
            raise self._refused(0, "expected ASS, with sections such as [Events]")

    def _raw(self, begin: int, end: int) -> str:
        raw = self.source[begin:end].replace("\\N", " \n")  # of the same length, as places are those of the file
        return raw.replace("\\n", "  ").replace("\\h", "\u00a0\u2060")  # a model does not see the second one

    def _unseen(self, text: str) -> list[tuple[int, int]]:
        leads = super()._unseen(_without_drawings(text))
        return besides(sorted([*_drawings(text), *leads]), _CODE, text)

    def _render(self, place: SegmentPlace, text: Translated) -> str:
        out = re.sub(r"(?<![ \t])[ \t]*\n", r"\\N", super()._render(place, text))
        return out.replace("\u00a0", "\\h") if "\\h" in self.source[place.begin : place.end] else out


def _drawings(text: str) -> Iterator[tuple[int, int]]:
    """Where drawings stand, each with the code that begins it."""
    begin: int | None = None
    for code in _CODE.finditer(text):
        scales = _SCALE.findall(code[0])
        if scales and (begin is None) == (scales[-1] != "0"):
            if begin is not None:
                yield begin, code.start()
            begin = code.start() if begin is None else None
    if begin is not None:
        yield begin, len(text)


def _without_drawings(text: str) -> str:
    """A text of the same length with spaces in place of its drawings."""
    parts, last = list[str](), 0
    for begin, end in _drawings(text):
        parts += [text[last:begin], " " * (end - begin)]
        last = end
    return "".join([*parts, text[last:]])
