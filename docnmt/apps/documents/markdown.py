"""Markdown and its dialects: blocks and inline marks by markdown-it-py, with their places in the source."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.helpers import parseLinkLabel
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore, inline
from markdown_it.rules_inline import StateInline, image, link
from markdown_it.token import Token
from mdit_py_plugins.container import container_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath.index import math_block_dollar, math_inline_dollar
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.footnote.index import footnote_ref

from docnmt.apps.documents import html as web
from docnmt.apps.documents.html import FIXED, UNSEEN, VOID, is_picture, tokens
from docnmt.apps.documents.segments import (
    DEEPEST,
    MOST_MARKS,
    Inline,
    Sections,
    TooLong,
    Translated,
    expect,
    is_reference,
    matched,
)
from docnmt.apps.documents.text import Raw, SegmentPlace, Spliced, around_nothing, render

# The parser of Markdown: CommonMark, and what site generators and pandoc add to it.

#: Where the environment of the parser keeps the ends of what was read in a line.
ENDS = "docnmt_ends"
#: Front matter in YAML, TOML or JSON.
FRONT_MATTER = re.compile(
    r"\ufeff?(?:---[ \t]*\r?\n(?![ \t]*\r?\n).*?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)"
    r"|\s*\+\+\+[ \t]*\r?\n.*?(?<=\n)\+\+\+[ \t]*(?:\r?\n|\Z)|\{\s*\".*?\n\}[ \t]*(?:\r?\n|\Z))?",
    re.DOTALL,
)
#: … which has text for readers.
FRONT_TEXT = re.compile(
    r"(?mi)^[^\S\n]*\"?(?:title|linkTitle|subtitle|description|summary|excerpt)\"?\s*[:=]\s*[\"']?\w"
)
_KINDS = (
    "note|info|tip|hint|important|warning|caution|danger|error|attention|details|success|question|failure|bug|example|"
    "quote|abstract|summary|seealso|todo|admonition"
)
#: The title of a block, in its first line.
TITLE = re.compile(
    r'(?:[!?]{3}\+?|={3}[!+]?)(?:(?![!?=]{3})[^"\n])*"([^"\n]+)"'
    r"|(?<!:):{3,}[ \t]*[\w-]+[ \t]*\[((?:(?!:::)[^\]\n])+)\]"
    rf"|(?<!:):{{3,}}[ \t]*\{{?(?:{_KINDS})\}}?[ \t]+(?![ \t])([^{{\n]*[^{{\s])"
    r"|(?<!/)/{3,}[ \t]*[\w-]+[ \t]*\|[ \t]*(?![ \t])([^\n]*\S)",
)
#: What GitHub and Obsidian begin an alert with.
ALERT = re.compile(r"\[![\w-]+\][+-]?[ \t]*")
#: A line in a paragraph that is code.
CODE_LINE = re.compile(
    r"\{\{.*\}\}|\{%.*%\}|<%.*%>|\{:.*\}|\{[#.][^{}]*\}|-+8<-.*|<<<[ \t].*|\$\$.*\$\$|\[\[?\w+\]?\]|:{3,}"
)
_SHORTCODE = re.compile(r"\{\{[<%]\s*((?:code|highlight|mermaid|math|katex|chart|json|gist)[\w-]*)(?![\w-]).*[>%]\}\}")
#: What begins a fence whose body is prose, in MyST; it is not read.
PROSE = re.compile(rf"\{{(?:{_KINDS})\}}")
_INDENTED = re.compile(r'(?:!!!|\?\?\?\+?)[ \t]*[\w-].*|={3}[!+]?[ \t]+"[^"]*"[ \t]*')
#: What begins a definition, and comments before its text.
_BLOCK_DEFINES = re.compile(r":[ \t]+(?:<!--.*?-->[ \t]*)*(?=\S)")
_OPTION = re.compile(r":[\w-]+:(?:[ \t].*)?")
_DIRECTIVE = re.compile(r":{3,}\{.*")
_GRID = re.compile(r"\+(?:[-=:]+\+)+[ \t]*")
_ABBREVIATION = re.compile(r"\*\[[^\[\]\n]+\]:[ \t]*(?=\S)")
_LINE_BLOCK = re.compile(r"\|(?:[ \t].*)?")
_TEX = re.compile(r"\\\[|\\begin\{([A-Za-z]+\*?)\}")
_FORMULA = re.compile(r"\\\((.{1,1000}?)\\\)", re.DOTALL)
_NUMBER, _NEAR = re.compile(r"\^(\d{1,3}|\*)\^"), 40
_NOTE = re.compile(r"\[\^[^\s\]]{1,200}\]")
#: What inline markup begins with.
_SIGNS = re.compile(r"[\\`*_~\[\]!<>&$^{}]")
#: Lines of a formula, at most.
_LINES = 500
#: Links and notes inside of each other, as in CommonMark's preset.
_DEEPEST = 20
#: Where a paragraph has its last `]`, in the parser's notes.
_LAST = "docnmt_last_bracket"
_Rule = Callable[[StateInline, bool], bool]
_ALWAYS: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}


def parser() -> MarkdownIt:
    """CommonMark with tables, struck-out text and blocks of many kinds, whose tokens keep how they were written."""
    made = MarkdownIt("commonmark", {"maxNesting": 100}).enable(["table", "strikethrough"])
    made.disable(["text_join", "fragments_join"])
    made.use(footnote_plugin, inline=False, move_to_end=False).use(deflist_plugin)
    for name, marker in (("colons", ":"), ("slashes", "/")):
        made.use(container_plugin, name, marker=marker, validate=_has_name)
    made.block.ruler.before("fence", "math_block", math_block_dollar())
    rules = {"shortcode": _shortcode, "indented": _indented, "option": _option, "grid": _grid, "tex": _tex}
    rules["abbreviation"] = _abbreviation
    for name, rule in rules.items():
        made.block.ruler.before("fence", name, rule, _ALWAYS)
    made.block.ruler.before("deflist", "definition", _definition)
    made.block.ruler.after("table", "line_block", _line_block)
    made.core.ruler.before("inline", "count", _count)
    made.core.ruler.at("inline", _inline)
    made.inline.ruler.before("link", "note", _ending(_note))
    made.inline.ruler.at("link", _ending(_noting(link)))
    made.inline.ruler.at("image", _ending(_noting(image)))
    made.inline.ruler.at("footnote_ref", _noting(_reference))
    dollars = math_inline_dollar(allow_space=False, allow_digits=False, allow_double=True)
    made.inline.ruler.before("escape", "note_number", _noting(_note_number))
    for name, formula in (("math_inline", dollars), ("math_brackets", _formula)):
        made.inline.ruler.before("escape", name, _noting(formula))
    return made


def _has_name(params: str, markup: str) -> bool:
    return bool(params.strip())


def _count(state: StateCore) -> None:
    """Counts paragraphs, and signs in them, before they are read; what begins with a tag may have no text."""
    contents = [token.content.lstrip() for token in state.tokens if token.type == "inline"]
    expect(texts=sum(content[:1] not in ("", "<") for content in contents))
    signs = [len(_SIGNS.findall(content)) for content in contents]
    expect(words=sum(signs) // 4)  # more are no text
    if max(signs, default=0) >= 2 * MOST_MARKS:
        raise TooLong(f"{MOST_MARKS:,} marks")


def _inline(state: StateCore) -> None:
    """All paragraphs. What is inside of each other is bounded closer than blocks are: each `[` looks through it."""
    options = state.md.options
    blocks, options["maxNesting"] = options["maxNesting"], _DEEPEST
    try:
        inline(state)
    finally:
        options["maxNesting"] = blocks


def _ending(rule: _Rule) -> _Rule:
    """A rule of something that ends with `]`; where none follows, it need not look for one at every `[`."""

    def ending(state: StateInline, silent: bool) -> bool:
        lasts = state.env.setdefault(_LAST, {})
        if state.src not in lasts:
            lasts[state.src] = state.src.rfind("]")
        return state.pos < lasts[state.src] and rule(state, silent)

    return ending


def _noting(rule: _Rule) -> _Rule:
    """A rule that also notes where what it has read ends."""

    def noting(state: StateInline, silent: bool) -> bool:
        begin = state.pos
        found = rule(state, silent)
        if found:
            state.env.setdefault(ENDS, {})[state.src, begin] = state.pos
        return found

    return noting


def _formula(state: StateInline, silent: bool) -> bool:
    r"""A formula between \( and \)."""
    match = _FORMULA.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        state.push("math_inline", "math", 0).content = match[1]
    state.pos = match.end()
    return True


def _reference(state: StateInline, silent: bool) -> bool:
    """What refers to a note; the plug-in would look for its end everywhere behind."""
    return _NOTE.match(state.src, state.pos) is not None and footnote_ref(state, silent, always_match=True)


def _note_number(state: StateInline, silent: bool) -> bool:
    """A number between two ^ that refers to a note, and is no power."""
    match = _NUMBER.match(state.src, state.pos)
    touched = re.split(r"\s", state.src[max(state.pos - _NEAR, 0) : state.pos])[-1]
    if match is None or not is_reference(touched, match[1], link=False):
        return False
    if not silent:
        state.push("footnote_ref", "", 0)
    state.pos = match.end()
    return True


def _note(state: StateInline, silent: bool) -> bool:
    """A note in the line itself: ^[text]."""
    begin = state.pos
    end = parseLinkLabel(state, begin + 1) if state.src.startswith("^[", begin) else -1
    if end < 0:
        return False
    if not silent:
        last = state.posMax
        state.push("note_open", "span", 1).markup = "^["
        state.pos, state.posMax = begin + 2, end
        state.md.inline.tokenize(state)
        state.push("note_close", "span", -1).markup = "]"
        state.posMax = last
    state.pos = end + 1
    return True


def _line(state: StateBlock, line: int) -> str:
    """A line without its indentation; nothing where an indented block of code may stand."""
    if state.is_code_block(line):
        return ""
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _indented(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """A block of Python-Markdown whose body is indented by four: `!!! note`, `??? note`, `=== "Tab"`."""
    if _INDENTED.fullmatch(_line(state, first)) is None:
        return False
    if silent:
        return True
    _body(state, "indented", (first, first + 1, last), state.sCount[first] + 4)
    return True


def _definition(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """What defines a term that is no text, such as a comment that becomes one: `:   text`, whose body is indented."""
    match = _BLOCK_DEFINES.match(_line(state, first))
    if match is None:
        return False
    if silent:
        return True
    before = state.bMarks[first], state.tShift[first], state.sCount[first]
    indent = before[2] + 4
    state.bMarks[first], state.tShift[first], state.sCount[first] = sum(before[:2]) + match.end(), 0, indent
    _body(state, "definition", (first, first, last), indent)
    state.bMarks[first], state.tShift[first], state.sCount[first] = before
    return True


def _body(state: StateBlock, name: str, lines: tuple[int, int, int], indent: int) -> None:
    """A block: its first line, the first of its body, and a line behind it; the lines of its body are indented."""
    first, begin, last = lines
    line = first + 1
    while line < last and (state.isEmpty(line) or state.sCount[line] >= indent):
        line += 1
    token = state.push(f"{name}_open", "div", 1)
    token.map, token.block = [first, line], True
    before = state.parentType, state.lineMax, state.blkIndent
    state.parentType, state.lineMax, state.blkIndent = name, line, indent
    state.md.block.tokenize(state, begin, line)
    state.parentType, state.lineMax, state.blkIndent = before
    state.push(f"{name}_close", "div", -1)
    state.line = line


def _shortcode(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Code between the two shortcodes of Hugo that it is in."""
    match = _SHORTCODE.match(_line(state, first))
    without = state.env.setdefault("docnmt_without_end", set())
    if match is None or match[1] in without:
        return False
    end = re.compile(rf"\{{\{{[<%]\s*/\s*{re.escape(match[1])}\b")
    for line in range(first, last):
        if end.search(state.src[state.bMarks[line] : state.eMarks[line]]):
            state.line = first if silent else line + 1
            return True
    without.add(match[1])
    return False


def _option(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """`:name: value` below the first line of a directive of MyST."""
    before = state.src[state.bMarks[first - 1] : state.eMarks[first - 1]].strip(" \t>") if first else ""  # no item
    if not _OPTION.fullmatch(_line(state, first)) or not (_DIRECTIVE.fullmatch(before) or _OPTION.fullmatch(before)):
        return False
    state.line = first if silent else first + 1
    return True


def _abbreviation(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """`*[HTML]: text`, what an abbreviation means: its text."""
    match = _ABBREVIATION.match(line := _line(state, first))
    if match is None:
        return False
    if not silent:
        state.push("abbreviation_open", "div", 1)
        token = state.push("inline", "", 0)
        token.map, token.children, token.content = [first, first + 1], [], line[match.end() :].strip()
        state.push("abbreviation_close", "div", -1)
        state.line = first + 1
    return True


def _grid(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """A table that is drawn with + - and |."""
    if _GRID.fullmatch(_line(state, first)) is None:
        return False
    if silent:
        return True
    line = first + 1
    while line < last and _line(state, line)[:1] in ("|", "+"):
        line += 1
    state.push("grid_table", "table", 0).map = [first, line]
    state.line = line
    return True


def _tex(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    r"""A formula between lines, in \[ and \] or an environment of LaTeX."""
    match = _TEX.match(_line(state, first))
    if match is None:
        return False
    end = "\\]" if match[1] is None else f"\\end{{{match[1]}}}"
    for line in range(first, min(last, first + _LINES)):
        if state.src[state.bMarks[line] : state.eMarks[line]].rstrip().endswith(end):
            state.line = first if silent else line + 1
            return True
        if state.isEmpty(line):
            break
    return False


def _line_block(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Lines that each begin with | and stay lines."""
    line = first
    while line < last and state.sCount[line] >= state.blkIndent and _LINE_BLOCK.fullmatch(_line(state, line)):
        line += 1
    if line == first:
        return False
    if not silent:
        state.push("line_block_open", "div", 1).map = [first, line]
        for number in range(first, line):
            token = state.push("inline", "", 0)
            token.map, token.children = [number, number + 1], []
            token.content = _line(state, number)[1:].strip()
        state.push("line_block_close", "div", -1)
        state.line = line
    return True


# A paragraph of Markdown, token by token.

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

Env = MutableMapping[str, Any]  # markdown-it's own type: rules keep there what they like


class Lost(Exception):
    """The tokens of a paragraph are not what stands in it."""


class Line(NamedTuple):
    """Where a line of a paragraph stands in the file, without what is around it."""

    begin: int
    end: int


def reading(token: Token, env: Env, source: str, lines: Sequence[Line]) -> Inline[Raw]:
    """The text and marks of a paragraph whose `lines` stand in `source`.

    Raises:
        Lost: they cannot be told.
    """
    return _Reader(token, env, source, lines).inline


class _Reader:
    """Goes through the content of a paragraph and its tokens at once."""

    def __init__(self, token: Token, env: Env, source: str, lines: Sequence[Line]) -> None:
        self.inline: Inline[Raw] = Inline(lambda text: (text, ""))
        self.content, self.place = token.content, 0
        self.ends: dict[tuple[str, int], int] = env.get(ENDS, {})
        self.source, self.lines, self.line = source, lines, 0
        self.defines = any(_DEFINES.match(source, line.begin, line.end) for line in lines)
        self.children = [child for child in token.children or [] if child.type != "text" or child.content]
        self.tags = _pairs(self.children)
        self.closing = set(self.tags.values())
        self.ended = _ended(self.children)
        self.raws = self._raws()
        self.begins = [*accumulate(map(len, self.raws), initial=0)]
        number = 0
        while number < len(self.children):
            number = self._child(number)

    def _raws(self) -> list[str]:
        """How each token is written."""
        raws, links, place = [], [], 0
        for number, child in enumerate(self.children):
            content = self.content
            if child.type == "text":
                begin = content.find(child.content, place)
                if begin < 0:
                    raise Lost(f"'{child.content}' is not there")
                raw = content[place : begin + len(child.content)]
            elif child.type in ("softbreak", "hardbreak"):
                match = _BREAK.match(content, place)
                raw = match[0] if match else ""
            elif child.type == "code_inline":
                match = _CODE.match(content, place)
                raw = match[0] if match else ""
            elif child.type in _AT_ONCE:
                raw = content[place : self.ends.get((content, place), place)]
            elif child.type == "link_open":
                links.append(self.ends.get((content, place), place))
                raw = "<" if child.markup == "autolink" else "["
            elif child.type == "link_close":
                end = links.pop()
                raw = ">" if child.markup == "autolink" else content[place:end]
            else:
                raw = child.content if child.type == "html_inline" else child.markup
            if child.type in _ATTRIBUTED:
                raw += self._attributes(number, place + len(raw))
            raws.append(raw)
            place += len(raw)
        if place != len(self.content):
            raise Lost(f"{len(self.content)} characters, of which {place} were found again")
        return raws

    def _attributes(self, number: int, place: int) -> str:
        """Attributes in braces right behind a token, which belong to it and are then no text."""
        match = _ATTRIBUTES.match(self.content, place)
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
        child, raw = self.children[number], self.raws[number].replace("\n", " ")
        after = number + 1
        if child.type in ("text", "text_special"):
            self.inline.text(child.content)
        elif child.type == "softbreak" and self._apart():
            self.inline.hard((self._break(number), ""))
        elif child.type == "softbreak":
            self.inline.text("\n")
        elif child.type == "hardbreak":
            self.inline.hard((self._break(number), ""))
        elif child.type == "code_inline":
            self.inline.fixed((raw, ""), child.content)
        elif child.type == "link_open" and child.markup == "autolink":
            after = self._closing(number) + 1
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
                raise Lost("formats inside of each other without end")
            end = self._closing(number)
            self.inline.open((raw, self._end(number, end)))
        elif child.nesting < 0 or number in self.closing:
            self.inline.close()
        elif number in self.tags and (_name(child) in FIXED or _NO.search(child.content)):
            after = self.tags[number] + 1
            self._fixed(_name(child), number, after)
        elif self.tags.get(number) == after:  # there is nothing in it
            after += 1
            self.inline.fixed((raw + self.raws[after - 1].replace("\n", " "), ""), seen=_seen(child))
        elif number in self.tags:
            self.inline.open((raw, self.raws[self.tags[number]]))
        elif child.type == "html_inline" and _name(child) == "br":
            self.inline.hard((raw, ""))
        else:
            self.inline.fixed((raw, ""), seen=_SEEN.get(child.type) or _seen(child))
        self.line += sum(each.count("\n") for each in self.raws[number:after])
        return after

    def _reference(self, number: int) -> int | None:
        """The token that ends what begins here, if that is a link or a superscript that refers to a note."""
        child = self.children[number]
        link = child.type == "link_open" or (number in self.tags and _name(child) == "a")
        if not link and not (number in self.tags and _name(child) == "sup"):
            return None
        end = self._closing(number) if child.type == "link_open" else self.tags[number]
        inside = self.children[number + 1 : min(end, number + _REFERENCE)]
        text = "".join(each.content for each in inside if each.type in ("text", "text_special"))
        kinds = {_name(each) if each.type == "html_inline" else each.type for each in inside}
        if not kinds <= _REFERRING or number + _REFERENCE < end:
            return None
        return end if is_reference(self.inline.touched, text, link=link or bool(kinds & {"a", "link_open"})) else None

    def _fixed(self, name: str, number: int, after: int) -> None:
        """An element of HTML that is not translated."""
        inside = (each for each in self.children[number:after] if each.type != "html_inline")
        shown = "".join(" " if each.type == "softbreak" else each.content for each in inside)
        raw = "".join(self.raws[number:after]).replace("\n", " ")
        self.inline.fixed((raw, ""), "" if name in UNSEEN else shown, UNSEEN.get(name, ""))

    def _apart(self) -> bool:
        """Whether this line or the next one is code, or the lines are terms and definitions to other readers."""
        lines = (self.source[line.begin : line.end] for line in self.lines[self.line : self.line + 2])
        return self.defines or any(CODE_LINE.fullmatch(line.strip()) for line in lines)

    def _end(self, number: int, end: int) -> str:
        """How a format ends; a link that is known by its text keeps this as its name."""
        raw = self.raws[end].replace("\n", " ")
        if self.children[number].type == "link_open" and raw in ("]", "][]"):
            return f"][{''.join(self.raws[number + 1 : end])}]".replace("\n", " ")
        return raw

    def _break(self, number: int) -> str:
        """A break as it stands in the file, with the marks of quotations and lists in the next line."""
        line = self.lines[self.line]
        begin = line.end - (1 if "\\" in self.raws[number] else 0)
        return self.source[begin : self.lines[self.line + 1].begin]

    def _closing(self, number: int) -> int:
        """The token that ends what a token begins."""
        if (end := self.ended.get(number)) is None:
            raise Lost(f"nothing ends {self.children[number].type}")
        return end


def _ended(children: Sequence[Token]) -> dict[int, int]:
    """For each token that begins something the one that ends it, by number."""
    ended: dict[int, int] = {}
    begun: list[int] = []
    for number, child in enumerate(children):
        if child.nesting > 0:
            begun.append(number)
        elif child.nesting < 0 and begun:
            ended[begun.pop()] = number
    return ended


def _pairs(children: Sequence[Token]) -> dict[int, int]:
    """Tags of HTML and their ends, by number, where both stand in the same format."""
    steps: list[tuple[int, Hashable]] = []
    around = [-1]
    for number, child in enumerate(children):
        if child.nesting:
            around.append(number) if child.nesting > 0 else around.pop()
        tag = _TAG.match(child.content) if child.type == "html_inline" else None
        if tag is None or tag[2].lower() in VOID or child.content.endswith("/>"):
            steps.append((0, ""))
        else:
            steps.append((-1 if tag[1] else 1, (around[-1], tag[2].lower())))
    return matched(steps)


def _seen(child: Token) -> str:
    """What readers see of an element without text: something if it has a class, as icons have, or is a component."""
    match = _TAG.match(child.content)
    if child.type != "html_inline" or match is None or match[1] or HIDDEN in child.content:
        return ""
    own = match[2][0].isupper() and child.content.endswith("/>")
    return "picture" if own or is_picture(match[2].lower()) or "class" in child.content.lower() else ""


def _name(child: Token) -> str:
    match = _TAG.match(child.content)
    return match[2].lower() if match else ""


# Markdown (CommonMark with tables and struck-out text): paragraphs, headings, items and cells are segments.

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


def _starred(place: _Written) -> _Written:
    """The same with `*` for `_`, which is no emphasis inside a word."""
    stars = [(a.replace("_", "*"), b.replace("_", "*")) if a.strip("_") == "" else (a, b) for a, b in place.raws]
    return replace(place, raws=stars)


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

    @property
    def cell(self) -> bool:
        """Whether it is one of a table."""
        return self.block in _CELLS


class Markdown(Spliced):
    """A text in Markdown, with HTML between and front matter, which is left alone.

    Translated: paragraphs, headings, items, cells, definitions, notes; alerts (`> [!NOTE]`), meanings of abbreviations
    (`*[HTML]: …`), containers (`:::`), blocks of Python-Markdown (`!!!` `???` `=== "Tab"`) and their titles; line
    blocks; text of HTML blocks
    Stays: front matter (YAML, TOML, JSON; named if it has a title or a description), code, formulas, shortcodes,
    attributes (also `{#name .class}` behind a heading), link targets, reference definitions, alternative texts; tables
    drawn with `+--+`
    """

    def read_places(self) -> Iterator[SegmentPlace]:
        begin = FRONT_MATTER.match(self.source).end()  # type: ignore[union-attr]  # it matches nothing, too
        self.parser, sections = self._parser(), Sections()
        self.left = left = list[int | str]()
        if FRONT_TEXT.search(self.source, 0, begin):
            left.append("the front matter, with its title or description")
        self.env: Env = {}
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
        attributes = _HEADING_ATTRIBUTES.search(token.content) if inside[-1:] == ["heading"] else None
        if attributes:
            (part,) = self.parser.parseInline(token.content[: attributes.start()], self.env)
            part.map, part.meta = token.map, {"behind": attributes[0].rstrip()}
            return [part]
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

    def rendered(self, place: SegmentPlace, text: Translated) -> str:
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
        ways = [(place, text)]  # signs of emphasis may be read as text
        ways += [(_starred(place), _around_letters(place, text)), (bare, text)] if bare.raws != place.raws else []
        for each, whole in ways:
            for escape in (always, lambda piece: always(_escaped(piece))):
                out = render(each, whole, escape)
                if self._reads(out, each, whole):
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
            again = reading(blocks[4], self.env, content, lines).segment()
        except Lost:
            return False
        words = [_NUMBERED.sub("", each).split() for each in (again.text, text.text)]
        marks = {number for number, raw in enumerate(place.raws) if any(raw)} - around_nothing(place, text)
        return words[0] == words[1] and len(again.marks) == len(marks)
