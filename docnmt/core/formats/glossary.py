"""Glossaries: translations of terms, and the search for terms in sentences."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from docnmt.core.lines import TextLines, is_blank
from docnmt.runtime.errors import UserError
from docnmt.runtime.languages import unspaced


@dataclass(frozen=True)
class Glossary:
    """Source terms with their target terms.

    A term is found as a whole word, where white space counts as one space. One without capitals is found in any case,
    one with capitals as written. Among overlapping terms the first is taken, then the longest. Its target
    term is written as it is in the glossary.
    """

    terms: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Glossary:
        """Read a file of lines SOURCE, tab, TARGET; empty lines are ignored.

        Raises:
            UserError: the file cannot be read, or a line lacks two columns or contradicts another one; the message
                names it.
        """
        terms: dict[str, str] = {}
        lines: dict[str, int] = {}
        for number, line in enumerate(TextLines(path), 1):
            if is_blank(line):
                continue
            cells = [" ".join(cell.split()) for cell in line.split("\t")]
            if len(cells) != 2 or not all(cells):
                raise UserError(f"{path}:{number}: expected a source term, a tab and a target term, got '{line[:60]}'")
            source, target = cells
            if terms.get(source, target) != target:
                raise UserError(
                    f"{path}:{number}: '{source}' is '{target}' here and '{terms[source]}' in line {lines[source]}; "
                    "keep one of them"
                )
            terms[source], lines[source] = target, number
        return cls(terms)

    @classmethod
    def of(cls, glossary: Glossary | Mapping[str, str] | str | Path | None) -> Glossary | None:
        """Convert a caller's argument: terms in a mapping, a file to read, or a glossary.

        Raises:
            UserError: it is none of these; or see `read`.
        """
        if isinstance(glossary, (str, Path)):
            return cls.read(Path(glossary))
        if not isinstance(glossary, Mapping):
            if glossary is None or isinstance(glossary, Glossary):
                return glossary
            raise UserError(f"glossary: expected a mapping, a Glossary or a file, got {type(glossary).__name__}")
        for term, target in glossary.items():
            if not all(isinstance(each, str) and each.strip() for each in (term, target)):
                raise UserError(f"glossary: expected text for a source and a target term, got {term!r}: {target!r}")
        return cls({" ".join(term.split()): " ".join(target.split()) for term, target in glossary.items()})

    @cached_property
    def _longest_first(self) -> list[str]:
        return sorted(self.terms, key=len, reverse=True)

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        """The pattern of any term, the longest first, one group each."""
        parts = []
        for term in self._longest_first:
            spelt = r"\s+".join(map(re.escape, term.split()))
            spelt = spelt if term != term.lower() else f"(?i:{spelt})"
            parts.append(f"{_edge(term[0], '(?<!', ')')}({spelt}){_edge(term[-1], '(?!', ')')}")
        return re.compile("|".join(parts)) if parts else None

    def found(self, sentence: str, fixed: Sequence[tuple[int, int]] = ()) -> list[str]:
        """Return the target terms that apply to a source sentence, each once, in the order of the source.

        Inside of its parts `fixed`, which are in order (code, placeholders, addresses), there are none.
        """
        if self._pattern is None:
            return []
        targets, ends = [], [end for _, end in fixed]
        for match in self._pattern.finditer(sentence):
            around = bisect_right(ends, match.start())
            if around < len(fixed) and fixed[around][0] <= match.start() and match.end() <= ends[around]:
                continue
            spelt = " ".join(match[0].split())
            assert match.lastindex is not None  # its group; `spelt.lower()` need not be a term: ſ and ı match s and i
            term = spelt if spelt in self.terms else self._longest_first[match.lastindex - 1]
            targets.append(self.terms[term])
        return list(dict.fromkeys(targets))


def _edge(character: str, opening: str, closing: str) -> str:
    """Return a pattern that forbids a letter or digit next to a term that begins or ends in one."""
    inside = character.isalnum() or character == "_"
    return rf"{opening}\w{closing}" if inside and not unspaced(character) else ""
