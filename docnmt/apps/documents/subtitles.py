"""SRT: a subtitle is a segment; its lines are one text, which is divided into as many again."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import srt

from docnmt.apps.documents.segments import Translated
from docnmt.apps.documents.splice import SegmentPlace, Spliced, render
from docnmt.apps.documents.tagged import balanced, display_width, read
from docnmt.runtime.errors import UserError

_CODES = r"\s*(?:(?:<(?!v[ .])[^<>]*>|\{[^{}]*\})[^\S\n]*)*"
_CAPITALS = "A-ZÀ-ÖØ-ÞΑ-ΩА-Я"
#: A sound: `[door opens]`, `(SIGHS)`.
_SOUND = rf"(?:\[[^\[\]\n]*\]|\([{_CAPITALS} ]+\))"
#: The sign of another speaker in captions.
_SPEAKER = "(?:>{2,3}|(?:&gt;){2,3})"
#: A line that begins so is another speaker's (also `ANNA:`, and voices of WebVTT), a song or a sound.
_ANOTHER = re.compile(rf"{_CODES}(?:[-–—♪♫#*•]|{_SPEAKER}|<v[ .]|{_SOUND}|[{_CAPITALS}][{_CAPITALS}\d .'’#&-]*:(?!\S))")
#: A line that is nothing but a sound.
_SOUNDS = re.compile(rf"{_CODES}{_SOUND}{_CODES}\Z")
#: What a line may begin with: tags, codes that say where it is shown, and the sign of a speaker or a dash, unless that
#: is the sign of a number.
_BEGIN = re.compile(
    rf"^(?:<[^<>]*>|\{{\\[^{{}}]*\}}|[^\S\n])*(?:(?:[-–—]+(?!\d)|{_SPEAKER})[^\S\n]*)?(?=\S)", re.MULTILINE
)
_LEAD = re.compile(rf"<[^<>]*>|(\{{\\[^{{}}]*\}}|[-–—]+|{_SPEAKER})[^\S\n]*")
#: A line break in SRT as ASS writes it, and a path, in which it is none.
_ASS_BREAK = re.compile(r"(?<!\S)[A-Za-z]:\\\S*|(\\N)")
#: Characters that subtitles may write as entities.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\u00a0": "&nbsp;"}
_ENTITY = re.compile(r"&(?:amp|lt|gt|nbsp|quot|apos|#\d{1,7}|#x[0-9A-Fa-f]{1,6});")
#: The expression of `srt` takes the square of such a number's length, and more.
_DIGITS = 100
_TEXT = re.compile(r"\S")
_TIMES = re.compile(r"^[ \t]*-?\d{1,3}:\d\d:\d\d[,.]\d{1,3}[ \t]*-->", re.MULTILINE)
_LONG = re.compile(rf"[0-9]{{{_DIGITS + 1}}}")
#: A text of fewer columns is one line.
_LINE = 42


class Subtitles(Spliced):
    """Subtitles with their times, which stay."""

    def _places(self) -> Iterator[SegmentPlace]:
        for number, (begin, end) in enumerate(self._texts()):
            raw = self._raw(begin, end)
            begin, end = begin + len(raw) - len(raw.lstrip()), end - (len(raw) - len(raw.rstrip()))
            if begin < end:
                text = self._raw(begin, end)
                inline = read(text, _hard, self._unseen(text), decode=_decoded)
                yield SegmentPlace(inline.segment(units=("0", str(number))), begin, end, inline.payloads)

    def _texts(self) -> Iterator[tuple[int, int]]:
        """Where the text of each subtitle stands."""
        return (match.span(5) for match in self._found())

    def _raw(self, begin: int, end: int) -> str:
        """A text as it is written, with its lines, at the places of the file."""
        return _ASS_BREAK.sub(lambda match: " \n" if match[1] else match[0], self.source[begin:end])

    def _unseen(self, text: str) -> list[tuple[int, int]]:
        """What of a text a model does not see."""
        return list(_leads(text))

    def _found(self) -> Iterator[re.Match[str]]:
        """Each subtitle, by the expression of `srt`, which is asked only where the one before has ended: its `parse`
        would look for the next one everywhere behind."""
        if long := _LONG.search(self.source):
            raise self._refused(long.start(), f"a number of more than {_DIGITS} digits, which takes too long to read")
        place = len(self.source) - len(self.source.lstrip("\ufeff"))
        while text := _TEXT.search(self.source, place):
            match = srt.SRT_REGEX.match(self.source, place)
            if match is None:
                message = "expected a subtitle: number, times (00:00:01,000 --> 00:00:02,000) and text"
                raise self._refused(text.start(), message)
            if times := _TIMES.search(self.source, *match.span(5)):
                below = "-" in times[0].partition("-->")[0]
                why = "times below zero" if below else "times without a number before them, in a line of its own"
                raise self._refused(times.start(), why)
            yield match
            place = match.end()

    def _refused(self, place: int, message: str) -> UserError:
        return UserError(f"{self.name}:{self.source.count(chr(10), 0, place) + 1}: {message}")

    def _render(self, place: SegmentPlace, text: Translated) -> str:
        source = self._raw(place.begin, place.end)
        soft = source.count("\n") - sum(raw.count("\n") for raw, _ in place.raws)
        if soft > 0 and display_width(text.text) > _LINE:
            text = balanced(text, soft + 1)
        written = self.source[place.begin : place.end]
        out = render(place, text, partial(self._encode, written))
        if "\n" not in written and "\n" in source:
            return re.sub(r"[ \t]*\n", r"\\N", out)
        return out.replace("\n", "\r\n") if "\r\n" in source and "\r\n" not in out else out

    def _encode(self, written: str, text: str) -> str:
        """Text as the file writes it: with the entities that stand in this subtitle."""
        return text.translate({ord(sign): entity for sign, entity in _ENTITIES.items() if entity in written})


def _decoded(text: str) -> str:
    """Text without entities."""
    return _ENTITY.sub(lambda match: html.unescape(match[0]), text) if "&" in text else text


def _leads(text: str) -> Iterator[tuple[int, int]]:
    """Codes and dashes at the beginnings of lines, which stay there, with the space behind them; a code alone, before a
    line that does not stay one, leaves its space to the text."""
    for begin in _BEGIN.finditer(text):
        alone = begin.start() > 0 and not _ANOTHER.match(text, begin.start())
        yield from (lead.span(alone) for lead in _LEAD.finditer(text, *begin.span()) if lead[1])


def besides(spans: list[tuple[int, int]], pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    """These parts of a text, and what a pattern matches outside of them, in order."""
    taken = [(0, 0), *spans, (len(text), len(text))]
    free = ((before[1], after[0]) for before, after in pairwise(taken))
    return sorted([*spans, *(match.span() for begin, end in free for match in pattern.finditer(text, begin, end))])


def _hard(space: re.Match[str]) -> bool:
    if "\n" not in space[0]:
        return False
    line = space.string[space.string.rfind("\n", 0, space.start()) + 1 : space.start()]
    return _ANOTHER.match(space.string, space.end()) is not None or _SOUNDS.match(line) is not None
