"""Markdown, its dialects and MDX: paragraphs, headings, items and cells are segments, with their places in the source.

source ─ parser → blocks with their lines → each token of a paragraph found again in its lines, in order → segments

`markdown-it-py` does not say where its inline tokens stand. How each was written follows from its kind, and where links
end is noted while they are read.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, takewhile
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from docnmt.apps.documents import html as web
from docnmt.apps.documents.html import FIXED, UNSEEN, VOID, is_picture, tokens
from docnmt.apps.documents.markdown_parser import ALERT, CODE_LINE, ENDS, FRONT_MATTER, FRONT_TEXT, PROSE, TITLE, parser
from docnmt.apps.documents.segments import DEEPEST, Inline, Sections, TooLong, Translated, expect, is_reference, matched
from docnmt.apps.documents.text import Raw, SegmentPlace, Spliced, around_nothing, render, replaced

_BREAK = re.compile(r"[ \t]*(\\?)\n[ \t]*")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)")
_ATTRIBUTES = re.compile(r"\{:?[ \t]*(?:[#.][\w:-]|[\w:-]+=(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s{}]))[^{}\n]*\}")
_DEFINES = re.compile(r"[ \t]*:[ \t]")
#: What says that an element is not to be translated.
_NO = re.compile(r"\stranslate\s*=\s*[\"']?no\b")
#: Tokens that are read at once, and those that attributes may stand behind.
_AT_ONCE = frozenset({"image", "math_inline", "math_inline_double", "footnote_ref"})
_ATTRIBUTED = frozenset({"image", "code_inline", "link_close", "strong_close", "em_close"})
#: What may stand in what refers to a note, and how many tokens.
_REFERRING = frozenset({"text", "text_special", "link_open", "link_close", "a", "sup"})
_REFERENCE = 12
#: What says of a mark that it shows nothing.
HIDDEN = " hidden "
#: What readers see of those that a model does not see.
_SEEN = {"image": "picture", "math_inline": "value", "math_inline_double": "value"}

_Env = MutableMapping[str, Any]  # markdown-it's own type: rules keep there what they like


class _Lost(Exception):
    """The tokens of a paragraph are not what stands in it."""


class Line(NamedTuple):
    """Where a line of a paragraph stands in the file, without what is around it."""

    begin: int
    end: int


class _Reader:
    """Reads the text and marks (`inline`) of a paragraph whose `lines` stand in `source`; raises `_Lost` if not."""

    def __init__(self, token: Token, env: _Env, source: str, lines: Sequence[Line]) -> None:
        self.inline: Inline[Raw] = Inline(lambda text: (text, ""))
        self.content = token.content
        self.ends: dict[tuple[str, int], int] = env.get(ENDS, {})
        self.source, self.lines, self.line = source, lines, 0
        self.defines = any(_DEFINES.match(source, line.begin, line.end) for line in lines)
        self.children = [child for child in token.children or [] if child.type != "text" or child.content]
        self.tags, self.ended = _partners(self.children)
        self.closing = set(self.tags.values())
        self.raws = self._raws()
        self.begins = [*accumulate(map(len, self.raws), initial=0)]
        number = 0
        while number < len(self.children):
            number = self._child(number)

    def _raws(self) -> list[str]:
        raws, links, index = [], [], 0
        for number, child in enumerate(self.children):
            content = self.content
            if child.type == "text":
                begin = content.find(child.content, index)
                if begin < 0:
                    raise _Lost(f"'{child.content}' is not there")
                raw = content[index : begin + len(child.content)]
            elif child.type in ("softbreak", "hardbreak"):
                match = _BREAK.match(content, index)
                raw = match[0] if match else ""
            elif child.type == "code_inline":
                match = _CODE.match(content, index)
                raw = match[0] if match else ""
            elif child.type in _AT_ONCE:
                raw = content[index : self.ends.get((content, index), index)]
            elif child.type == "link_open":
                links.append(self.ends.get((content, index), index))
                raw = "<" if child.markup == "autolink" else "["
            elif child.type == "link_close":
                end = links.pop()
                raw = ">" if child.markup == "autolink" else content[index:end]
            else:
                raw = child.content if child.type == "html_inline" else child.markup
            if child.type in _ATTRIBUTED:
                raw += self._attributes(number, index + len(raw))
            raws.append(raw)
            index += len(raw)
        if index != len(self.content):
            raise _Lost(f"{len(self.content)} characters, of which {index} were found again")
        return raws

    def _attributes(self, number: int, index: int) -> str:
        """Attributes in braces right behind a token, which belong to it and are then no text."""
        match = _ATTRIBUTES.match(self.content, index)
        if match is None:
            return ""
        taken = list(takewhile(lambda child: child.type == "text", self.children[number + 1 :]))
        if not "".join(child.content for child in taken).startswith(match[0]):
            return ""
        left = len(match[0])
        for child in taken:
            length = min(left, len(child.content))
            child.content, left = child.content[length:], left - length
        return match[0]

    def _child(self, number: int) -> int:
        """Adds a token; returns the next one."""
        child, raw = self.children[number], self._written(number)
        after = number + 1
        if child.type in ("text", "text_special"):
            self.inline.text(child.content)
        elif child.type == "hardbreak" or (child.type == "softbreak" and self._apart()):
            line, following = self.lines[self.line : self.line + 2]  # between are marks of quotations and lists
            self.inline.hard((self.source[line.end - ("\\" in self.raws[number]) : following.begin], ""))
        elif child.type == "softbreak":
            self.inline.text("\n")
        elif child.type == "code_inline":
            self.inline.fixed((raw, ""), child.content)
        elif child.type == "link_open" and child.markup == "autolink":
            after = self.ended[number] + 1
            shown = "".join(self.raws[number + 1 : after - 1])
            self.inline.fixed((f"<{shown}>", ""), shown)
        elif child.type in ("note_open", "note_close"):  # a text in the text
            begin, end = self.begins[number], self.begins[after]
            while begin and self.content[begin - 1].isspace():
                begin -= 1
            while end < len(self.content) and self.content[end].isspace():
                end += 1
            self.inline.hard((self.content[begin:end].replace("\n", " "), ""))
        elif (last := self._reference(number)) is not None:
            after = last + 1
            self.inline.fixed(("".join(self.raws[number:after]).replace("\n", " "), ""))
        elif child.nesting > 0:
            if self.inline.depth >= DEEPEST:
                raise _Lost("formats inside of each other without end")
            end = self.ended[number]
            behind = self.raws[end].replace("\n", " ")
            if child.type == "link_open" and behind in ("]", "][]"):  # it is known by its text, which stays its name
                behind = f"][{''.join(self.raws[number + 1 : end])}]".replace("\n", " ")
            self.inline.open((raw, behind))
        elif child.nesting < 0 or number in self.closing:
            self.inline.close()
        elif number in self.tags and ((name := _name(child)) in FIXED or _NO.search(child.content)):
            after = self.tags[number] + 1
            inside = (inner for inner in self.children[number:after] if inner.type != "html_inline")
            shown = "".join(" " if inner.type == "softbreak" else inner.content for inner in inside)
            raw = "".join(self.raws[number:after]).replace("\n", " ")
            self.inline.fixed((raw, ""), "" if name in UNSEEN else shown, UNSEEN.get(name, ""))
        elif self.tags.get(number) == after:  # there is nothing in it
            after += 1
            self.inline.fixed((raw + self.raws[after - 1].replace("\n", " "), ""), seen=_seen(child))
        elif number in self.tags:
            self.inline.open((raw, self.raws[self.tags[number]]))
        elif child.type == "html_inline" and _name(child) == "br":
            self.inline.hard((raw, ""))
        else:
            self.inline.fixed((raw, ""), seen=_SEEN.get(child.type) or _seen(child))
        self.line += sum(inner.count("\n") for inner in self.raws[number:after])
        return after

    def _written(self, number: int) -> str:
        """How a token is written; a tag of several lines keeps them."""
        first, *others = self.raws[number].split("\n")
        if self.children[number].type != "html_inline" or len(self.lines) <= self.line + len(others):
            return " ".join([first, *others])
        for line, (before, behind) in zip(others, pairwise(self.lines[self.line :]), strict=False):
            first = first.rstrip() + self.source[before.end : behind.begin] + line.lstrip()
        return first

    def _reference(self, number: int) -> int | None:
        """The token that ends what begins here, if that is a link or a superscript that refers to a note."""
        child = self.children[number]
        link = child.type == "link_open" or (number in self.tags and _name(child) == "a")
        if not link and not (number in self.tags and _name(child) == "sup"):
            return None
        end = self.ended[number] if child.type == "link_open" else self.tags[number]
        inside = self.children[number + 1 : min(end, number + _REFERENCE)]
        text = "".join(inner.content for inner in inside if inner.type in ("text", "text_special"))
        kinds = {_name(inner) if inner.type == "html_inline" else inner.type for inner in inside}
        if not kinds <= _REFERRING or number + _REFERENCE < end:
            return None
        return end if is_reference(self.inline.touched, text, link=link or bool(kinds & {"a", "link_open"})) else None

    def _apart(self) -> bool:
        """Whether this line or the next one is code, or the lines are terms and definitions to other readers."""
        lines = (self.source[line.begin : line.end] for line in self.lines[self.line : self.line + 2])
        return self.defines or any(CODE_LINE.fullmatch(line.strip()) for line in lines)


def _partners(children: Sequence[Token]) -> tuple[dict[int, int], dict[int, int]]:
    """Tags of HTML and their ends, by number, where both stand in the same format, and formats and their ends."""
    steps: list[tuple[int, Hashable]] = []
    ended, around = dict[int, int](), [-1]
    for number, child in enumerate(children):
        if child.nesting > 0:
            around.append(number)
        elif child.nesting < 0:
            ended[around.pop()] = number
        tag = _TAG.match(child.content) if child.type == "html_inline" else None
        if tag is None or tag[2].lower() in VOID or child.content.endswith("/>"):
            steps.append((0, ""))
        else:
            steps.append((-1 if tag[1] else 1, (around[-1], tag[2].lower())))
    return matched(steps), ended


def _seen(child: Token) -> str:
    """What readers see of an element without text: something if it has a class, as icons have, or is a component."""
    match = _TAG.match(child.content)
    if child.type != "html_inline" or match is None or match[1] or HIDDEN in child.content:
        return ""
    is_component = match[2][0].isupper() and child.content.endswith("/>")
    return "picture" if is_component or is_picture(match[2].lower()) or "class" in child.content.lower() else ""


def _name(child: Token) -> str:
    match = _TAG.match(child.content)
    return match[2].lower() if match else ""


_END = re.compile(r"\r\n?|\n")
#: What surely begins a paragraph, where none of the other stands around it.
_PARAGRAPH, _MAY_BE_CODE = re.compile(r"\n[ \t]*\n[A-Za-z]"), re.compile(r"`{3}|~{3}|[<$:|]{2}|<|\\[\[b]")
_RISKY = re.compile(r"([\\`*_\[\]<>&~$^])")
_RISKY_START = re.compile(r"^(\s*\d*)([#+\-.):=>|])")
_CLOSING = re.compile(r"(?<![^ \t])#+[ \t]*\Z")  # at the end of a heading it is no text
_HEADING_ATTRIBUTES = re.compile(r"(?<![ \t])[ \t]+\{:?[ \t]*[#.][^{}\n]*\}[ \t]*\Z")  # nor are {#name .class} there
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


def _around_letters(place: _Written, text: Translated) -> Translated:
    """The same with emphasis from its first letter to its last: behind `**注意：` no `**` ends it before a letter."""
    steps = [0] * (len(text.text) + 1)
    for raw, (begin, end) in zip(place.raws, text.spans, strict=True):
        if begin < end and raw[0].strip("*_~"):  # emphasis does not end inside of a link
            steps[begin], steps[end] = steps[begin] + 1, steps[end] - 1
    letters = [at for at, depth in enumerate(accumulate(steps[:-1])) if depth or text.text[at].isalnum()]
    spans = []
    for raw, (begin, end) in zip(place.raws, text.spans, strict=True):
        first, behind = bisect_left(letters, begin), bisect_left(letters, end)
        if raw[0] and not raw[0].strip("*_~") and first < behind:
            begin, end = letters[first], letters[behind - 1] + 1
        spans.append((begin, end))
    return Translated(text.text, tuple(spans))


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


class Markdown(Spliced):
    """A text in Markdown, with HTML between and front matter, which is left alone.

    Translated: paragraphs, headings, items, cells, definitions, notes, fields (`:name: text`); alerts (`> [!NOTE]`),
    meanings of abbreviations (`*[HTML]: …`), containers (`:::`), blocks of Python-Markdown (`!!!` `???` `=== "Tab"`)
    and their titles; line blocks; text of HTML blocks
    Stays: front matter (YAML, TOML, JSON; named if it has a title or a description), code, formulas, shortcodes,
    attributes (also `{#name .class}` behind a heading), link targets, reference definitions, alternative texts; tables
    drawn with `+--+`
    """

    def read_places(self) -> Iterator[SegmentPlace]:
        begin = FRONT_MATTER.match(self.source).end()  # type: ignore[union-attr]  # it matches nothing, too
        self.parser, sections = self._parser(), Sections()
        if FRONT_TEXT.search(self.source, 0, begin):
            self.left.append("the front matter, with its title or description")
        self.env: _Env = {}
        if not _MAY_BE_CODE.search(self.source):
            expect(texts=len(_PARAGRAPH.findall(self.source, begin)))
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
                    yield from self._title(starts[token.map[0]], sections)
            elif token.map and (token.type == "grid_table" or (token.type == "fence" and PROSE.match(token.info))):
                self.left.append(self.line(starts[token.map[0]]))
            elif token.type == "html_block" and token.map:
                yield from self._html(token, starts[token.map[0]], starts[token.map[1]], sections)
            for part in self._parts(token, inside[-2:]) if token.type == "inline" else ():
                assert part.map is not None
                lines = self._lines(part, starts, cells if inside[-1] in _CELLS else None)
                yield from self._segment(part, lines, starts[part.map[0]], sections, inside[-1])
                cells = lines[-1].end if lines else cells

    def _parser(self) -> MarkdownIt:
        return parser()

    def _parts(self, token: Token, inside: Sequence[str]) -> list[Token]:
        """A paragraph; of an alert, its title and its text; of a task, what stands behind its box."""
        if not token.map or not token.content.strip():
            return []
        box = _BOX.match(token.content) if inside == ["list_item", "paragraph"] else None
        match = ALERT.match(token.content) or box
        attributes = _HEADING_ATTRIBUTES.search(token.content) if inside[-1:] == ["heading"] else None
        if attributes:
            (part,) = self.parser.parseInline(token.content[: attributes.start()], self.env)
            part.map, part.meta = token.map, {"behind": attributes[0].rstrip()}
            return [part]
        if match is None:
            return [token]
        parts = []
        for number, content in enumerate(token.content[match.end() :].split("\n", 0 if match is box else 1)):
            if content.strip():
                (part,) = self.parser.parseInline(content, self.env)
                part.map = [token.map[0] + number, token.map[1]]
                parts.append(part)
        return parts

    def _lines(self, token: Token, starts: Sequence[int], cell: int | None) -> list[Line]:
        """Where the lines of a paragraph stand in the file; none if they do not, as with tabs inside of a quotation."""
        assert token.map is not None
        lines = []
        contents = token.content.split("\n")
        for number, content in enumerate(contents):
            begin, end = starts[token.map[0] + number], starts[token.map[0] + number + 1]
            text = content.strip()
            behind = token.meta.get("behind", "") if number == len(contents) - 1 else ""
            if cell is not None:
                text = text.replace("|", "\\|")
                at = self.source.find(text, cell, end)
            else:
                at = self.source.rfind(text + behind, begin, end)
            if at < 0:
                return []
            lines.append(Line(at, at + len(text)))
        return lines

    def _segment(
        self, token: Token, lines: Sequence[Line], index: int, sections: Sections, block: str
    ) -> Iterator[SegmentPlace]:
        """A paragraph; if its tokens cannot be told, its line is named."""
        try:
            if not lines:
                raise _Lost("its lines are not in the file")
            inline = _Reader(token, self.env, self.source, lines).inline
            begin, end = lines[0].begin, lines[-1].end
            yield _Written(inline.segment(units=sections.units), begin, end, inline.payloads, block)
        except _Lost:
            self.left.append(self.line(index))
        if lines:
            sections.paragraph()

    def _title(self, begin: int, sections: Sections) -> Iterator[SegmentPlace]:
        line = self.source.find("\n", begin)
        match = TITLE.search(self.source, begin, len(self.source) if line < 0 else line)
        if match is None or match.lastindex is None:
            return
        begin, end = match.span(match.lastindex)
        (token,) = self.parser.parseInline(self.source[begin:end], self.env)
        yield from self._segment(token, [Line(begin, end)], begin, sections, "title" if match.lastindex == 1 else "")

    def _html(self, token: Token, begin: int, end: int, sections: Sections) -> Iterator[SegmentPlace]:
        lines = [line.strip() for line in token.content.strip().split("\n")]
        begin = self.source.index(lines[0], begin, end)  # behind the mark of a list or quotation
        part = self.source[begin:end]
        if [line.strip() for line in _END.split(part.strip())] == lines:
            for place in web.segments(part, web.joined(tokens(part)), sections):
                yield replace(place, begin=begin + place.begin, end=begin + place.end)
        elif any(web.segments(token.content, web.joined(tokens(token.content)), Sections())):  # marks between the lines
            self.left.append(self.line(begin))

    def rendered(self, place: SegmentPlace, text: Translated) -> str:
        if not isinstance(place, _Written):
            return render(place, text, web.escape)
        out = self._markup(place, text, self._always_escaped(place))
        if place.block == "title":  # between quotation marks
            out = out.replace('"', "'")
        if place.block == "heading":
            out = _CLOSING.sub(r"\\\g<0>", out)
        return out.replace("|", "\\|") if place.block in _CELLS else out

    def _markup(self, place: _Written, text: Translated, always: Callable[[str], str]) -> str:
        """A translation with as few signs escaped, and as many formats, as are read again as what was meant."""
        if not text.text[:1].isspace():
            text = _behind_a_word(place, text)
        bare = replace(place, raws=[("", "") if raw[1].startswith(raw[0]) else raw for raw in place.raws])
        out = ""
        stars = [(a.replace("_", "*"), b.replace("_", "*")) if not a.strip("_") else (a, b) for a, b in place.raws]
        ways = [(place, text)]  # signs of emphasis may be read as text, and `_` is none inside a word
        if bare.raws != place.raws:
            ways += [(replace(place, raws=stars), _around_letters(place, text)), (bare, text)]
        for written, whole in ways:
            for escape in (always, lambda piece: always(_escaped(piece))):
                out = render(written, whole, escape)
                if self._reads(out, written, whole):
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
        try:
            blocks = self.parser.parse("x\n\n" + re.sub(r"\n[ \t>]+", "\n", out), self.env)
        except TooLong:
            return False
        if [token.type for token in blocks] != ["paragraph_open", "inline", "paragraph_close"] * 2:
            return False
        content = blocks[4].content
        ends = [match.start() for match in re.finditer("\n", content)]
        lines = [Line(b, e) for b, e in zip([0, *(e + 1 for e in ends)], [*ends, len(content)], strict=True)]
        try:
            again = _Reader(blocks[4], self.env, content, lines).inline.segment()
        except _Lost:
            return False
        words = [_NUMBERED.sub("", side).split() for side in (again.text, text.text)]
        marks = {number for number, raw in enumerate(place.raws) if any(raw)} - around_nothing(place, text)
        return words[0] == words[1] and len(again.marks) == len(marks)


# MDX: while the file is read as Markdown, marks of HTML stand in the places of what only MDX knows.

_FENCE = r"(?:\A|(?<=\n))[ \t>]*(?P<fence>`{3,}|~{3,})[\s\S]*?(?:\n[ \t>]*(?P=fence)[`~]*[ \t]*(?=\r?\n|\Z)|\Z)"
_SPAN = r"(?<!`)(?P<ticks>`+)(?!`)(?:(?!\n[ \t]*\r?\n)[\s\S])*?(?<!`)(?P=ticks)(?!`)"
_BLOCK = r"(?:\A\ufeff?|(?<=\n\n)|(?<=\n\r\n)|(?<=\n---\n)|(?<=\n---\r\n))"
_MODULE = rf"{_BLOCK}(?P<module>(?:import|export)\b(?=[\s{{*'\"])(?:[^\r\n]|\r?\n(?![ \t]*\r?\n))*)"
_MDX_TAG = r"</?(?:(?P<name>[A-Za-z][\w.:-]*)(?=[\s/>{])|(?=>))"
#: Text in the first column whose first word would be one of JavaScript.
_WOULD_BE_CODE = re.compile(r"\A[ie](?=(?:mport|xport)[\s{*'\"])")
_TOKEN = re.compile(rf"{_FENCE}|{_SPAN}|{_MODULE}|(?P<tag>{_MDX_TAG})|(?P<brace>(?<!\\)\{{)")
#: A placeholder is text, and kept as one.
_PLACEHOLDER = re.compile(r"\{[\w.]+\}")
#: A tag that HTML does not have as it is: `<>`, `<Tabs.Item>`, or with an expression.
_COMMENT = re.compile(r"\{(?:\s*/\*(?:[^*]|\*(?!/))*\*/)+\s*\}")
_STRANGE = re.compile(r"\A</?>|\A</?\w*[.:]|\{")
#: What does not end is looked for so often, each time to the end of the file, through so many signs in all.
_TRIES, _SIGNS = 20, 500_000
_STOP = re.compile(r"[{}'\"`>]|/\*|//")
_ENDS = {
    "'": re.compile(r"(?:[^'\\\n]|\\.)*'"),
    '"': re.compile(r'(?:[^"\\]|\\.)*"'),
    "`": re.compile(r"(?:[^`\\]|\\[\s\S])*`"),
    "/*": re.compile(r"(?:[^*]|\*(?!/))*\*/"),
    "//": re.compile(r"[^\n]*"),
}


_ENDS_TEXT: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote"]}
#: Lines of nothing but tags of components and marks of what was hidden, or a tag in several lines.
_COMPONENTS = re.compile(
    r"(?:</?(?!(?:pre|script|style|textarea)\b)[A-Za-z][\w.:-]*"
    r"(?:\s(?:\"[^\"]*\"|'[^']*'|[^<>\"'])*|/)?>[ \t]*)+(?=\n|\Z)"
)
#: A tag of HTML by itself whose element does not go on with text of Markdown: the whole element is HTML.
_HTML = re.compile(r"<(?!mdx\d*-)[a-z][^\n]*\n[ \t]*(?=[<\n]|\Z)|<(?!mdx\d*-)[a-z][^\n]*\Z")
#: … but a fence in it is Markdown.
_FENCED = re.compile(r"(?:[ \t]*[^\s`~][^\n]*\n)+?[ \t]*(?:`{3}|~{3})")


def _components(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Tags of components by themselves; what stands between them is Markdown, with or without an empty line."""
    begin = state.bMarks[first] + state.tShift[first]
    match = _COMPONENTS.match(state.src, begin) if state.src.startswith("<", begin) else None
    lines = match[0].count("\n") if match else 0
    html = not lines and _HTML.match(state.src, begin) and not _FENCED.match(state.src, begin)
    if match is None or first + lines >= last or html:
        return False
    if not silent:
        token = state.push("html_block", "", 0)
        token.map, token.content = [first, first + lines + 1], state.getLines(first, first + lines + 1, 0, True)
        state.line = first + lines + 1
    return True


class Mdx(Markdown):
    """A text in MDX.

    Translated: as in `.md`
    Stays: as in `.md`; imports, exports, expressions, components and their attributes
    """

    def _parser(self) -> MarkdownIt:
        parser = super()._parser().disable("code")  # indented lines are none
        parser.block.ruler.before("html_block", "components", _components, _ENDS_TEXT)
        return parser

    def _decoded(self) -> str:
        source = super()._decoded()
        self._key = next(key for n in range(len(source) + 1) if (key := f"mdx{n or ''}-") not in source)
        self._hidden: list[str] = []
        return replaced(source, self._strange(source))

    def _always_escaped(self, place: SegmentPlace) -> Callable[[str], str]:
        always = super()._always_escaped(place)
        return lambda piece: re.sub(r"(?<!\\)<", "&lt;", always(piece))  # it begins a component, or is a mistake

    def rendered(self, place: SegmentPlace, text: Translated) -> str:
        out = super().rendered(place, text)
        if place.begin == 0 or self.source[place.begin - 1] == "\n":
            out = _WOULD_BE_CODE.sub(lambda word: f"&#{ord(word[0])};", out)
        return out

    def _encoded(self, text: str) -> bytes:
        return super()._encoded(self._shown(text))

    def line(self, index: int) -> int:
        return self._shown(self.source[:index]).count("\n") + 1

    def _strange(self, source: str) -> Iterator[tuple[int, int, str]]:
        """What Markdown does not know: where it stands, and the mark that stands there instead."""
        index, tries, signs = 0, _TRIES, _SIGNS
        while match := _TOKEN.search(source, index):
            begin, index = match.start(), match.end()
            if match["module"]:
                begin = match.start("module")
                yield begin, index, f"<!--{self._hide(source[begin:index])}-->"
            elif match["tag"] or match["brace"]:
                sought = tries > 0 and signs > 0
                end, looked = _end(source, index, ">" if match["tag"] else "}") if sought else (0, 0)
                raw = source[begin:end]
                if match["tag"] and _STRANGE.search(raw):
                    yield begin, end, self._tag(raw, match["name"])
                elif match["brace"] and end and not _PLACEHOLDER.fullmatch(raw):
                    yield begin, end, self._mark(raw, shows=not _COMMENT.fullmatch(raw))
                tries, signs, index = (tries, signs, end) if end else (tries - 1, signs - looked, index)

    def _tag(self, raw: str, name: str | None) -> str:
        """The mark of a tag: an element of the same name if HTML may have it, so that its end is found."""
        if raw.startswith("</") or name is None or "." in name or ":" in name:
            return self._mark(raw, shows=raw.endswith("/>"))
        alone = raw.endswith("/>")
        return f"<{name} {self._hide(raw[1 + len(name) : -1 - alone])}{'/' * alone}>"

    def _mark(self, raw: str, *, shows: bool) -> str:
        return f"<{self._hide(raw)} />" if shows else f"<{self._hide(raw)}{HIDDEN}/>"

    def _hide(self, text: str) -> str:
        self._hidden.append(text)
        return f"{self._key}{len(self._hidden) - 1}"

    def _shown(self, text: str) -> str:
        marks = re.compile(rf"<!--{self._key}(\d+)-->|<{self._key}(\d+)(?: hidden)? />| {self._key}(\d+)")
        return marks.sub(lambda match: self._hidden[int(match[1] or match[2] or match[3])], text)


def _end(source: str, index: int, closing: str) -> tuple[int, int]:
    """Behind the sign that closes what was opened before `index`, or 0; and how many signs were looked at."""
    depth, looked, ends = 0, 0, True  # whether comments end
    while match := _STOP.search(source, index):
        sign, index, looked = match[0], match.end(), looked + 1
        if sign in _ENDS and (sign not in ("'", "`", "/*", "//") or closing == "}" or depth):
            inside = _ENDS[sign].match(source, index) if ends or sign != "/*" else None
            ends &= inside is not None or sign != "/*"
            index = inside.end() if inside else index
        elif depth == 0 and sign == closing:
            return index, looked
        elif sign in "{}":
            depth += 1 if sign == "{" else -1
            if depth < 0:
                return 0, looked
    return 0, looked
