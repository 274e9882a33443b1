"""WebVTT: as SRT; its notes, styles, regions, names of cues and settings stay."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docnmt.apps.documents.segments import Translated
from docnmt.apps.documents.splice import SegmentPlace
from docnmt.apps.documents.subtitles import Subtitles, besides
from docnmt.runtime.languages import base, tag

_BLOCK = re.compile(r"[^\r\n]+(?:(?:\r\n|\r|\n)[^\r\n]+)*")
_VTT_TIMES = re.compile(
    r"^(?:\d{2,}:)?\d\d:\d\d\.\d{3}[ \t]+-->[ \t]+(?:\d{2,}:)?\d\d:\d\d\.\d{3}[^\r\n]*", re.MULTILINE
)
_LANGUAGE = re.compile(r"\ufeff?WEBVTT[^\r\n]*(?:\r\n?|\n)(?:[^\r\n]+(?:\r\n?|\n))*?Language:[ \t]*([A-Za-z][\w-]*)")
_STAYS = re.compile(r"(?:NOTE|STYLE|REGION)(?![^\s])")
#: Tags without an end: the time of what follows, and a voice that speaks to the end of the subtitle.
_TIME, _ALONE = re.compile(r"<[\d:.]+>"), re.compile(r"<(?:[\d:.]+|v[ .][^<>]*)>")
_BARE = re.compile(r"&(?!\w+;|#\w+;)")


class WebVtt(Subtitles):
    """Subtitles of the web."""

    def _texts(self) -> Iterator[tuple[int, int]]:
        head = re.match(r"\ufeff?WEBVTT(?![^\s])", self.source)
        if head is None:
            raise self._refused(0, "expected WebVTT, whose first line is WEBVTT")
        first = True
        for block in _BLOCK.finditer(self.source):
            if not _STAYS.match(block[0]):
                times = list(_VTT_TIMES.finditer(block[0]))  # each ends the subtitle before it
                if block[0].count("-->") > len(times) or (not times and not first):
                    message = "expected a subtitle: times (00:01.000 --> 00:02.000) and text"
                    raise self._refused(block.start(), message)
                ends = [*(match.start() for match in times[1:]), len(block[0])]
                for match, end in zip(times, ends, strict=False):  # a head has none
                    yield block.start() + match.end(), block.start() + end
            first = False

    def _unseen(self, text: str) -> list[tuple[int, int]]:
        return besides(super()._unseen(text), _ALONE if "</v>" not in text else _TIME, text)

    def _settings(self) -> Iterator[tuple[int, int, str]]:
        match = _LANGUAGE.match(self.source)
        if match is not None and base(match[1]) == base(self.languages[0]):
            yield *match.span(1), tag(self.languages[1])

    def _raw(self, begin: int, end: int) -> str:
        return self.source[begin:end]

    def _encode(self, written: str, text: str) -> str:
        strict = not _BARE.search(written)  # else the file is not strict about it
        return super()._encode(f"{written}&amp;&lt;" if strict else written, text)

    def _render(self, place: SegmentPlace, text: Translated) -> str:
        return super()._render(place, text).replace("-->", "--&gt;")
