"""Translation memories: sentence pairs of other documents that resemble a document and are read before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from docnmt.core.corpus import ParallelCorpus, TextArray, TokenArray, offsets_of
from docnmt.runtime.system import UserError

#: Sentences are compared by runs of up to this many subwords.
_RUN = 2
#: A run that occurs in more than this share of the memory's sentences is not looked up.
_FREQUENT = 0.05


@dataclass(frozen=True, eq=False)
class TranslationMemory:
    """Finds the memory's source sentences that share the rarest runs of subwords, by cosine of tf-idf vectors."""

    corpus: ParallelCorpus  # with references
    count: int = 2  # sentences read for each sentence of a document
    foreign: bool = False  # give each document the sentences found for the next one, as a control experiment

    @cached_property
    def _index(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Runs (K,), begins of their entries (K+1,), and sentence and weight of each entry."""
        runs, sentences = _runs(self.corpus.source)
        paired = self.corpus.has_partner(sentences)
        runs, sentences = runs[paired], sentences[paired]
        order = np.lexsort((sentences, runs))
        runs, sentences = runs[order], sentences[order]
        first = np.flatnonzero(np.r_[True, (np.diff(runs) != 0) | (np.diff(sentences) != 0)][: len(runs)])
        count = np.diff(np.r_[first, len(runs)])  # how often the sentence has the run
        runs, sentences = runs[first], sentences[first]
        keys, begins, entries = np.unique(runs, return_index=True, return_counts=True)
        idf = np.log1p(len(self.corpus.source) / entries)
        weights = (1 + np.log(count)) * np.repeat(idf, entries)
        norms = np.sqrt(np.bincount(sentences, weights**2, minlength=len(self.corpus.source)))
        weights *= np.repeat(idf, entries) / np.maximum(norms[sentences], 1e-12)
        return keys, np.r_[begins, len(runs)], sentences, weights

    def similar(self, tokens: np.ndarray) -> list[int]:
        """The `count` most similar sentences, best first, ties in order; fewer if few share a run."""
        keys, begins, sentences, weights = self._index
        if not len(keys):  # no sentence of the memory has a translation
            return []
        wanted = np.unique(_runs(TokenArray(tokens, np.array([0, len(tokens)])))[0])
        shared = np.searchsorted(keys, wanted)
        shared = shared[(shared < len(keys)) & (keys[np.minimum(shared, len(keys) - 1)] == wanted)]
        sizes = begins[shared + 1] - begins[shared]
        shared = shared[sizes <= max(_FREQUENT * len(self.corpus.source), 10)]
        if not len(shared):
            return []
        entries = np.concatenate([np.arange(begins[run], begins[run + 1]) for run in shared])
        sharing, where = np.unique(sentences[entries], return_inverse=True)
        best = np.lexsort((sharing, -np.bincount(where, weights[entries])))[: self.count]
        return [int(sentence) for sentence in sharing[best]]


def _runs(text: TokenArray) -> tuple[np.ndarray, np.ndarray]:
    """Subwords and runs of `_RUN` subwords as numbers, and the sentence of each."""
    tokens, lengths = np.asarray(text.tokens).astype(np.int64), np.diff(np.asarray(text.offsets))
    sentences = np.repeat(np.arange(len(lengths)), lengths)
    together = sentences[1:] == sentences[:-1]
    pairs = ((tokens[:-1] + 1) << 32) + tokens[1:]
    return np.r_[tokens, pairs[together]], np.r_[sentences, sentences[1:][together]]


def streams_of(numbers: np.ndarray) -> np.ndarray:
    """The random stream (S,) of each sentence: its number, or for a memory's (-1) the next one after it."""
    later = np.where(numbers < 0, np.iinfo(np.int64).max, numbers)
    return np.asarray(np.minimum.accumulate(later[::-1])[::-1])


def with_memory(
    corpus: ParallelCorpus, given: Sequence[str | None] | None, memory: TranslationMemory
) -> tuple[ParallelCorpus, list[str | None], np.ndarray]:
    """The corpus with the memory's similar sentences before each document, their translations as given; and for each
    sentence of it its number in `corpus`, or -1. References and raw text are left out.

    Each is inserted once per document; the most similar ones come last, nearest to the document.
    """
    translations = memory.corpus.references[0]
    documents = list(pairwise(corpus.document_offsets.tolist()))
    if memory.foreign and len(documents) == 1:
        raise UserError("--memory-context foreign: there is only one document; give several, --input-format corpus")
    numbers: list[int] = []
    tokens: list[np.ndarray] = []
    known: list[str | None] = []
    lengths = []
    for document, (begin, end) in enumerate(documents):
        asked = range(*documents[(document + memory.foreign) % len(documents)])
        ranked = [memory.similar(corpus.source[n]) for n in asked]
        best_first = (similar[rank] for rank in range(memory.count) for similar in ranked if rank < len(similar))
        before = list(dict.fromkeys(best_first))[::-1]
        numbers += [-1] * len(before) + list(range(begin, end))
        tokens += [memory.corpus.source[n] for n in before] + [corpus.source[n] for n in range(begin, end)]
        known += [translations[n] for n in before]
        known += [None] * (end - begin) if given is None else given[begin:end]
        lengths.append(len(before) + end - begin)
    rows = np.array(numbers, dtype=np.int64)
    longer = replace(
        corpus,
        document_offsets=offsets_of(np.array(lengths, dtype=np.int64)),
        levels=np.where(rows[:, None] < 0, -1, corpus.levels[rows]).astype(corpus.levels.dtype),
        source=TokenArray(
            np.concatenate([corpus.source.tokens[:0], *tokens]), offsets_of(np.array(list(map(len, tokens))))
        ),
        target=None,
        source_text=TextArray.from_lines([]),
        references=[],
    )
    return longer, known, rows
