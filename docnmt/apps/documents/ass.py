"""ASS, the subtitles of Aegisub: the texts of dialogue; styles, times, codes, drawings and comments stay."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from docnmt.apps.documents.subtitles import Subtitles, besides

_LINE = re.compile(r"[^\r\n]+")
#: Codes between which no text stands: drawings, which begin and end; and karaoke, whose words have a time each.
_DRAWING, _KARAOKE = re.compile(r"\\p(\d)"), re.compile(r"\\[kK][fot]?\d")
_CODE = re.compile(r"\{[^{}]*\}")
_FIELDS = 10


def _inside(span: tuple[int, int], others: list[tuple[int, int]], begins: list[int]) -> bool:
    place = bisect_right(begins, span[0]) - 1
    return place >= 0 and span[0] < others[place][1]


class Ass(Subtitles):
    """Subtitles with styles, whose lines end in `\\N`."""

    references = False

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
                else:
                    yield line.end() - len(found[-1]), line.end()
        if not section:
            raise self._refused(0, "expected ASS, with sections such as [Events]")

    def _raw(self, begin: int, end: int) -> str:
        raw = self.source[begin:end].replace("\\N", " \n")  # of the same length, as places are those of the file
        return raw.replace("\\n", "  ").replace("\\h", "\u00a0\u2060")

    def _unseen(self, text: str) -> list[tuple[int, int]]:
        drawn, begin = list[tuple[int, int]](), -1
        for code in _CODE.finditer(text):
            ends = [sign[1] != "0" for sign in _DRAWING.finditer(code[0])][-1:]  # the last one counts
            if ends == [True] and begin < 0:
                begin = code.start()
            elif ends == [False] and begin >= 0:
                drawn.append((begin, code.end()))
                begin = -1
        drawn += [(begin, len(text))] if begin >= 0 else []
        begins = [span[0] for span in drawn]
        leads = [lead for lead in super()._unseen(text) if not _inside(lead, drawn, begins)]
        return besides(sorted([*drawn, *leads]), _CODE, text)
