"""The units of a corpus that a reading plan asks for, and what search writes of them."""

from __future__ import annotations

import numpy as np

from docnmt.core.batching.collate import read_sentences, sentence_costs
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.store import offsets_of, ranges
from docnmt.core.reading import ReadingPlan
from docnmt.core.units import Units, context_units, cut_units, document_units, last_units, window_units


def planned_units(
    plan: ReadingPlan, corpus: ParallelCorpus, *, limit: int | None = None, window: int | None = None
) -> Units:
    """Every sentence of the corpus, in the units of the plan.

    Args:
        limit: a plan of whole documents cuts them at so many subwords.
        window: a sentence is read with at most so many others before it and after it (`ReadingPlan.within`).
    """
    offsets, narrow = corpus.document_offsets, plan.within(window)
    if narrow.written is None:
        units = document_units(offsets)
    else:
        units = window_units(offsets, narrow.written, narrow.earlier, narrow.stride)
    if limit is not None and plan.whole_documents:
        units = cut_units(units, sentence_costs(corpus), limit)
    return units if narrow.around is None else context_units(units, narrow.around)


def learned_units(units: Units, corpus: ParallelCorpus) -> Units:
    """The units in which a sentence with a translation counts: there is nothing to learn of others."""
    partners = corpus.has_partner(np.arange(corpus.num_sentences))
    if partners.all():
        return units
    total = offsets_of(partners)
    return units[np.flatnonzero(total[units.last] > total[units.kept])]


def last_sentence_units(
    plan: ReadingPlan, corpus: ParallelCorpus, *, limit: int | None = None, window: int | None = None
) -> Units:
    """One unit a document: its last sentence, with as much before it as the plan reads at once.

    Args:
        limit: a plan of whole documents reads at most so many subwords of the source.
        window: at most so many sentences before it; their positions stay as they are.
    """
    first, last = corpus.document_offsets[:-1], corpus.document_offsets[1:]
    narrow = plan.within(window)
    if not plan.whole_documents:
        assert narrow.written is not None
        return last_units(first, last, narrow.written, narrow.earlier)
    fits = last - first
    if limit is not None:  # by the source alone, as in translation; variants must be judged in the same context
        total = offsets_of(corpus.source.lengths() + 1)
        fits = np.maximum(last - np.searchsorted(total, total[last] - limit), 1)
    return last_units(first, last, fits if window is None else np.minimum(fits, window + 1), 0)


def searched_texts(plan: ReadingPlan, units: Units, sentences: int) -> np.ndarray:
    """(W, 2) of the texts that search writes one by one, joined units or else all `sentences` of the corpus: the first
    sentence, and the first whose translation is kept."""
    if plan.joined:
        return np.stack([units.first, units.kept], axis=1)
    return np.repeat(np.arange(sentences)[:, None], 2, axis=1)


def memory_sentences(plan: ReadingPlan, units: Units, chosen: np.ndarray) -> np.ndarray:
    """For each text that the units `chosen` write, which "sentence" of their packed source it translates."""
    if plan.joined:
        return np.arange(len(chosen))
    reads = (units.source_last - units.source_first)[chosen]
    begins = np.cumsum(reads) - reads - units.source_first[chosen]
    return ranges(begins + units.first[chosen], begins + units.last[chosen])


def sentences_read(units: Units, chosen: np.ndarray, before: int) -> dict[int, int]:
    """For each sentence that the units `chosen` read, which "sentence" it is of their packed source behind `before`
    others; where several units read it, in the one that writes it, if there is one."""
    sentences, written = read_sentences(units, chosen)
    places = before + np.arange(len(sentences))
    order = np.argsort(written, kind="stable")
    return dict(zip(sentences[order].tolist(), places[order].tolist(), strict=True))
