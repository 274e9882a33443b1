"""Markdown (CommonMark with tables and struck-out text): paragraphs, headings, items and cells are segments.

`markdown-it-py` says what is what, and in which lines of the file. Inside of a line each of its tokens is found again
in order (`markdown_inline`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from markdown_it import MarkdownIt
from markdown_it.token import Token

from docnmt.apps.documents import html as web
from docnmt.apps.documents.html import tokens
from docnmt.apps.documents.markdown_blocks import ALERT, FRONT_MATTER, FRONT_TEXT, PROSE, TITLE, parser
from docnmt.apps.documents.markdown_inline import Env, Line, Lost, reading
from docnmt.apps.documents.sections import Sections
from docnmt.apps.documents.segment import Translated
from docnmt.apps.documents.splice import SegmentPlace, Spliced, around_nothing, render

_END = re.compile(r"\r\n?|\n")
_RISKY = re.compile(r"([\\`*_\[\]<>&~$^])")
_RISKY_START = re.compile(r"^(\s*\d*)([#+\-.):=>|])")
_CLOSING = re.compile(r"(?<![^ \t])#+[ \t]*\Z")  # at the end of a heading it is no text
#: The box of a task, at the beginning of an item.
_BOX = re.compile(r"\[[ xX]\][ \t]+")
#: An escaped bracket at the beginning of a line, which would begin a formula.
_BRACKET = re.compile(r"^([ \t>]*)\\\[", re.MULTILINE)
_CELLS = ("td", "th")
_SECTIONS = frozenset({"bullet_list", "ordered_list", "tr", "dl", "line_block"})
#: Blocks that may have a title in their first line.
_TITLED = frozenset({"container_colons", "container_slashes", "indented"})
_NUMBERED = re.compile(r"\{\d+\}")


#: Codes of site generators, which markup does not end.
_TEMPLATE = re.compile(r"(\{\{[^{}\n]*\}\}|\{%[^{}\n]*%\})")
#: A sign that nothing requires to be escaped, and is.
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


def _escaped(piece: str) -> str:
    """Text that is no markup, also where it begins a line, as behind a hard break; templates stay as they are."""
    parts = _TEMPLATE.split(piece)
    parts[::2] = [_RISKY.sub(r"\\\1", part).replace("\\<", "&lt;").replace("\\>", "&gt;") for part in parts[::2]]
    return _RISKY_START.sub(r"\1\\\2", "".join(parts))  # above: not all readers know < and > with a backslash


def _behind_a_word(place: SegmentPlace, text: Translated) -> Translated:
    """A comment that did not begin a paragraph does not begin its translation, which all would then be HTML."""
    word = re.match(r"\S*", text.text)
    marks = zip(place.segment.marks, text.spans, place.raws, strict=True)
    end = word.end() if word else 0
    spans = ((end, end) if mark.begin and span == (0, 0) and raw[0][:2] == "<!" else span for mark, span, raw in marks)
    return replace(text, spans=tuple(spans))


@dataclass(frozen=True)
class _Written(SegmentPlace):
    """A segment of Markdown and the block that it stands in: in a cell `|` is escaped, in a heading `#` at the end."""

    block: str = ""

    @property
    def cell(self) -> bool:
        """Whether it is one of a table."""
        return self.block in _CELLS


class Markdown(Spliced):
    """A text in Markdown, with HTML between and front matter, which is left alone."""

    def _places(self) -> Iterator[SegmentPlace]:
        begin = FRONT_MATTER.match(self.source).end()  # type: ignore[union-attr]  # it matches nothing, too
        self.parser, sections = self._parser(), Sections()
        self.left = left = list[int | str]()
        if FRONT_TEXT.search(self.source, 0, begin):
            left.append("the front matter, with its title or description")
        self.env: Env = {}
        starts = [begin, *(match.end() for match in _END.finditer(self.source, begin)), len(self.source)]
        inside: list[str] = []  # the blocks around
        cells = 0  # where the row is read
        for token in self.parser.parse(self.source[begin:], self.env):
            name = token.type.rpartition("_")[0]
            if token.nesting:
                inside.append(name) if token.nesting > 0 else inside.pop()
                if name == "heading" and token.nesting > 0:
                    sections.heading()
                elif name in _SECTIONS:
                    sections.together(begins=token.nesting > 0)
                if name == "tr" and token.map:
                    cells = starts[token.map[0]]
                if name in _TITLED and token.nesting > 0 and token.map:
                    yield from self._title(starts[token.map[0]], sections, left)
            elif token.map and (token.type == "grid_table" or (token.type == "fence" and PROSE.match(token.info))):
                left.append(self._line(starts[token.map[0]]))
            elif token.type == "html_block" and token.map:
                yield from self._html(token, starts[token.map[0]], starts[token.map[1]], sections, left)
            for part in self._parts(token, inside[-2:]) if token.type == "inline" else ():
                assert part.map is not None
                lines = self._lines(part, starts, cells if inside[-1] in _CELLS else None)
                try:
                    yield self._place(part, lines, sections, inside[-1])
                except Lost:
                    left.append(self._line(starts[part.map[0]]))
                if lines:
                    cells = lines[-1].end
                    sections.paragraph()

    def _parser(self) -> MarkdownIt:
        return parser()

    def _parts(self, token: Token, inside: Sequence[str]) -> list[Token]:
        """A paragraph; of an alert, its title and its text; of a task, what stands behind its box."""
        if not token.map or not token.content.strip():
            return []
        box = _BOX.match(token.content) if inside == ["list_item", "paragraph"] else None
        match = ALERT.match(token.content) or box
        if match is None:
            return [token]
        title, _, text = token.content[match.end() :].partition("\n")
        parts = []
        for number, content in enumerate((token.content[match.end() :],) if match is box else (title, text)):
            if content.strip():
                (part,) = self.parser.parseInline(content, self.env)
                part.map = [token.map[0] + number, token.map[1]]
                parts.append(part)
        return parts

    def _lines(self, token: Token, starts: Sequence[int], cell: int | None) -> list[Line]:
        """Where the lines of a paragraph stand in the file; none if they do not, as with tabs inside of a quotation."""
        assert token.map is not None
        found = []
        for number, content in enumerate(token.content.split("\n")):
            begin, end = starts[token.map[0] + number], starts[token.map[0] + number + 1]
            text = content.strip()
            if cell is not None:
                text = text.replace("|", "\\|")
                at = self.source.find(text, cell, end)
            else:
                at = self.source.rfind(text, begin, end)
            if at < 0:
                return []
            found.append(Line(at, at + len(text)))
        return found

    def _place(self, token: Token, lines: Sequence[Line], sections: Sections, block: str) -> SegmentPlace:
        if not lines:
            raise Lost("its lines are not in the file")
        inline = reading(token, self.env, self.source, lines)
        begin, end = lines[0].begin, lines[-1].end
        return _Written(inline.segment(units=sections.units), begin, end, inline.payloads, block)

    def _title(self, begin: int, sections: Sections, left: list[int | str]) -> Iterator[SegmentPlace]:
        """The title in a block's first line."""
        line = self.source.find("\n", begin)
        match = TITLE.search(self.source, begin, len(self.source) if line < 0 else line)
        if match is None or match.lastindex is None:
            return
        begin, end = match.span(match.lastindex)
        (token,) = self.parser.parseInline(self.source[begin:end], self.env)
        try:
            yield self._place(token, [Line(begin, end)], sections, "title" if match.lastindex == 1 else "")
        except Lost:
            left.append(self._line(begin))
        sections.paragraph()

    def _html(
        self, token: Token, begin: int, end: int, sections: Sections, left: list[int | str]
    ) -> Iterator[SegmentPlace]:
        lines = [line.strip() for line in token.content.strip().split("\n")]
        begin = self.source.index(lines[0], begin, end)  # behind the mark of a list or quotation
        part = self.source[begin:end]
        if [line.strip() for line in _END.split(part.strip())] == lines:
            for place in web.segments(part, web.joined(tokens(part)), sections):
                yield replace(place, begin=begin + place.begin, end=begin + place.end)
        elif any(web.segments(token.content, web.joined(tokens(token.content)), Sections())):  # marks between the lines
            left.append(self._line(begin))

    def _line(self, place: int) -> int:
        return len(_END.findall(self.source, 0, place)) + 1

    def _render(self, place: SegmentPlace, text: Translated) -> str:
        if not isinstance(place, _Written):
            return render(place, text, web.escape)
        always = self._always_escaped(place)
        out = self._markup(place, text, always)
        if place.block == "title":  # between quotation marks
            out = out.replace('"', "'")
        if place.block == "heading":
            out = _CLOSING.sub(r"\\\g<0>", out)
        return out.replace("|", "\\|") if place.cell else out

    def _markup(self, place: _Written, text: Translated, always: Callable[[str], str]) -> str:
        """A translation with as few signs escaped, and as many formats, as are read again as what was meant."""
        if not text.text[:1].isspace():
            text = _behind_a_word(place, text)
        bare = replace(place, raws=[("", "") if raw[1].startswith(raw[0]) else raw for raw in place.raws])
        out = ""
        for each in (place, bare) if bare.raws != place.raws else (place,):  # signs of emphasis may be read as text
            for escape in (always, lambda piece: always(_escaped(piece))):
                out = render(each, text, escape)
                if self._reads(out, each, text):
                    return out
        return _BRACKET.sub(r"\1&#91;", out)

    def _always_escaped(self, place: SegmentPlace) -> Callable[[str], str]:
        """What escapes the signs of a text that its author escapes wherever they stand in it, needed or not."""
        written = Counter(_ESCAPE.findall(self.source[place.begin : place.end]))
        text = place.segment.text
        signs = {sign for sign, count in written.items() if sign not in "\\|&" and text.count(sign) == count}
        if not signs:
            return str
        wanted = re.compile(f"(?<!\\\\)[{re.escape(''.join(sorted(signs)))}]")
        return lambda piece: wanted.sub(r"\\\g<0>", piece)

    def _reads(self, out: str, place: _Written, text: Translated) -> bool:
        """Whether what is written is read again as what was meant."""
        blocks = self.parser.parse("x\n\n" + re.sub(r"\n[ \t>]+", "\n", out), self.env)
        if [token.type for token in blocks] != ["paragraph_open", "inline", "paragraph_close"] * 2:
            return False
        content = blocks[4].content
        ends = [match.start() for match in re.finditer("\n", content)]
        lines = [Line(b, e) for b, e in zip([0, *(e + 1 for e in ends)], [*ends, len(content)], strict=True)]
        try:
            again = reading(blocks[4], self.env, content, lines).segment()
        except Lost:
            return False
        words = [_NUMBERED.sub("", each).split() for each in (again.text, text.text)]
        marks = {number for number, raw in enumerate(place.raws) if any(raw)} - around_nothing(place, text)
        return words[0] == words[1] and len(again.marks) == len(marks)
