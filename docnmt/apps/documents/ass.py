"""ASS, the subtitles of Aegisub: the texts of dialogue; styles, times, codes, drawings and comments stay."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docnmt.apps.documents.segment import Translated
from docnmt.apps.documents.splice import SegmentPlace
from docnmt.apps.documents.subtitles import Subtitles, besides

_LINE = re.compile(r"[^\r\n]+")
#: Codes that leave no text to translate as one: drawings, and karaoke, whose words have a time each.
_DRAWING, _KARAOKE = re.compile(r"\\p[1-9]"), re.compile(r"\\[kK][fot]?\d")
_CODE = re.compile(r"\{[^{}]*\}")
_FIELDS = 10


class Ass(Subtitles):
    """Subtitles with styles, whose lines end in `\\N`."""

    def _texts(self) -> Iterator[tuple[int, int]]:
        section, fields = "", _FIELDS
        self.left = left = list[str]()
        number, counted = 1, 0
        for line in _LINE.finditer(self.source):
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
                elif not _DRAWING.search(codes):
                    yield line.end() - len(found[-1]), line.end()
        if not section:
            raise self._refused(0, "expected ASS, with sections such as [Events]")

    def _raw(self, begin: int, end: int) -> str:
        raw = self.source[begin:end].replace("\\N", " \n")  # of the same length, as places are those of the file
        return raw.replace("\\n", "  ").replace("\\h", "  ")

    def _unseen(self, text: str) -> list[tuple[int, int]]:
        return besides(super()._unseen(text), _CODE, text)

    def _render(self, place: SegmentPlace, text: Translated) -> str:
        return re.sub(r"(?<![ \t])[ \t]*\n", r"\\N", super()._render(place, text))
