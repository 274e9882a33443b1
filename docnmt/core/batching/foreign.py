"""A control experiment: sentences in foreign documents, so that a model's context does not belong to what it writes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from docnmt.core.corpus import ParallelCorpus, TextArray

#: The seed of the order of sentences, the same in every run.
SEED = 1


def foreign_order(document_offsets: np.ndarray, seed: int = SEED) -> np.ndarray:
    """Return the sentence (S,) at each place after sentences are exchanged across documents.

    Documents keep their lengths in sentences. A sentence keeps about its distance from the beginning of its document:
    its own one's: first sentences stay first, the others move by a factor below 2, drawn from `seed` alone.
    """
    offsets = np.asarray(document_offsets, dtype=np.int64)
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets)) + 1  # each one's in its document, from 1
    noisy = place * (1 + np.random.default_rng(seed).random(len(place)))
    order = np.empty_like(place)
    order[np.argsort(place, kind="stable")] = np.argsort(noisy)
    return order


def in_foreign_documents(corpus: ParallelCorpus) -> ParallelCorpus:
    """Reorder the subwords of both sides and the references by `foreign_order`; structure and source text stay."""
    order = foreign_order(corpus.document_offsets)
    target = None if corpus.target is None else corpus.target.take(order)
    references = [TextArray.from_lines(each[n] for n in order) for each in corpus.references]
    return replace(corpus, source=corpus.source.take(order), target=target, references=references)
