"""Plain text: a line is a segment, tabs and wide spaces part what is translated, blank lines part paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docnmt.apps.documents.segments import Inline
from docnmt.apps.documents.splice import Raw, SegmentPlace, Spliced
from docnmt.apps.documents.tagged import add

_LINE = re.compile(r"[^\r\n]+")
_END = re.compile(r"\r\n|\r|\n")


class PlainText(Spliced):
    """A text file in UTF-8, each of whose lines keeps its place."""

    def _places(self) -> Iterator[SegmentPlace]:
        paragraph, last = 0, 0
        for match in _LINE.finditer(self.source):
            text = match[0].strip("\ufeff")
            if not text.strip():
                continue
            paragraph += len(_END.findall(self.source, last, match.start())) > 1
            last = match.end()
            begin = match.start() + match[0].index(text.strip())
            inline: Inline[Raw] = Inline(lambda text: (text, ""))
            add(inline, text.strip(), lambda space: "\t" in space[0] or len(space[0]) > 2)
            segment = inline.segment(units=("0", str(paragraph)))
            yield SegmentPlace(segment, begin, begin + len(text.strip()), inline.payloads)
