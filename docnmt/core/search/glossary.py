"""Terms of a glossary in beam search.

file → `Glossary` → terms of each sentence (`TermFinder`, `Terms`) → what each row lacks (`TermProgress`)
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from docnmt.core.read_corpus import TextLines, is_blank
from docnmt.core.search.config import GenerationConfig
from docnmt.core.tokenizer import BRK, EOS, UNK, Tokenizer, tag_of
from docnmt.registry import GENERATORS
from docnmt.runtime.languages import unspaced
from docnmt.runtime.system import UsageError, UserError

if TYPE_CHECKING:
    from docnmt.core.search.generators import Row

# Glossaries: translations of terms, and the search for terms in sentences.


def _spelt(term: str) -> str:
    """The pattern of a term: white space counts as one space, one without capitals is found in any case."""
    spelt = r"\s+".join(map(re.escape, term.split()))
    return spelt if term != term.lower() else f"(?i:{spelt})"


_WORD = re.compile(r"\w+")


def _caseless(text: str) -> str:
    """A text that is the same for all that `(?i:)` takes for one."""
    return "".join(character.lower()[0].upper()[0] for character in text)


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
        """Read a file of lines SOURCE, tab, TARGET; empty lines are ignored."""
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
        """Convert a caller's argument: terms in a mapping, a file to read, or a glossary."""
        if isinstance(glossary, (str, Path)):
            return cls.read(Path(glossary))
        if not isinstance(glossary, Mapping):
            if glossary is None or isinstance(glossary, Glossary):
                return glossary
            raise UserError(f"glossary: expected a mapping, a Glossary or a file, got {type(glossary).__name__}")
        terms: dict[str, str] = {}
        for term, target in glossary.items():
            if not all(isinstance(text, str) and text.strip() for text in (term, target)):
                raise UserError(f"glossary: expected text for a source and a target term, got {term!r}: {target!r}")
            source, wanted = " ".join(term.split()), " ".join(target.split())
            if terms.setdefault(source, wanted) != wanted:
                raise UserError(f"glossary: {source!r} is {terms[source]!r} and {wanted!r}; keep one of them")
        return cls(terms)

    @cached_property
    def _by_begin(self) -> dict[str, list[str]]:
        """The terms by their first word, or character if that is in no word of a script with spaces; longest first."""
        terms: dict[str, list[str]] = defaultdict(list)
        for term in sorted(self.terms, key=len, reverse=True):
            word = _WORD.match(term)
            spaced = word is not None and not any(map(unspaced, word[0]))
            terms[_caseless(word[0] if word and spaced else term[0])].append(term)
        return terms

    @cached_property
    def _patterns(self) -> dict[str, re.Pattern[str]]:
        """The patterns of the terms that were looked for."""
        return {}

    def _matches(self, sentence: str) -> Iterator[tuple[str, re.Match[str]]]:
        """Yield each term and where it is, in time that does not grow with the number of terms that begin otherwise."""
        words = {word.start(): word[0] for word in _WORD.finditer(sentence)}
        start = 0
        while start < len(sentence):
            begins = {_caseless(sentence[start]), _caseless(words.get(start, ""))}
            for term in (term for begin in begins for term in self._by_begin.get(begin, ())):
                if term not in self._patterns:
                    edges = _edge(term[0], "(?<!", ")"), _edge(term[-1], "(?!", ")")
                    self._patterns[term] = re.compile(_spelt(term).join(edges))
                if match := self._patterns[term].match(sentence, start):
                    yield term, match
                    start = match.end() - 1
                    break
            start += 1

    def found(self, sentence: str, fixed: Sequence[tuple[int, int]] = ()) -> list[str]:
        """Return the target terms that apply to a source sentence, each once, in the order of the source.

        Inside of its parts `fixed`, which are in order (code, placeholders, addresses), there are none.
        """
        targets, ends = [], [end for _, end in fixed]
        for term, match in self._matches(sentence):
            around = bisect_right(ends, match.start())
            if around < len(fixed) and fixed[around][0] <= match.start() and match.end() <= ends[around]:
                continue
            spelt = " ".join(match[0].split())
            named = next((name for name in (spelt, spelt.lower()) if name in self.terms), term)  # ſ and ı match s and i
            targets.append(self.terms[named])
        return list(dict.fromkeys(targets))


def _edge(character: str, opening: str, closing: str) -> str:
    """Return a pattern that forbids a letter or digit next to a term that begins or ends in one."""
    inside = character.isalnum() or character == "_"
    return rf"{opening}\w{closing}" if inside and not unspaced(character) else ""


# Glossary terms in beam search: which tokens complete them, and which hypotheses stay in the beam.
#
# Dynamic beam allocation (Post and Vilar 2018): hypotheses that lack equally many tokens of their sentence's terms form
# a bank; the places of the beam are divided among the banks, and what a bank does not use goes to those that lack less.
# In a beam of one there is nothing to divide: a term is written where the search would begin it or, at the latest, end.

_Term = tuple[int, ...]


@dataclass(frozen=True)
class Terms:
    """The terms that a corpus or a text must contain."""

    wanted: Mapping[int, tuple[_Term, ...]]  # by the sentence's number in the corpus or its place in the text
    joins: Tensor  # (V,) bool, True for tokens that would continue a word; none of them may follow a term

    def renumbered(self, numbers: Sequence[int]) -> Terms:
        """The terms of a corpus or text whose sentence n is sentence `numbers[n]` of this one."""
        return Terms({n: self.wanted[number] for n, number in enumerate(numbers) if number in self.wanted}, self.joins)

    def begin(self, sentence: int = 0) -> TermProgress:
        return TermProgress(self, sentence, self.wanted.get(sentence, ()))

    def of(self, sentences: range, given: Collection[int]) -> Terms | None:
        """The terms of a text of these sentences, without the given ones; None if there are none."""
        terms = self.renumbered([-1 if number in given else number for number in sentences])
        return terms if terms.wanted else None


@dataclass(frozen=True)
class TermProgress:
    """A row's progress through the terms of the sentence that it writes."""

    terms: Terms  # of its text
    sentence: int  # its number in the text
    left: tuple[_Term, ...]  # the terms that it does not contain yet
    begun: _Term = ()  # the last tokens, as far as they are the beginning of one of these terms
    ended: bool = False  # the last token completed a term

    @property
    def missing(self) -> int:
        return self.whole - len(self.begun)

    @property
    def whole(self) -> int:
        """The number of tokens still missing if the term that has begun were given up."""
        return sum(map(len, self.left))

    @property
    def going(self) -> set[int]:
        """The tokens that continue the begun term; those that begin one if none has begun."""
        depth = len(self.begun)
        return {term[depth] for term in self.left if term[:depth] == self.begun}

    @property
    def steps(self) -> set[int]:
        """The tokens that continue the begun term or begin one."""
        return self.going | {term[0] for term in self.left}

    def after(self, token: int) -> TermProgress:
        if token in (BRK, EOS):
            return self.terms.begin(self.sentence + 1)
        begun = (*self.begun, token)
        while begun and not any(term[: len(begun)] == begun for term in self.left):
            begun = begun[1:]
        left = tuple(term for term in self.left if term != begun)
        going = any(term[: len(begun)] == begun for term in left)
        return TermProgress(self.terms, self.sentence, left, begun if going else (), len(left) < len(self.left))


def forbid(rows: Sequence[Row], width: int, log_probs: Tensor, room: Callable[[int], int]) -> None:
    """Set log_probs (R, V) to -inf for the end while terms are missing, and for tokens that would turn a term into
    another word; for all but terms when a row's `room` before the end is needed for them or, in a beam of one place, a
    term has begun or the end would follow."""
    for number, row in enumerate(rows):
        if (progress := row.progress) is None:
            continue
        scores = log_probs[number]
        if progress.ended and not progress.begun:
            scores[progress.terms.joins.to(scores.device)] = -torch.inf
        if not progress.left:
            continue
        now = width == 1 and (bool(progress.begun) or int(scores.argmax()) in (BRK, EOS))
        scores[[BRK, EOS]] = -torch.inf
        if progress.whole >= (left := room(number)) or now:
            steps = progress.going if now else progress.steps
            possible = [token for token in steps if progress.after(token).missing < left]
            only = torch.full_like(scores, -torch.inf)
            only[possible] = scores[possible]
            log_probs[number] = only


class _Candidate(NamedTuple):
    """A row with one more token: its sum of log-probabilities, and its progress through the terms."""

    total: float
    row: int
    token: int
    progress: TermProgress


def choose(
    rows: Sequence[Row], width: int, table: tuple[Tensor, Tensor, Tensor, Tensor], log_probs: Tensor, totals: Tensor
) -> None:
    """Replace the candidates of slots with terms, (N, k) each: parent row, token, log-probability, sum.

    Those that end come first, of the `width` best of those that lack no term; then those that live on, best first.
    log_probs (R, V) and totals (R,) are of the rows.
    """
    parents, tokens, scores, sums = table
    for n in range(len(parents)):
        first = n * width
        progresses = [row.progress for row in rows[first : first + width] if row.progress is not None]
        if not progresses:
            continue
        pairs = set(zip(parents[n].tolist(), tokens[n].tolist(), strict=True))
        for number, progress in enumerate(progresses, first):  # each row's best, and all that continue or begin a term
            pairs |= {(number, token) for token in (int(log_probs[number].argmax()), *progress.steps)}
        ordered = sorted(pairs)
        row, token = (torch.tensor(column, device=totals.device) for column in zip(*ordered, strict=True))
        candidates = [
            _Candidate(total, number, token, progresses[number - first].after(token))
            for (number, token), total in zip(ordered, (totals[row] + log_probs[row, token]).tolist(), strict=True)
            if total > -torch.inf
        ]
        candidates.sort(key=lambda candidate: -candidate.total)
        complete = [candidate for candidate in candidates if candidate.token == EOS or not candidate.progress.left]
        ends = [candidate for candidate in complete[:width] if candidate.token == EOS]
        chosen = [*ends, *_living(candidates, width)][: parents.shape[1]]
        parents[n], tokens[n], sums[n] = first, UNK, -torch.inf  # what is not filled is dead
        parents[n, : len(chosen)] = torch.tensor([candidate.row for candidate in chosen], dtype=parents.dtype)
        tokens[n, : len(chosen)] = torch.tensor([candidate.token for candidate in chosen], dtype=tokens.dtype)
        sums[n, : len(chosen)] = torch.tensor([candidate.total for candidate in chosen], dtype=sums.dtype)
        scores[n] = log_probs[parents[n], tokens[n]]


def _living(candidates: Sequence[_Candidate], width: int) -> list[_Candidate]:
    """A beam of candidates that do not end, taken from all banks, best first."""
    if width == 1:
        return [candidate for candidate in candidates if candidate.token != EOS][:1]
    banks: dict[int, list[_Candidate]] = defaultdict(list)
    for candidate in candidates:
        if candidate.token != EOS:
            banks[candidate.progress.missing].append(candidate)
    share, remainder = divmod(width, max(len(banks), 1))
    chosen: list[_Candidate] = []
    others: list[_Candidate] = []
    for bank, missing in enumerate(sorted(banks)):
        size = share + (remainder if bank == 0 else 0)
        chosen += banks[missing][:size]
        others += banks[missing][size:]
    return sorted([*chosen, *others[: width - len(chosen)]], key=lambda candidate: -candidate.total)


class TermFinder:
    """Finds the glossary terms that apply to source sentences, as tokens of a vocabulary.

    Args:
        name: what messages call the glossary.
    """

    def __init__(self, glossary: Glossary, tokenizer: Tokenizer, name: str = "--glossary") -> None:
        self._glossary = glossary
        targets = sorted(set(glossary.terms.values()))
        begin = 0 if tag_of(tokenizer) is None else 1  # a term is no text, which would begin with a tag
        self._tokens = {term: tuple(ids[begin:]) for term, ids in zip(targets, tokenizer.encode(targets), strict=True)}
        if wrong := [target for target, tokens in self._tokens.items() if UNK in tokens or not tokens]:
            shown = ", ".join(f"'{target}'" for target in wrong[:5]) + (", …" if len(wrong) > 5 else "")
            raise UserError(f"{name}: the model's vocabulary cannot write {shown}; change or remove these terms")
        self._joins = torch.tensor([p[:1].isalnum() and not unspaced(p[0]) for p in tokenizer.vocabulary()])

    def of(self, sentences: Iterable[str], fixed: Sequence[Sequence[tuple[int, int]]] | None = None) -> Terms:
        """Return the terms of a corpus with these source sentences, none inside of the `fixed` parts of each."""
        wanted = {}
        for number, text in enumerate(sentences):
            if targets := self._glossary.found(text, fixed[number] if fixed else ()):
                wanted[number] = tuple(self._tokens[target] for target in targets)
        return Terms(wanted, self._joins)


def opened_glossary(options: GenerationConfig) -> Glossary | None:
    """Read the glossary that `--glossary` names, or return None. A pipe can be read only once."""
    return None if options.glossary is None else Glossary.read(Path(options.glossary))


def takes_terms(options: GenerationConfig) -> bool:
    """Whether the search can keep to terms."""
    return bool(getattr(GENERATORS.get(options.generator), "takes_terms", False))


def asked_terms(options: GenerationConfig, tokenizer: Tokenizer, glossary: Glossary | None = None) -> TermFinder | None:
    """Return the term finder for `glossary`, or else for the file of `--glossary`; None without either."""
    glossary = opened_glossary(options) if glossary is None else glossary
    if glossary is None:
        return None
    if not takes_terms(options):
        raise UsageError(f"--glossary: --generator {options.generator} cannot keep to it; take beam_search or greedy")
    return TermFinder(glossary, tokenizer)
