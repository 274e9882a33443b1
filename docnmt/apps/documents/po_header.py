"""The header of a PO file: its language, its charset, and which plural forms there are."""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from translate.lang import data

from docnmt.runtime.languages import base, tag

#: Numbers that are tried to learn which form they take.
_TRIED = 201


class PoHeader:
    """A header whose text stands at `source[begin:end]`, quoted; `text` is what it says.

    Args:
        language: what the file is translated into.
    """

    def __init__(self, source: str, begin: int, end: int, text: str, language: str) -> None:
        self._source, self._begin, self._end, self.text, self._target = source, begin, end, text, language

    @property
    def language(self) -> str | None:
        """The language that it says."""
        said = re.search(r"^Language: *([\w@.-]+)", self.text, re.MULTILINE)
        return said and said[1]

    @cached_property
    def empty(self) -> bool:
        """Whether it says no plural forms, as in a template, but the target's are known."""
        return self._plural() is None and self._known() is not None

    @property
    def plurals(self) -> int:
        """How many forms there are; 2 if nobody knows."""
        return (self._plural() or self._known() or (2, ""))[0]

    def _plural(self) -> tuple[int, str] | None:
        """The number of forms and which a number takes, as the header says."""
        said = re.search(r"nplurals\s*=\s*([1-9])\s*;\s*plural\s*=\s*([^;\n]+)", self.text)
        return said and (int(said[1]), said[2])

    def _known(self) -> tuple[int, str] | None:
        """… and as the target language has them."""
        names = (tag(self._target).replace("-", "_"), base(self._target))
        found = next((data.languages[name] for name in names if name in data.languages), None)
        return found and (int(found[1]), str(found[2]))

    @cached_property
    def _numbers(self) -> dict[int, set[int]]:
        """For each form some of the numbers that take it."""
        _, rule = self._plural() or self._known() or (2, "n != 1")
        try:
            which = gettext.c2py(rule)
            found: dict[int, set[int]] = {}
            for number in range(_TRIED):
                found.setdefault(int(which(number)), set()).add(number)
        except (ValueError, ArithmeticError, RecursionError):
            return {}
        return found

    def source_of(self, form: int, placeholders: Sequence[Sequence[str]]) -> int:
        """Which of a message's texts, the singular or the plural, a form is translated from.

        The singular may lack the number ("one file"), so that it serves only the form of 1 alone, or if it does not.
        """
        if len(placeholders) < 2:
            return 0
        numbers = self._numbers.get(form, set())
        if self.plurals == 1 or (numbers and 1 not in numbers) or (not numbers and form):
            return 1
        return 0 if numbers <= {1} or placeholders[0] == placeholders[1] else 1

    def changes(self, has_plurals: bool) -> Iterator[tuple[int, int, str]]:
        """What a template's header says once it is translated."""
        quoted = self._source[self._begin : self._end]
        new = re.sub(r'(?<="Language:)[ \t]*(?=\\n")', f" {tag(self._target).replace('-', '_')}", quoted)
        new = new.replace("charset=CHARSET", "charset=UTF-8")
        if self.empty and (known := self._known()) is not None:
            line = f"nplurals={known[0]}; plural={known[1]};"
            new, there = re.subn(r'(?<="Plural-Forms:)[^"]*?(?=\\n")', lambda _: f" {line}", new)
            if has_plurals and not there and self.text:
                new += ("\r\n" if "\r\n" in self._source else "\n") + f'"Plural-Forms: {line}\\n"'
        if new != quoted:
            yield self._begin, self._end, new
            fuzzy = re.search(r"^#, fuzzy\r?\n(?=(?:#[^\n]*\n)*msgid)", self._source[: self._begin], re.MULTILINE)
            if fuzzy is not None:
                yield fuzzy.start(), fuzzy.end(), ""
