"""Messages of ICU: text with `{count, plural, one {…} other {…}}` and the like, each of whose branches is a text; also
Java's `{0,choice,0#…|1#…}` and MediaWiki's `{{PLURAL:$1|…|…}}`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

_COMPLEX = re.compile(r"\{\s*([\w.-]+)\s*,\s*(plural|selectordinal|select|choice)\s*,\s*(?:offset\s*:\s*\d+\s*)?")
_SELECTOR = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")
_LIMIT = re.compile(r"\|?\s*[-+]?(?:[\d.]+|∞)\s*[#<≤]")  # a selector of `choice`
_END = re.compile(r"\s*\}")
_QUOTED = re.compile(r"'(?:'|(?=[{}#|])(?:[^']|'')*(?:'|\Z))")
_SIMPLE = re.compile(r"\{\s*[\w.-]+\s*(?:,(?:[^{}']|'[^']*')*)?\}")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_STOP = re.compile(r"['{}#|]")
#: A word of MediaWiki with forms, a form's beginning, and what else may hold signs that part forms.
_WIKI = re.compile(r"\{\{\s{0,9}(PLURAL|GENDER)\s{0,9}:[^{}|]*(?=\|)", re.IGNORECASE)
_WIKI_FORM, _WIKI_LINK = re.compile(r"\|\s*(?:\d+=)?"), re.compile(r"\[\[[^\[\]\n]{1,200}\]\]|\{\{[^{}]*\}\}")
_WIKI_STOP = re.compile(r"\{\{|\}\}|\[\[|\|")
#: A message of MessageFormat 2 with declarations, or variants, whose texts stand in two braces each.
_DECLARES, _PATTERN = re.compile(r"\s*\.(?:input|local|match)\b"), re.compile(r"\{\{|\}\}|[{}]")
#: Plural categories that are added, and those that are dropped.
_PluralChange = tuple[Sequence[str], Sequence[str]]
#: Arguments inside of each other; no message has so many.
_DEEPEST = 20


class NoMessage(ValueError):
    """Text that is no message of ICU."""


@dataclass
class _Argument:
    """An argument with branches; what chooses each, with the brace and the space around, stands before it."""

    head: str  # `{n, plural,`
    branches: list[tuple[str, Branch]]
    tail: str  # what ends it
    plural: bool = False  # numbers choose, by the categories of a language
    close: str = "}"  # what ends a branch

    def written(self, texts: Mapping[int, str], change: _PluralChange) -> str:
        """As `Branch.written`; categories that the target has, too, say what `other` says."""
        parts = [self.head]
        added, dropped = change if self.plural else ((), ())
        names = [selector.strip(" \t\r\n{") for selector, _ in self.branches]
        for name, (selector, branch) in zip(names, self.branches, strict=True):
            text = branch.written(texts, change)
            new = [category for category in added if category not in names] if name == "other" else []
            if "other" not in names or name not in dropped:
                parts += [f"{selector.replace('other', category)}{text}{self.close}" for category in new] + [
                    f"{selector}{text}{self.close}"
                ]
        return "".join([*parts, self.tail])


@dataclass
class Branch:
    """A text, with placeholders for the arguments that have branches of their own.

    Attributes:
        text: what is translated. inside: for each placeholder of `text` what it stands for: as it is written, or an
            argument with branches. quotes: whether apostrophes quote in it; doubled: whether it doubles all others.
        choice: it is one of Java's `choice`, whose text Java reads twice if it has arguments.
    """

    text: str = ""
    inside: dict[str, str | _Argument] = field(default_factory=dict)
    quotes: bool = False
    doubled: bool = False
    choice: bool = False

    def all(self) -> Iterator[Branch]:
        """This one and those inside of it, in order."""
        yield self
        for part in self.inside.values():
            for _, branch in part.branches if isinstance(part, _Argument) else ():
                yield from branch.all()

    def written(self, texts: Mapping[int, str], change: _PluralChange = ((), ())) -> str:
        """The message, in which branches, by their `id`, have another text.

        Args:
            change: plural categories that are new, and those that go, as `plural_change` says of two languages."""
        text = texts.get(id(self), self.text)
        matches = [match for match in _PLACEHOLDER.finditer(text) if match[0] in self.inside]
        if sorted(match[0] for match in matches) != sorted(self.inside):
            raise ValueError(f"expected {', '.join(self.inside)}, each once, in '{text}'")
        parts, index = list[str](), 0
        for match in matches:
            parts.append(self._quoted(text[index : match.start()] + "{")[:-1])
            inside = self.inside[match[0]]
            parts.append(inside if isinstance(inside, str) else inside.written(texts, change))
            index = match.end()
        return "".join([*parts, self._quoted(text[index:])])

    def _quoted(self, text: str) -> str:
        """Text whose apostrophes quote nothing, and whose other signs mean nothing."""
        if not self.quotes:
            return text
        if self.choice:
            return re.sub(r"([|#<≤]+)", r"'\1'", text.replace("'", "’"))
        return re.sub(r"'" if self.doubled else r"'(?=[{}#|'])", "''", text)


def read(text: str) -> Branch:
    """A message; one without branches is its text, whatever its quotes mean.

    Raises:
        NoMessage: it has an argument with branches that does not end, or something else is wrong.
    """
    return _Reader(text).message() if _WIKI.search(text) or _COMPLEX.search(text) else Branch(text)


def around(text: str) -> list[tuple[int, int]]:
    """What stands around the texts of a message that has several, of MessageFormat 2, too; nothing of another text."""
    if _DECLARES.match(text):
        return _around_patterns(text)
    if not _WIKI.search(text) and not _COMPLEX.search(text):
        return []
    reader = _Reader(text)
    try:
        reader.message()
    except NoMessage:
        return []
    return reader.around


def _around_patterns(text: str) -> list[tuple[int, int]]:
    spans, last, depth = list[tuple[int, int]](), 0, 0
    for match in _PATTERN.finditer(text):
        if depth == 0 and match[0] == "{{":
            spans.append((last, match.end()))
            depth = 2
        elif depth:
            depth += len(match[0]) if match[0][0] == "{" else -len(match[0])
            last = match.end() - 2
    return [*spans, (last, len(text))] if spans and depth == 0 else []


class _Reader:
    """Reads a message from left to right; `around` is what stands around its texts."""

    def __init__(self, source: str) -> None:
        self._source, self._doubled = source, "''" in source
        self._taken = {match[0] for match in _SIMPLE.finditer(source)}
        self._numbers: dict[tuple[int, str], Iterator[int]] = {}
        self.around: list[tuple[int, int]] = []

    def message(self) -> Branch:
        if _WIKI.search(self._source):
            return self._wiki(0, 0)[0]
        branch, end = self._branch(0, "", 0)
        if end < len(self._source):
            raise NoMessage(f"'}}' at character {end + 1} ends nothing")
        return branch

    def _branch(self, index: int, number: str, depth: int, *, choice: bool = False) -> tuple[Branch, int]:
        """What begins at a place, and where it ends; `#` stands for the argument `number`."""
        if depth > _DEEPEST:
            raise NoMessage("arguments inside of each other without end")
        branch, parts = Branch(quotes=True, doubled=self._doubled, choice=choice), list[str]()
        while index < len(self._source) and self._source[index] not in ("}|" if choice else "}"):
            if match := _QUOTED.match(self._source, index):
                parts.append("'" if match[0] == "''" else self._name(branch, "text", match[0]))
                index = match.end()
            elif match := _COMPLEX.match(self._source, index):
                argument, index = self._argument(match, number, depth)
                parts.append(self._name(branch, match[1], argument))
            elif self._source[index] == "#" and number:
                parts.append(self._name(branch, number, "#"))
                index += 1
            elif match := _SIMPLE.match(self._source, index):
                parts.append(match[0])
                index = match.end()
            elif self._source[index] == "{":
                raise NoMessage(f"'{{' at character {index + 1} begins no argument")
            else:
                stop = _STOP.search(self._source, index + 1)
                end = stop.start() if stop else len(self._source)
                parts.append(self._source[index:end])
                index = end
        branch.text = "".join(parts)
        return branch, index

    def _wiki(self, index: int, depth: int) -> tuple[Branch, int]:
        """A text of MediaWiki that begins at a place, inside of so many words with forms, and where it ends."""
        if depth > _DEEPEST:
            raise NoMessage("forms inside of each other without end")
        text, parts = Branch(), list[str]()
        while index < len(self._source):
            if depth and self._source.startswith(("|", "}}"), index):
                break
            if match := _WIKI.match(self._source, index):
                forms, begin, end = list[tuple[str, Branch]](), index, match.end()
                while form := _WIKI_FORM.match(self._source, end):
                    self.around.append((begin, form.end()))
                    branch, end = self._wiki(form.end(), depth + 1)
                    forms.append((form[0], branch))
                    begin = end
                if not self._source.startswith("}}", end):
                    raise NoMessage(f"'{match[0]}' does not end")
                parts.append(self._name(text, match[1], _Argument(match[0], forms, "}}", close="")))
                index = end + 2
                self.around.append((end, index))
            else:
                link = _WIKI_LINK.match(self._source, index)
                stop = _WIKI_STOP.search(self._source, index + 1)
                end = link.end() if link else stop.start() if stop else len(self._source)
                parts.append(self._source[index:end])
                index = end
        text.text = "".join(parts)
        return text, index

    def _argument(self, match: re.Match[str], number: str, depth: int) -> tuple[_Argument, int]:
        choice = match[2] == "choice"
        number, close = ("", "") if choice else (number if match[2] == "select" else match[1], "}")
        begin, index, branches = match.start(), match.end(), list[tuple[str, Branch]]()
        while selector := _LIMIT.match(self._source, index) if choice else _SELECTOR.match(self._source, index):
            self.around.append((begin, selector.end()))
            branch, begin = self._branch(selector.end(), number, depth + 1, choice=choice)
            branches.append((selector[0], branch))
            if not self._source.startswith(close, begin):
                raise NoMessage("a branch does not end")
            index = begin + len(close)
        last = _END.match(self._source, index)
        if last is None or not branches:
            raise NoMessage(f"the argument '{match[1]}' does not end")
        self.around.append((begin, last.end()))
        return _Argument(match[0], branches, last[0], match[2] == "plural", close), last.end()

    def _name(self, branch: Branch, name: str, written: str | _Argument) -> str:
        """A placeholder for this, which stands nowhere else in the branch."""
        numbers = self._numbers.setdefault((id(branch), name), count())
        free = next(spelt for number in numbers if (spelt := f"{{{name}{number or ''}}}") not in self._taken)
        branch.inside[free] = written
        return free
