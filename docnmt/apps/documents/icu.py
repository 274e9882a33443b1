"""Messages of ICU: text with `{count, plural, one {…} other {…}}` and the like, each of whose branches is a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

_COMPLEX = re.compile(r"\{\s*([\w.-]+)\s*,\s*(plural|selectordinal|select)\s*,\s*(?:offset\s*:\s*\d+\s*)?")
_SELECTOR = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")
_END = re.compile(r"\s*\}")
_QUOTED = re.compile(r"'(?:'|(?=[{}#|])(?:[^']|'')*(?:'|\Z))")
_SIMPLE = re.compile(r"\{\s*[\w.-]+\s*(?:,(?:[^{}']|'[^']*')*)?\}")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_STOP = re.compile(r"['{}#]")
#: Arguments inside of each other; no message has so many.
_DEEPEST = 20


class NoMessage(ValueError):
    """Text that is no message of ICU."""


@dataclass
class Branch:
    """A text, with placeholders for the arguments that have branches of their own.

    Attributes:
        text: what is translated. inside: for each placeholder of `text` what it stands for: as it is written, or pieces
            of that and branches. quotes: whether apostrophes quote in it; doubled: whether it doubles all others.
    """

    text: str = ""
    inside: dict[str, list[str | Branch]] = field(default_factory=dict)
    quotes: bool = False
    doubled: bool = False

    def all(self) -> Iterator[Branch]:
        """This one and those inside of it, in order."""
        yield self
        for pieces in self.inside.values():
            for piece in pieces:
                if isinstance(piece, Branch):
                    yield from piece.all()

    def written(self, texts: dict[int, str]) -> str:
        """The message, in which branches, by their `id`, have another text.

        Raises:
            ValueError: a text has lost a placeholder.
        """
        text = texts.get(id(self), self.text)
        found = [match for match in _PLACEHOLDER.finditer(text) if match[0] in self.inside]
        if sorted(match[0] for match in found) != sorted(self.inside):
            raise ValueError(f"expected {', '.join(self.inside)}, each once, in '{text}'")
        if not self.quotes:
            return text
        parts, place = list[str](), 0
        for match in found:
            parts.append(self._quoted(text[place : match.start()] + "{")[:-1])
            parts += (piece if isinstance(piece, str) else piece.written(texts) for piece in self.inside[match[0]])
            place = match.end()
        return "".join([*parts, self._quoted(text[place:])])

    def _quoted(self, text: str) -> str:
        """Text whose apostrophes quote nothing."""
        return re.sub(r"'" if self.doubled else r"'(?=[{}#|'])", "''", text)


def read(text: str) -> Branch:
    """A message; one without branches is its text, whatever its quotes mean.

    Raises:
        NoMessage: it has an argument with branches that does not end, or something else is wrong.
    """
    if not _COMPLEX.search(text):
        return Branch(text)
    branch, end = _Reader(text).branch(0, "", 0)
    if end < len(text):
        raise NoMessage(f"'}}' at character {end + 1} ends nothing")
    return branch


class _Reader:
    """Reads a message from left to right."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._taken = {match[0] for match in _SIMPLE.finditer(source)}
        self._numbers: dict[tuple[int, str], Iterator[int]] = {}

    def branch(self, place: int, number: str, depth: int) -> tuple[Branch, int]:
        """What begins at a place, and where it ends; `#` stands for the argument `number`."""
        if depth > _DEEPEST:
            raise NoMessage("arguments inside of each other without end")
        found, parts = Branch(quotes=True, doubled="''" in self._source), list[str]()
        while place < len(self._source) and self._source[place] != "}":
            if match := _QUOTED.match(self._source, place):
                parts.append("'" if match[0] == "''" else self._name(found, "text", [match[0]]))
                place = match.end()
            elif match := _COMPLEX.match(self._source, place):
                pieces, place = self._argument(match, number, depth)
                parts.append(self._name(found, match[1], pieces))
            elif self._source[place] == "#" and number:
                parts.append(self._name(found, number, ["#"]))
                place += 1
            elif match := _SIMPLE.match(self._source, place):
                parts.append(match[0])
                place = match.end()
            elif self._source[place] == "{":
                raise NoMessage(f"'{{' at character {place + 1} begins no argument")
            else:
                stop = _STOP.search(self._source, place + 1)
                end = stop.start() if stop else len(self._source)
                parts.append(self._source[place:end])
                place = end
        found.text = "".join(parts)
        return found, place

    def _argument(self, match: re.Match[str], number: str, depth: int) -> tuple[list[str | Branch], int]:
        """An argument as pieces and branches, and where it ends."""
        number = number if match[2] == "select" else match[1]
        begin, place = match.start(), match.end()
        pieces: list[str | Branch] = []
        while selector := _SELECTOR.match(self._source, place):
            branch, end = self.branch(selector.end(), number, depth + 1)
            pieces += [self._source[begin : selector.end()], branch]
            begin = place = end
            if not self._source.startswith("}", place):
                raise NoMessage("a branch does not end")
            place += 1
        last = _END.match(self._source, place)
        if last is None or not pieces:
            raise NoMessage(f"the argument '{match[1]}' does not end")
        return [*pieces, self._source[begin : last.end()]], last.end()

    def _name(self, branch: Branch, name: str, pieces: list[str | Branch]) -> str:
        """A placeholder for these, which stands nowhere else in the branch."""
        numbers = self._numbers.setdefault((id(branch), name), count())
        free = next(each for number in numbers if (each := f"{{{name}{number or ''}}}") not in self._taken)
        branch.inside[free] = pieces
        return free
