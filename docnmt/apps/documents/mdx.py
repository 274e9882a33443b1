"""MDX: Markdown with components; imports, exports, expressions and the attributes of components stay.

While the file is read as Markdown, marks of HTML stand in the places of what only MDX knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock

from docnmt.apps.documents.markdown import HIDDEN, Markdown
from docnmt.apps.documents.segments import Translated
from docnmt.apps.documents.text import SegmentPlace

_FENCE = r"(?:\A|(?<=\n))[ \t>]*(?P<fence>`{3,}|~{3,})[\s\S]*?(?:\n[ \t>]*(?P=fence)[`~]*[ \t]*(?=\r?\n|\Z)|\Z)"
_SPAN = r"(?<!`)(?P<ticks>`+)(?!`)(?:(?!\n[ \t]*\r?\n)[\s\S])*?(?<!`)(?P=ticks)(?!`)"
_BLOCK = r"(?:\A\ufeff?|(?<=\n\n)|(?<=\n\r\n)|(?<=\n---\n)|(?<=\n---\r\n))"
_MODULE = rf"{_BLOCK}(?P<module>(?:import|export)\b(?=[\s{{*'\"])(?:[^\r\n]|\r?\n(?![ \t]*\r?\n))*)"
_TAG = r"</?(?:(?P<name>[A-Za-z][\w.:-]*)(?=[\s/>{])|(?=>))"
#: Text in the first column whose first word would be one of JavaScript.
_WOULD_BE_CODE = re.compile(r"\A[ie](?=(?:mport|xport)[\s{*'\"])")
_TOKEN = re.compile(rf"{_FENCE}|{_SPAN}|{_MODULE}|(?P<tag>{_TAG})|(?P<brace>(?<!\\)\{{)")
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
        ends: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote"]}
        parser.block.ruler.before("html_block", "components", _components, ends)
        return parser

    def _decoded(self) -> str:
        source = super()._decoded()
        self._key = next(key for n in range(len(source) + 1) if (key := f"mdx{n or ''}-") not in source)
        self._hidden: list[str] = []
        out, place = list[str](), 0
        for begin, end, mark in self._strange(source):
            out += [source[place:begin], mark]
            place = end
        return "".join([*out, source[place:]])

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

    def _line(self, place: int) -> int:
        return self._shown(self.source[:place]).count("\n") + 1

    def _strange(self, source: str) -> Iterator[tuple[int, int, str]]:
        """What Markdown does not know: where it stands, and the mark that stands there instead."""
        place, tries, signs = 0, _TRIES, _SIGNS
        while match := _TOKEN.search(source, place):
            begin, place = match.start(), match.end()
            if match["module"]:
                begin = match.start("module")
                yield begin, place, f"<!--{self._hide(source[begin:place])}-->"
            elif match["tag"] or match["brace"]:
                sought = tries > 0 and signs > 0
                end, looked = _end(source, place, ">" if match["tag"] else "}") if sought else (0, 0)
                raw = source[begin:end]
                if match["tag"] and _STRANGE.search(raw):
                    yield begin, end, self._tag(raw, match["name"])
                elif match["brace"] and end and not _PLACEHOLDER.fullmatch(raw):
                    yield begin, end, self._mark(raw, shows=not _COMMENT.fullmatch(raw))
                tries, signs, place = (tries, signs, end) if end else (tries - 1, signs - looked, place)

    def _tag(self, raw: str, name: str | None) -> str:
        """The mark of a tag: an element of the same name if HTML may have it, so that its end is found."""
        if raw.startswith("</") or name is None or "." in name or ":" in name:
            return self._mark(raw, shows=raw.endswith("/>"))
        alone = raw.endswith("/>")
        return f"<{name} {self._hide(raw[1 + len(name) : -1 - alone])}{'/' * alone}>"

    def _mark(self, raw: str, *, shows: bool) -> str:
        """A mark for what is no element of HTML."""
        return f"<{self._hide(raw)} />" if shows else f"<{self._hide(raw)}{HIDDEN}/>"

    def _hide(self, text: str) -> str:
        self._hidden.append(text)
        return f"{self._key}{len(self._hidden) - 1}"

    def _shown(self, text: str) -> str:
        """A text with what was hidden in it."""
        marks = re.compile(rf"<!--{self._key}(\d+)-->|<{self._key}(\d+)(?: hidden)? />| {self._key}(\d+)")
        return marks.sub(lambda match: self._hidden[int(match[1] or match[2] or match[3])], text)


def _end(source: str, place: int, closing: str) -> tuple[int, int]:
    """Behind the sign that closes what was opened before `place`, or 0: strings, comments and braces may be between;
    and how many signs were looked at."""
    depth, looked, ends = 0, 0, True  # whether comments end
    while match := _STOP.search(source, place):
        sign, place, looked = match[0], match.end(), looked + 1
        if sign in _ENDS and (sign not in ("'", "`", "/*", "//") or closing == "}" or depth):
            inside = _ENDS[sign].match(source, place) if ends or sign != "/*" else None
            ends &= inside is not None or sign != "/*"
            place = inside.end() if inside else place
        elif depth == 0 and sign == closing:
            return place, looked
        elif sign in "{}":
            depth += 1 if sign == "{" else -1
            if depth < 0:
                return 0, looked
    return 0, looked
