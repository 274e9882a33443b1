"""Timed text: SRT, WebVTT, ASS."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import srt

from docnmt.apps.documents.segments import Translated, expect, renamed, unescaped
from docnmt.apps.documents.text import SegmentPlace, Spliced, balanced, display_width, read, render, replaced

# SRT: a subtitle is a segment; its lines are one text, which is divided into as many again.

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
_ASS_BREAK = re.compile(r"(?<!\S)[A-Za-z]:\\\S*|(\\N)|(\\h)")
#: Characters that subtitles may write as entities.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\u00a0": "&nbsp;"}
_ENTITY = re.compile(r"&(?:amp|lt|gt|nbsp|quot|apos|lrm|rlm|#\d{1,7}|#x[0-9A-Fa-f]{1,6});")
#: The expression of `srt` takes the square of such a number's length, and more.
_DIGITS = 100
_TEXT = re.compile(r"\S")
_TIMES = re.compile(r"^[ \t]*-?\d{1,3}:\d\d:\d\d[,.]\d{1,3}[ \t]*-->", re.MULTILINE)
_LONG = re.compile(rf"[0-9]{{{_DIGITS + 1}}}")
#: A text of fewer columns is one line.
_LINE = 42


def _decoded(text: str) -> str:
    return _ENTITY.sub(lambda match: unescaped(match[0]), text) if "&" in text else text


class Subtitles(Spliced):
    r"""Subtitles with their times, which stay.

    Translated: subtitles; the lines of one are read as one text, and its translation is divided into as many lines, or
    stays one line of up to 42 columns, of which a wide character takes two. Lines in Chinese and Japanese end between
    characters, never before a closing mark or behind an opening one. A line with another speaker (`-`, `>>`, `ANNA:`),
    a song or a sound (`[door opens]`) stays a line
    Stays: numbers, times; codes (`{\an8}`) and speakers' signs (`-`, `>>`) at the beginning of a line. Entities
    (`&amp;`) are read as the characters that they stand for, and written again
    """

    def read_places(self) -> Iterator[SegmentPlace]:
        spans, self._has_ampersands = list(self._texts()), "&amp;" in self.source
        expect(texts=sum(not self.source[begin:end].isspace() for begin, end in spans if begin < end))
        for number, (begin, end) in enumerate(spans):
            raw = self._raw(begin, end)
            begin, end = begin + len(raw) - len(raw.lstrip()), end - (len(raw) - len(raw.rstrip()))
            if begin < end:
                text = self._raw(begin, end)
                inline = read(text, _hard, self._unseen(text), decode=_decoded)
                yield SegmentPlace(inline.segment(units=("0", str(number))), begin, end, inline.payloads)

    def _texts(self) -> Iterator[tuple[int, int]]:
        """Where the texts stand, by the expression of `srt`; its `parse` would look for each in all that follows."""
        if long := _LONG.search(self.source):
            raise self.refused(long.start(), f"a number of more than {_DIGITS} digits, which takes too long to read")
        index = len(self.source) - len(self.source.lstrip("\ufeff"))
        while text := _TEXT.search(self.source, index):
            match = srt.SRT_REGEX.match(self.source, index)
            if match is None:
                message = "expected a subtitle: number, times (00:00:01,000 --> 00:00:02,000) and text"
                raise self.refused(text.start(), message)
            if times := _TIMES.search(self.source, *match.span(5)):
                below = "-" in times[0].partition("-->")[0]
                why = "times below zero" if below else "times without a number before them, in a line of its own"
                raise self.refused(times.start(), why)
            yield match.span(5)
            index = match.end()

    def _raw(self, begin: int, end: int) -> str:
        """A text as it is written, with its lines, at the places of the file."""
        as_read = lambda match: " \n" if match[1] else "\u00a0\u2060" if match[2] else match[0]  # noqa: E731  (of equal length)
        return _ASS_BREAK.sub(as_read, self.source[begin:end])

    def _unseen(self, text: str) -> list[tuple[int, int]]:
        """Codes and dashes at the beginnings of lines, with the space behind them unless lines are joined."""
        spans: list[tuple[int, int]] = []
        for begin in _BEGIN.finditer(text):
            alone = begin.start() > 0 and not _ANOTHER.match(text, begin.start())
            spans += (lead.span(alone) for lead in _LEAD.finditer(text, *begin.span()) if lead[1])
        return spans

    def rendered(self, place: SegmentPlace, text: Translated) -> str:
        source = self._raw(place.begin, place.end)
        soft = source.count("\n") - sum(raw.count("\n") for raw, _ in place.raws)
        if soft > 0 and display_width(text.text) > _LINE:
            text = balanced(text, soft + 1)
        written = self.source[place.begin : place.end]
        out = render(place, text, partial(self._encode, written))
        if "\\h" in written:
            out = out.replace("\u00a0\u2060", "\\h").replace("\u00a0", "\\h")
        if "\n" not in written and "\n" in source:
            return re.sub(r"(?<![ \t])[ \t]*\n", r"\\N", out)
        return out.replace("\n", "\r\n") if "\r\n" in source and "\r\n" not in out else out

    def _encode(self, written: str, text: str) -> str:
        """Text as the file writes it: with the entities of this subtitle; `&amp;` also if others have it."""
        ampersand = "&amp;" in written or ("&" not in written and self._has_ampersands)
        used = {sign: entity for sign, entity in _ENTITIES.items() if (ampersand if sign == "&" else entity in written)}
        return text.translate({ord(sign): entity for sign, entity in used.items()})


def _besides(spans: list[tuple[int, int]], pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    """These parts of a text, and what a pattern matches outside of them, in order."""
    taken = [(0, 0), *spans, (len(text), len(text))]
    free = ((before[1], after[0]) for before, after in pairwise(taken))
    return sorted([*spans, *(match.span() for begin, end in free for match in pattern.finditer(text, begin, end))])


def _hard(space: re.Match[str]) -> bool:
    if "\n" not in space[0]:
        return False
    line = space.string[space.string.rfind("\n", 0, space.start()) + 1 : space.start()]
    return _ANOTHER.match(space.string, space.end()) is not None or _SOUNDS.match(line) is not None


# ASS, the subtitles of Aegisub: the texts of dialogue; styles, times, codes, drawings and comments stay.

_ASS_LINE = re.compile(r"[^\r\n]+")
#: Codes that leave no text to translate as one: karaoke, whose words have a time each.
_KARAOKE = re.compile(r"\\[kK][fot]?\d")
#: Whether what follows is a drawing.
_SCALE = re.compile(r"\\p(\d)")
_CODE = re.compile(r"\{[^{}]*\}")
_FIELDS = 10


class Ass(Subtitles):
    r"""Subtitles with styles, whose lines end in `\N`.

    Translated: as in `.srt`; `\h` is a no-break space
    Stays: as in `.srt`; other sections, codes, comments, drawings. Karaoke is named
    """

    def _texts(self) -> Iterator[tuple[int, int]]:
        section, fields = "", _FIELDS
        for line in _ASS_LINE.finditer(self.source):
            name, _, rest = line[0].lstrip("\ufeff").partition(":")
            if line[0].lstrip("\ufeff \t").startswith("["):
                section, fields = line[0].strip("\ufeff \t[]").lower(), _FIELDS
            elif section == "events" and name == "Format":
                fields = rest.count(",") + 1
            elif section == "events" and name == "Dialogue":
                columns = rest.split(",", fields - 1)
                if len(columns) < fields:
                    message = f"expected {fields} fields, divided by commas, got {len(columns)}"
                    raise self.refused(line.start(), message)
                codes = "".join(_CODE.findall(columns[-1]))
                if _KARAOKE.search(codes):
                    self.left.append(f"line {self.line(line.start())}: karaoke, each syllable of which has a time")
                elif _CODE.sub("", _without_drawings(columns[-1])).strip():
                    yield line.end() - len(columns[-1]), line.end()
        if not section:
            raise self.refused(0, "expected ASS, with sections such as [Events]")

    def _raw(self, begin: int, end: int) -> str:
        raw = self.source[begin:end].replace("\\N", " \n")  # of the same length, as places are those of the file
        return raw.replace("\\n", "  ").replace("\\h", "\u00a0\u2060")  # a model does not see the second one

    def _unseen(self, text: str) -> list[tuple[int, int]]:
        leads = super()._unseen(_without_drawings(text))
        return _besides(sorted([*_drawings(text), *leads]), _CODE, text)

    def rendered(self, place: SegmentPlace, text: Translated) -> str:
        out = re.sub(r"(?<![ \t])[ \t]*\n", r"\\N", super().rendered(place, text))
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
    return replaced(text, ((begin, end, " " * (end - begin)) for begin, end in _drawings(text)))


# WebVTT: as SRT; its notes, styles, regions, names of cues and settings stay.

_BLOCK = re.compile(r"[^\r\n]+(?:(?:\r\n|\r|\n)[^\r\n]+)*")
_VTT_TIMES = re.compile(
    r"^(?:\d{2,}:)?\d\d:\d\d\.\d{3}[ \t]+-->[ \t]+(?:\d{2,}:)?\d\d:\d\d\.\d{3}[^\r\n]*", re.MULTILINE
)
_LANGUAGE = re.compile(r"\ufeff?WEBVTT[^\r\n]*(?:\r\n?|\n)(?:[^\r\n]+(?:\r\n?|\n))*?Language:[ \t]*([A-Za-z][\w-]*)")
_STAYS = re.compile(r"(?:NOTE|STYLE|REGION)(?![^\s])")
#: Tags without an end: the time of what follows, and a voice that speaks to the end of the subtitle.
_TIME, _ALONE = re.compile(r"<[\d:.]+>"), re.compile(r"<(?:[\d:.]+|v[ .][^<>]*)>")
_BARE = re.compile(r"&(?!\w+;|#\w+;)")
#: A tag, escaped: one without its partner in the same subtitle is no tag to us.
_TAG = re.compile(r"&lt;(/?(?:[cibuv]|ruby|rt|lang)(?![\w-])(?:[^<>&]|&(?![lg]t;))*)(?:>|&gt;)")


class WebVtt(Subtitles):
    """Subtitles of the web.

    Translated: as in `.srt`
    Stays: as in `.srt`; notes, styles, names and settings of subtitles, `<v Anna>`
    """

    def _texts(self) -> Iterator[tuple[int, int]]:
        if re.match(r"\ufeff?WEBVTT(?![^\s])", self.source) is None:
            raise self.refused(0, "expected WebVTT, whose first line is WEBVTT")
        first = True
        for block in _BLOCK.finditer(self.source):
            if not _STAYS.match(block[0]):
                times = list(_VTT_TIMES.finditer(block[0]))  # each ends the subtitle before it
                if block[0].count("-->") > len(times) or (not times and not first):
                    message = "expected a subtitle: times (00:01.000 --> 00:02.000) and text"
                    raise self.refused(block.start(), message)
                ends = [*(match.start() for match in times[1:]), len(block[0])]
                for match, end in zip(times, ends, strict=False):  # a head has none
                    yield block.start() + match.end(), block.start() + end
            first = False

    def _unseen(self, text: str) -> list[tuple[int, int]]:
        return _besides(super()._unseen(text), _ALONE if "</v>" not in text else _TIME, text)

    def _settings(self) -> Iterator[tuple[int, int, str]]:
        match = _LANGUAGE.match(self.source)
        if match is not None and (code := renamed(match[1], self.languages)):
            yield *match.span(1), code

    def _raw(self, begin: int, end: int) -> str:
        return self.source[begin:end]

    def _encode(self, written: str, text: str) -> str:
        strict = not _BARE.search(written)  # else the file is not strict about it
        out = super()._encode(f"{written}&amp;&lt;" if strict else written, text)
        there = set(re.findall(r"<[^<>]*>", written))
        return _TAG.sub(lambda tag: shown if (shown := f"<{tag[1]}>") in there else tag[0], out)

    def rendered(self, place: SegmentPlace, text: Translated) -> str:
        return super().rendered(place, text).replace("-->", "--&gt;")
