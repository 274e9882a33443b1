"""Documents of chosen sentences: a translation's document as the model reads it, or without one of its sentences."""

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
    """A document made of sentences of a corpus.

    Attributes:
        sentences: their numbers in the corpus, in order. scored: those of them whose translations are asked about.
    """

    sentences: tuple[int, ...]
    scored: frozenset[int]

    def without(self, sentence: int, scored: Collection[int]) -> Excerpt:
        """The same without one, asked about `scored` only."""
        return Excerpt(tuple(n for n in self.sentences if n != sentence), self.scored & frozenset(scored))


def excerpts(
    corpus: ParallelCorpus, given: Collection[int], wanted: Collection[int], *, given_text: bool, window: int | None
) -> list[Excerpt]:
    """The documents that have `wanted` sentences, as search reads them.

    Args:
        given_text: each sentence is read with the translations that are given, and no others: it stands behind them in
            a document of its own, as positions of such models do not leave the sentence.
        window: how far from the sentence such translations may stand; other documents stay whole.
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
    """A corpus of these documents, and for each of its sentences its number in `corpus`. Raw text is left behind."""
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
