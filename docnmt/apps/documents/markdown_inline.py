"""A paragraph of Markdown, token by token.

`markdown-it-py` does not say where its inline tokens stand. They are found again in order: how each was written follows
from its kind, and where links end is noted while they are read.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, MutableMapping, Sequence
from itertools import accumulate, takewhile
from typing import Any, NamedTuple

from markdown_it.token import Token

from docnmt.apps.documents.begin_and_end import DEEPEST, matched
from docnmt.apps.documents.html import FIXED, UNSEEN, VOID, is_picture
from docnmt.apps.documents.inline import Inline, is_reference
from docnmt.apps.documents.markdown_blocks import CODE_LINE, ENDS
from docnmt.apps.documents.splice import Raw

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
