"""Lexical consistency (LTCR, Lyu et al. 2021): whether repeated terms of a document are translated in the same way.

It is the share of agreeing translations among all pairs of a term's occurrences in different sentences of a document.
Word translations are found by IBM model 1 (Brown et al. 1993), trained on the test's source and reference.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

#: Number of initial letters by which two words count as forms of one: inflection mostly changes the end of a word.
STEM = 5
_WORD = re.compile(r"[^\W\d_]+")

Lexicon = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Consistency:
    """The counts: `agreeing` of `pairs` pairs of occurrences have the same translation; `terms` terms are repeated."""

    agreeing: int
    pairs: int
    terms: int

    @property
    def ratio(self) -> float:
        """The share in percent; NaN if no term is repeated."""
        return 100 * self.agreeing / self.pairs if self.pairs else float("nan")

    def __str__(self) -> str:
        if not self.pairs:
            return "none, as no document repeats a term"
        return f"{self.ratio:.1f} % of {self.pairs:,} pairs of occurrences of {self.terms:,} repeated terms"

    def to_dict(self) -> dict[str, Any]:
        """Return the entry in `scores.json`; the ratio is None if no term is repeated."""
        return {"ratio": self.ratio if self.pairs else None, "pairs": self.pairs, "terms": self.terms}


def lexical_consistency(
    sources: Sequence[str], targets: Sequence[str], document_offsets: Sequence[int] | np.ndarray, lexicon: Lexicon
) -> Consistency:
    """Measure how consistently `targets` translate the terms that documents repeat.

    A term is a word of at least four letters that occurs in two or more sentences of a document but in at most a tenth
    of the documents' sentences overall. An occurrence without an aligned word agrees with none.

    Args:
        lexicon: from `learn_lexicon`; the same for all systems that are compared.

    Raises:
        ValueError: unequal numbers of sentences.
    """
    _check(sources, targets)
    frequent = Counter(word for sentence in sources for word in set(_words(sentence)))
    limit = max(3, len(sources) // 10)
    agreeing = pairs = 0
    terms: set[str] = set()
    for first, last in pairwise(document_offsets):
        places = defaultdict(list)
        for index in range(first, last):
            for word in dict.fromkeys(_words(sources[index])):
                places[word].append(index)
        for word, lines in places.items():
            if len(lines) < 2 or len(word) < 4 or frequent[word] > limit:
                continue
            terms.add(word)
            translations = [_translation(word, targets[index], lexicon) for index in lines]
            agreeing += sum(n * (n - 1) // 2 for stem, n in Counter(translations).items() if stem)
            pairs += len(lines) * (len(lines) - 1) // 2
    return Consistency(agreeing, pairs, len(terms))


def learn_lexicon(sources: Sequence[str], targets: Sequence[str], *, iterations: int = 5) -> Lexicon:
    """Estimate p(target stem | source word) by expectation maximisation of IBM model 1, with an empty source word.

    Raises:
        ValueError: unequal numbers of sentences.
    """
    _check(sources, targets)
    left, right = _Vocabulary(), _Vocabulary()
    empty = left[""]
    source = [np.array([empty, *(left[word] for word in _words(sentence))]) for sentence in sources]
    target = [np.array([right[stem] for stem in _stems(sentence)], dtype=np.int64) for sentence in targets]
    pairs = [np.tile(s, len(t)) * len(right) + np.repeat(t, len(s)) for s, t in zip(source, target, strict=True)]
    entries, pair = np.unique(np.concatenate(pairs), return_inverse=True)  # (E,) of the lexicon, (P,) which one
    word, stem = np.divmod(entries, len(right))  # (E,)
    candidates = np.repeat([len(s) for s in source], [len(t) for t in target])  # (T,) for every target word
    place = np.repeat(np.arange(len(candidates)), candidates)  # (P,) the target word to be explained
    p = np.ones(len(entries))
    for _ in range(iterations):
        share = p[pair] / np.bincount(place, p[pair])[place]
        counts = np.bincount(pair, share)  # (E,) expected
        p = counts / np.bincount(word, counts)[word]
    words, stems = list(left), list(right)
    lexicon: Lexicon = {name: {} for name in words}
    for w, t, value in zip(word.tolist(), stem.tolist(), p.tolist(), strict=True):
        lexicon[words[w]][stems[t]] = value
    return lexicon


class _Vocabulary(dict[str, int]):
    """Words with their numbers, in the order of their first look-up."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


def _check(sources: Sequence[str], targets: Sequence[str]) -> None:
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} source sentences, but {len(targets)} target sentences")


def _translation(word: str, target: str, lexicon: Lexicon) -> str:
    """Return the stem in `target` that most probably translates `word`, more than the empty word; or ""."""
    row, empty = lexicon.get(word, {}), lexicon.get("", {})
    candidates = {t: row[t] for t in _stems(target) if row.get(t, 0.0) > empty.get(t, 0.0)}
    return max(candidates, key=lambda t: (candidates[t], t), default="")


def _stems(sentence: str) -> Iterator[str]:
    return (word[:STEM] for word in _words(sentence))


def _words(sentence: str) -> list[str]:
    return _WORD.findall(sentence.lower())
