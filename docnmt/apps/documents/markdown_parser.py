"""The parser of Markdown: CommonMark, and what site generators and pandoc add to it.

source ─ parser() → tokens of markdown-it-py and `mdit-py-plugins`; what has no plug-in is a rule here, which only says
what belongs together; the environment notes where links, pictures, formulas and notes end
"""

from __future__ import annotations

import re
from collections.abc import Callable

from markdown_it import MarkdownIt
from markdown_it.helpers import parseLinkLabel
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore, inline
from markdown_it.rules_inline import StateInline, image, link
from mdit_py_plugins.container import container_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath.index import math_block_dollar, math_inline_dollar
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.footnote.index import footnote_ref

from docnmt.apps.documents.segments import MOST_MARKS, TooLong, expect, is_reference

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
_LINE_BLOCK, _FIELD = re.compile(r"\|(?:[ \t]|$)"), re.compile(r":[A-Za-z][\w-]*:[ \t]+(?=\S)")
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
    markdown = MarkdownIt("commonmark", {"maxNesting": 100}).enable(["table", "strikethrough"])
    markdown.disable(["text_join", "fragments_join"])
    markdown.use(footnote_plugin, inline=False, move_to_end=False).use(deflist_plugin)
    for name, marker in (("colons", ":"), ("slashes", "/")):
        markdown.use(container_plugin, name, marker=marker, validate=lambda params, _: bool(params.strip()))
    markdown.block.ruler.before("fence", "math_block", math_block_dollar())
    rules = {"shortcode": _shortcode, "indented": _indented, "option": _option, "grid": _grid, "tex": _tex}
    rules["abbreviation"] = _abbreviation
    for name, rule in rules.items():
        markdown.block.ruler.before("fence", name, rule, _ALWAYS)
    markdown.block.ruler.before("deflist", "definition", _definition)
    markdown.block.ruler.after("table", "line_block", _line_block)
    markdown.core.ruler.before("inline", "count", _count)
    markdown.core.ruler.at("inline", _inline)
    markdown.inline.ruler.before("link", "note", _ending(_note))
    markdown.inline.ruler.at("link", _ending(_noting(link)))
    markdown.inline.ruler.at("image", _ending(_noting(image)))
    markdown.inline.ruler.at("footnote_ref", _noting(_reference))
    dollars = math_inline_dollar(allow_space=False, allow_digits=False, allow_double=True)
    markdown.inline.ruler.before("escape", "note_number", _noting(_note_number))
    for name, formula in (("math_inline", dollars), ("math_brackets", _formula)):
        markdown.inline.ruler.before("escape", name, _noting(formula))
    return markdown


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
        matched = rule(state, silent)
        if matched:
            state.env.setdefault(ENDS, {})[state.src, begin] = state.pos
        return matched

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
    """Lines that each begin with | and stay lines; so do two and more that begin with `:name:`, a list of fields."""
    pattern, least = (_FIELD, 2) if _line(state, first)[:1] == ":" else (_LINE_BLOCK, 1)
    line = first
    while line < last and state.sCount[line] >= state.blkIndent and pattern.match(_line(state, line)):
        line += 1
    if line - first < least:
        return False
    if not silent:
        state.push("line_block_open", "div", 1).map = [first, line]
        for number in range(first, line):
            token = state.push("inline", "", 0)
            token.map, token.children = [number, number + 1], []
            token.content = pattern.sub("", _line(state, number), count=1).strip()
        state.push("line_block_close", "div", -1)
        state.line = line
    return True
