"""Excerpts: documents of selected sentences, as a model reads them, or without one of the sentences."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.store import TextArray, offsets_of
from docnmt.core.formats.structure import renumber


@dataclass(frozen=True)
class Excerpt:
    """A document of selected sentences of a corpus.

    Attributes:
        sentences: their numbers in the corpus, in order. scored: those whose translations are scored.
    """

    sentences: tuple[int, ...]
    scored: frozenset[int]

    def without(self, sentence: int, scored: Collection[int]) -> Excerpt:
        """Return the excerpt without one sentence; only sentences in `scored` are scored."""
        return Excerpt(tuple(n for n in self.sentences if n != sentence), self.scored & frozenset(scored))


def excerpts(
    corpus: ParallelCorpus, given: Collection[int], wanted: Collection[int], *, given_text: bool, window: int | None
) -> list[Excerpt]:
    """Return the documents that contain `wanted` sentences, as search reads them.

    Args:
        given_text: each sentence is read with the given translations only: it comes after them in
            a document of its own, because positions of such models do not leave the sentence.
        window: the largest distance of such translations from the sentence; other documents stay whole.
    """
    documents = [range(*pair) for pair in pairwise(corpus.document_offsets.tolist())]
    if not given_text:
        found = [Excerpt(tuple(document), frozenset(document) & frozenset(wanted)) for document in documents]
        return [each for each in found if each.scored]
    reach = corpus.num_sentences if window is None else window
    return [
        Excerpt((*(m for m in document if m in given and 0 < abs(m - n) <= reach), n), frozenset([n]))
        for document in documents
        for n in document
        if n in wanted
    ]


def taken(corpus: ParallelCorpus, chosen: Sequence[Excerpt]) -> tuple[ParallelCorpus, np.ndarray]:
    """Return a corpus of these documents, and for each of its sentences its number in `corpus`, without raw text."""
    assert corpus.target is not None
    numbers = np.array([n for each in chosen for n in each.sentences], dtype=np.int64)
    offsets = offsets_of(np.array([len(each.sentences) for each in chosen], dtype=np.int64))
    excerpt = replace(
        corpus,
        document_offsets=offsets,
        levels=renumber(corpus.levels[numbers], offsets),
        source=corpus.source.take(numbers),
        target=corpus.target.take(numbers),
        source_text=TextArray.from_lines([]),
        references=[],
        labels=None,
        document_names=None,
    )
    return excerpt, numbers
