"""A translation memory: sentence pairs of other documents that resemble those of a document, read before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from docnmt.data.corpus import ParallelCorpus
from docnmt.data.store import TextArray, TokenArray, offsets_of

#: Runs of so many subwords tell what a sentence is about.
_RUN = 2
#: A run that more than this share of the memory has says nothing and is not looked up.
_FREQUENT = 0.05


@dataclass(frozen=True, eq=False)
class TranslationMemory:
    """Finds the source sentences that share the rarest runs of subwords, by the cosine of their tf-idf vectors."""

    corpus: ParallelCorpus

    @cached_property
    def _index(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Runs (K,), where the entries of each begin (K+1,), the sentence and the weight of each entry."""
        runs, sentences = _runs(self.corpus.source)
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

    def similar(self, tokens: np.ndarray, count: int) -> list[int]:
        """The most similar sentences of the memory, best first, of equals the earlier; fewer if few share runs."""
        keys, begins, sentences, weights = self._index
        wanted = np.unique(_runs(TokenArray(tokens, np.array([0, len(tokens)])))[0])
        place = np.searchsorted(keys, wanted)
        place = place[(place < len(keys)) & (keys[np.minimum(place, len(keys) - 1)] == wanted)]
        sizes = begins[place + 1] - begins[place]
        place = place[sizes <= max(_FREQUENT * len(self.corpus.source), 10)]
        if not len(place):
            return []
        entries = np.concatenate([np.arange(begins[p], begins[p + 1]) for p in place])
        found, where = np.unique(sentences[entries], return_inverse=True)
        scores = np.bincount(where, weights[entries])
        best = np.lexsort((found, -scores))[:count]
        return [int(n) for n in found[best]]


def _runs(text: TokenArray) -> tuple[np.ndarray, np.ndarray]:
    """Subwords and runs of `_RUN` of them as numbers, and the sentence of each."""
    tokens, lengths = np.asarray(text.tokens).astype(np.int64), np.diff(np.asarray(text.offsets))
    sentences = np.repeat(np.arange(len(lengths)), lengths)
    together = sentences[1:] == sentences[:-1]
    pairs = ((tokens[:-1] + 1) << 32) + tokens[1:]
    return np.r_[tokens, pairs[together]], np.r_[sentences, sentences[1:][together]]


def with_memory(
    corpus: ParallelCorpus,
    given: Sequence[str | None] | None,
    memory: TranslationMemory,
    count: int,
    *,
    foreign: bool = False,
) -> tuple[ParallelCorpus, list[str | None]]:
    """The corpus with similar sentences of the memory before each document, and their translations as given.

    Args:
        given: the translations that are given in the corpus itself.
        count: sentences for each sentence of a document; those that several have in common are there once, the most
            similar ones last, nearest to the document.
        foreign: a document gets what resembles the sentences of the next one.
    """
    other, translations = memory.corpus, memory.corpus.references[0]
    order: list[int] = []  # sentences of the memory are numbered from corpus.num_sentences
    lengths: list[int] = []
    told: list[str | None] = []
    documents = list(pairwise(corpus.document_offsets.tolist()))
    for number, (begin, end) in enumerate(documents):
        asked = range(*documents[(number + foreign) % len(documents)])
        ranked = [memory.similar(corpus.source[n], count) for n in asked]
        found = dict.fromkeys(each[rank] for rank in range(count) for each in ranked if rank < len(each))
        before = list(found)[::-1]
        order += [corpus.num_sentences + n for n in before] + list(range(begin, end))
        told += [translations[n] for n in before]
        told += [None] * (end - begin) if given is None else given[begin:end]
        lengths.append(len(before) + end - begin)
    rows = np.array(order, dtype=np.int64)
    levels = np.full((corpus.num_sentences + other.num_sentences, corpus.levels.shape[1]), -1, dtype=np.int32)
    levels[: corpus.num_sentences] = corpus.levels
    texts = [
        corpus.source_text[n] if n < corpus.num_sentences else other.source_text[n - corpus.num_sentences]
        for n in order
    ]
    tokens = [corpus.source[n] if n < corpus.num_sentences else other.source[n - corpus.num_sentences] for n in order]
    joined = replace(
        corpus,
        document_offsets=offsets_of(np.array(lengths, dtype=np.int64)),
        levels=levels[rows],
        source=TokenArray(
            np.concatenate([corpus.source.tokens[:0], *tokens]), offsets_of(np.array([len(t) for t in tokens]))
        ),
        target=None,
        source_text=TextArray.from_lines(texts),
        references=[_spread(reference, rows, corpus.num_sentences) for reference in corpus.references],
        labels=None,
    )
    return joined, told


def _spread(reference: TextArray, rows: np.ndarray, own: int) -> TextArray:
    """A reference in the places of its sentences; nothing in those of the memory."""
    return TextArray.from_lines(reference[int(n)] if n < own else "" for n in rows)
