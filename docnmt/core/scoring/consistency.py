"""Consistency inside documents: forms of address, and words that are translated alike.

sentences → form of each → counts of agreement and consistency; source and reference → lexicon → pairs of occurrences
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from docnmt.core.formality import ADDRESS_WORDS, AddressRule, Form, address_language, second_person
from docnmt.core.scoring.metrics import FEW_DOCUMENTS, Evaluation, interval, sum_documents

# Forms of address: agreement of a translation with its reference, and consistency in a document. A line of address is
# a sentence whose source has a word of the second person, and which has exactly one form, by the plain rules of
# `docnmt.core.formality`. Both shares are functions of counts, like all metrics.

#: Sentences since the last line of address: 1, 2, 3-4, 5-8, 9 and more.
_DISTANCES = (1, 2, 3, 5, 9)


@dataclass(frozen=True)
class _AddressShare:
    """The share of equal forms among those compared, in percent, as a metric of counts (same, compared)."""

    language: str

    def score(self, sums: np.ndarray) -> float:
        return _share(sums) or 0.0

    @property
    def signature(self) -> str:
        return f"nrefs:1|address:{self.language}"


@dataclass(frozen=True, eq=False)
class Address:
    """The forms of address in a system's translation."""

    language: str  # of the translation
    lines: int  # of address, of the system
    reference_lines: int
    evaluation: Evaluation  # `agreement` with the reference, `consistency` with the line before in the document
    reference: np.ndarray  # (2,) of its consistency: equal and compared forms
    distances: np.ndarray  # (S,) from the system's last line of address; 0: first of its document; -1: no such line

    def __str__(self) -> str:
        def percent(sums: np.ndarray) -> str:
            share = _share(sums)
            return "no such lines" if share is None else f"{share:.1f} % of {int(sums[1]):,} lines"

        rows = [f"forms of address ({self.language}): {self.lines:,} lines, {self.reference_lines:,} of the reference"]
        for name, counts in self.evaluation.counts.items():
            low, high = self.intervals.get(name, (None, None))
            interval = "" if low is None else f" [{low:.1f}, {high:.1f}]"
            beside = f"; reference: {percent(self.reference)}" if name == "consistency" else ""
            rows.append(f"{name:<11} = {percent(counts.sum(axis=0))}{interval}{beside}")
        parts = [part for part in self.by_distance() if part["lines"]]
        rows += ["\t".join(parts[0])] if parts else []
        for distance, lines, *shares in map(dict.values, parts):
            cells = ("-" if share is None else f"{share:.1f}" for share in shares)
            rows.append("\t".join([distance, str(lines), *cells]))
        return "\n".join(rows)

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The middle 95 % of each share in samples of documents, if enough documents have such lines."""
        return {
            name: interval(self.evaluation.metrics[name], counts)
            for name, counts in self.evaluation.counts.items()
            if int((counts[:, 1] > 0).sum()) >= FEW_DOCUMENTS
        }

    def by_distance(self) -> list[dict[str, Any]]:
        """Return both shares by the distance to the system's last line of address; `first`: there is none before."""
        labels = ["first", *(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in pairwise(_DISTANCES))]
        part = np.searchsorted((0, *_DISTANCES), self.distances, side="right") - 1
        rows = []
        for number, label in enumerate([*labels, f"{_DISTANCES[-1]}-"]):
            chosen = np.flatnonzero(part == number)
            counts = self.evaluation.sentence_counts
            shares = {name: _share(lines[chosen].sum(axis=0)) for name, lines in counts.items()}
            rows.append({"distance": label, "lines": len(chosen), **shares})
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; a share of no lines is None."""
        names = ("language", "lines", "reference_lines")
        content: dict[str, Any] = {name: getattr(self, name) for name in names}
        for name, counts in self.evaluation.counts.items():
            sums = counts.sum(axis=0)
            content[name], content[f"{name}_lines"] = _share(sums), int(sums[1])
            if name in self.intervals:
                content[f"{name}_interval"] = list(self.intervals[name])
        return {**content, "reference_consistency": _share(self.reference), "by_distance": self.by_distance()}


def score_address(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    reference: Sequence[str],
    document_offsets: Sequence[int] | np.ndarray,
    *,
    language: str,
    source_language: str = "en",
) -> Address:
    """Compare the forms of address of a translation with a reference's, and with each other: S sentences each, in
    documents that begin at `document_offsets` (D+1,)."""
    rule, offsets = AddressRule(language), np.asarray(document_offsets, dtype=np.int64)
    addressed = list(map(second_person(source_language), sources))
    ours, theirs = (
        [rule.form(sentence) if speaks else None for speaks, sentence in zip(addressed, sentences, strict=True)]
        for sentences in (hypotheses, reference)
    )
    pairs = [[a is not None and a == b, a is not None and b is not None] for a, b in zip(ours, theirs, strict=True)]
    (consistency, distances), (of_reference, _) = _repeated(ours, offsets), _repeated(theirs, offsets)
    counts = {"agreement": np.array(pairs, dtype=np.float64).reshape(-1, 2), "consistency": consistency}
    sums = {name: sum_documents(lines, offsets) for name, lines in counts.items()}
    return Address(
        rule.language,
        sum(form is not None for form in ours),
        sum(form is not None for form in theirs),
        Evaluation(sums, dict.fromkeys(counts, _AddressShare(rule.language)), offsets, counts),
        of_reference.sum(axis=0),
        np.where([form is not None for form in ours], distances, -1),
    )


def address_doubt(
    sources: Sequence[str], reference: Sequence[str], language: str, source_language: str = "en"
) -> str | None:
    """What speaks against `language` being that of the reference, or that nothing is counted. The words of another
    language's rule must stand in at least twice as many of the lines that speak to somebody, and in ten at least, as
    rules share words (`te`, `tu`)."""
    speaks = second_person(source_language)
    lines = [text for source, text in zip(sources, reference, strict=True) if speaks(source)]
    counts = {name: sum(map(AddressRule(name).speaks, lines)) for name in ADDRESS_WORDS}
    wanted, likely = counts[address_language(language)], max(counts, key=lambda name: counts[name])
    if counts[likely] < max(2 * wanted, 10):
        return None if wanted else f"no line has words of address in '{language}' where its source speaks to somebody"
    return (
        f"{counts[likely]:,} of {len(lines):,} lines that speak to somebody have words of address in '{likely}', and "
        f"{wanted:,} in '{language}'; is the translation in '{likely}'?"
    )


def _repeated(forms: Sequence[Form | None], document_offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (S, 2) whether a line has the form of the one of address before it, and if there is one; its distance."""
    counts, distances = np.zeros((len(forms), 2)), np.zeros(len(forms), dtype=np.int64)
    for begin, end in pairwise(document_offsets.tolist()):
        lines = [number for number in range(begin, end) if forms[number] is not None]
        for last, number in pairwise(lines):
            counts[number] = forms[number] == forms[last], 1
            distances[number] = number - last
    return counts, distances


def _share(counts: np.ndarray) -> float | None:
    same, compared = counts.tolist()
    return 100 * same / compared if compared else None


# Lexical consistency (LTCR, Lyu et al. 2021): whether repeated terms of a document are translated in the same way.
# It is the share of agreeing translations among all pairs of a term's occurrences in different sentences of a document.
# Word translations are found by IBM model 1 (Brown et al. 1993), trained on the test's source and reference.


#: Number of initial letters by which two words count as forms of one: inflection mostly changes the end of a word.
_STEM = 5
#: Words of a line, at most: a longer one is no sentence, and each of its words might translate each of the other side.
_LONGEST = 256
_WORD = re.compile(r"[^\W\d_]+")

_Lexicon = dict[str, dict[str, float]]


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
    sources: Sequence[str], targets: Sequence[str], document_offsets: Sequence[int] | np.ndarray, lexicon: _Lexicon
) -> Consistency:
    """Measure how consistently `targets` translate the terms that documents repeat; the lexicon (`learn_lexicon`) is
    the same for all systems that are compared.

    A term is a word of at least four letters that occurs in two or more sentences of a document but in at most a tenth
    of the documents' sentences overall. An occurrence without an aligned word agrees with none."""
    lines = list(_sides(sources, targets))
    words, stems = [list(dict.fromkeys(line)) for line, _ in lines], [line for _, line in lines]
    frequent = Counter(chain.from_iterable(words))
    limit = max(3, len(sources) // 10)
    agreeing, pairs, terms, empty = 0, 0, set[str](), lexicon.get("", {})
    for first, last in pairwise(document_offsets):
        sentences_of = defaultdict(list)
        for sentence in range(first, last):
            for word in words[sentence]:
                sentences_of[word].append(sentence)
        for word, sentences in sentences_of.items():
            if len(sentences) < 2 or len(word) < 4 or frequent[word] > limit:
                continue
            terms.add(word)
            row = lexicon.get(word, {})
            translations = []  # of each occurrence the stem that most probably translates it, more than the empty word
            for sentence in sentences:
                likely = {s: p for s in stems[sentence] if (p := row.get(s, 0.0)) > empty.get(s, 0.0)}
                translations.append(max(likely.items(), key=itemgetter(1, 0), default=("", 0.0))[0])
            agreeing += sum(n * (n - 1) // 2 for stem, n in Counter(translations).items() if stem)
            pairs += len(sentences) * (len(sentences) - 1) // 2
    return Consistency(agreeing, pairs, len(terms))


def learn_lexicon(sources: Sequence[str], targets: Sequence[str], *, iterations: int = 5) -> _Lexicon:
    """Estimate p(target stem | source word) by expectation maximisation of IBM model 1, with an empty source word."""
    left: dict[str, int] = {"": 0}  # words with their numbers, in the order of their first occurrence
    right: dict[str, int] = {}
    lines = list(_sides(sources, targets))
    lengths = (max(map(len, pair)) for pair in zip(sources, targets, strict=True))
    if too_long := sum(line == ([], []) and length > _LONGEST for line, length in zip(lines, lengths, strict=True)):
        print(f"note: lexical consistency leaves out {too_long:,} lines of over {_LONGEST} words", file=sys.stderr)
    source = [np.array([0, *(left.setdefault(word, len(left)) for word in words)]) for words, _ in lines]
    target = [np.array([right.setdefault(stem, len(right)) for stem in stems], dtype=np.int64) for _, stems in lines]
    pairs = [np.tile(s, len(t)) * len(right) + np.repeat(t, len(s)) for s, t in zip(source, target, strict=True)]
    entries, pair = np.unique(np.concatenate(pairs), return_inverse=True)  # (E,) of the lexicon, (P,) which one
    word, stem = np.divmod(entries, len(right))  # (E,)
    candidates = np.repeat([len(s) for s in source], [len(t) for t in target])  # (T,) for every target word
    target_word = np.repeat(np.arange(len(candidates)), candidates)  # (P,) to be explained
    p = np.ones(len(entries))
    for _ in range(iterations):
        share = p[pair] / np.bincount(target_word, p[pair])[target_word]
        counts = np.bincount(pair, share)  # (E,) expected
        p = counts / np.bincount(word, counts)[word]
    words, stems = list(left), list(right)
    lexicon: _Lexicon = {name: {} for name in words}
    for w, t, value in zip(word.tolist(), stem.tolist(), p.tolist(), strict=True):
        lexicon[words[w]][stems[t]] = value
    return lexicon


def _sides(sources: Sequence[str], targets: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words of each source and the stems of its target; none of lines that are too long to align."""
    for source, target in zip(sources, targets, strict=True):
        words, stems = _words(source), [word[:_STEM] for word in _words(target)]
        yield (words, stems) if max(len(words), len(stems)) <= _LONGEST else ([], [])


def _words(sentence: str) -> list[str]:
    return _WORD.findall(sentence.lower())
