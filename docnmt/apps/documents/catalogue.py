"""Catalogues: files of messages, each a string with escapes that is replaced where it stands."""

from __future__ import annotations

import re
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from docnmt.apps.documents import icu
from docnmt.apps.documents.placeholders import MESSAGE
from docnmt.apps.documents.plural_keys import MessageKey, missing_forms
from docnmt.apps.documents.segment import Translated
from docnmt.apps.documents.splice import SegmentPlace, Spliced
from docnmt.apps.documents.tagged import branches, read
from docnmt.apps.documents.text_file import replaced
from docnmt.runtime.errors import UserError
from docnmt.runtime.languages import base, plural_change, tag

#: A key that ends so, and what stands before its value.
_OTHER = re.compile(r"(.*)other([\"']?\s*:\s*)", re.DOTALL)


@dataclass(frozen=True)
class CatalogueMessage:
    """A message, where it stands as it is written: `source[begin:end]`, and its key if it has one."""

    text: str
    begin: int
    end: int
    key: MessageKey | None = None


@dataclass(frozen=True)
class _Text(SegmentPlace):
    """A message or a branch of one, and the number of its entry."""

    branch: icu.Branch = field(default_factory=icu.Branch)
    entry: int = 0


class Catalogue(Spliced):
    """A file of messages; what else changes with the language is written when a message has changed."""

    def _places(self) -> Iterator[SegmentPlace]:
        self._ends: list[int] | None = None
        self._siblings: dict[int, list[str]] = {}  # the keys of each object
        self._entries = list(self._messages())
        self._roots: dict[int, icu.Branch] = {}
        self.left = left = list[int | str]()
        for number, entry in enumerate(self._entries):
            try:
                self._roots[number] = icu.read(entry.text)
            except icu.NoMessage:
                left.append(self._line(entry.begin))
                continue
            for branch in self._roots[number].all():
                several = branches(branch.text, pipes=True) if branch is self._roots[number] else []
                inline = read(branch.text, means_something, breaks=several)
                segment = inline.segment(units=("0", str(number)), flags=(MESSAGE,))
                yield _Text(segment, entry.begin, entry.end, inline.payloads, branch, number)

    def _write(self, changed: Mapping[int, Translated]) -> bytes:
        texts: dict[int, dict[int, str]] = {}
        for number, text in changed.items():
            place = self.places[number]
            assert isinstance(place, _Text)
            texts.setdefault(place.entry, {})[id(place.branch)] = self._render(place, text)
        changes, change = [*self._settings()], plural_change(*self.languages)
        written: dict[int, str] = {}
        for number, found in texts.items():
            entry = self._entries[number]
            written[number] = self._written(entry, self._roots[number].written(found, change))
            changes.append((entry.begin, entry.end, written[number]))
        for number, names in missing_forms([entry.key for entry in self._entries], self._siblings, change[0]):
            changes += self._forms(self._entries[number], names, written.get(number))
        return self._encoded(replaced(self.source, sorted(changes)))

    def _forms(self, entry: CatalogueMessage, names: Iterable[str], text: str | None) -> Iterator[tuple[int, int, str]]:
        """Plural forms that are new, before the form `other`, whose text, as it is written, they have."""
        assert entry.key is not None  # it says that this is a form
        text = self.source[entry.begin : entry.end] if text is None else text
        match = _OTHER.fullmatch(self.source, entry.key.begin, entry.begin)
        between = self._between(entry, text)
        if match and between is not None:
            forms = (f"{match[1]}{name}{match[2]}{text}{between}" for name in names)
            yield entry.key.begin, entry.key.begin, "".join(forms)

    def _line(self, place: int) -> int:
        if self._ends is None:
            self._ends = [match.end() for match in re.finditer(r"\r\n?|\n", self.source)]
        return bisect_right(self._ends, place) + 1

    def _wrong(self, place: int, message: str) -> UserError:
        place = min(place, len(self.source.rstrip()))  # what is missing at the end is missing in the last line
        return UserError(f"{self.name}:{self._line(place)}: {message}")

    def _renamed(self, name: str) -> str | None:
        """What the source's language, if this is its code, is called in the translation."""
        code = re.fullmatch(r"[A-Za-z]{2,3}([-_])?[A-Za-z0-9]*", name)
        if code is None or base(name) != base(self.languages[0]):
            return None
        return tag(self.languages[1]).replace("-", code[1] or "-")

    def _settings(self) -> Iterable[tuple[int, int, str]]:
        """Where the file says its language."""
        return ()

    @abstractmethod
    def _messages(self) -> Iterable[CatalogueMessage]:
        """The messages in order."""

    def _between(self, entry: CatalogueMessage, text: str) -> str | None:
        """What separates the key of a message from one with this text that is put before it; None: it cannot be."""
        return None

    @abstractmethod
    def _written(self, entry: CatalogueMessage, text: str) -> str:
        """A message as the file has it."""


def means_something(space: re.Match[str]) -> bool:
    """Whether white space of a message has a meaning: at the ends, wide, or lines and tabs."""
    return space.start() == 0 or space.end() == len(space.string) or len(space[0]) > 2 or not space[0].isprintable()
