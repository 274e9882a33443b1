"""The units that a reading plan makes of a corpus, and the texts that search writes for them."""

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
    """Return the units of the plan, which contain every sentence of the corpus.

    Args:
        limit: the most subwords of a document; a plan of whole documents cuts longer ones.
        window: the most sentences read before and after a sentence (`ReadingPlan.within`).
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
    """Return the units with at least one sentence whose translation counts in the loss."""
    partners = corpus.has_partner(np.arange(corpus.num_sentences))
    if partners.all():
        return units
    total = offsets_of(partners)
    return units[np.flatnonzero(total[units.last] > total[units.kept])]


def last_sentence_units(
    plan: ReadingPlan, corpus: ParallelCorpus, *, limit: int | None = None, window: int | None = None
) -> Units:
    """Return one unit per document: its last sentence, with as much before it as the plan reads at once.

    Args:
        limit: the most source subwords that a plan of whole documents reads.
        window: the most sentences read before the last; their positions do not change.
    """
    first, last = corpus.document_offsets[:-1], corpus.document_offsets[1:]
    narrow = plan.within(window)
    if not plan.whole_documents:
        assert narrow.written is not None
        return last_units(first, last, narrow.written, narrow.earlier)
    fits = last - first
    if limit is not None:  # by the source alone, as in translation; variants must be compared in the same context
        total = offsets_of(corpus.source.lengths() + 1)
        fits = np.maximum(last - np.searchsorted(total, total[last] - limit), 1)
    return last_units(first, last, fits if window is None else np.minimum(fits, window + 1), 0)


def searched_texts(plan: ReadingPlan, units: Units, sentences: int) -> np.ndarray:
    """Return the texts (W, 2) that search writes one by one, joined units or else all `sentences` of the corpus: the
    first sentence of each, and the first whose translation is kept."""
    if plan.joined:
        return np.stack([units.first, units.kept], axis=1)
    return np.repeat(np.arange(sentences)[:, None], 2, axis=1)


def memory_sentences(plan: ReadingPlan, units: Units, chosen: np.ndarray) -> np.ndarray:
    """Return, for each text that the units `chosen` write, the "sentence" of their packed source that it translates."""
    if plan.joined:
        return np.arange(len(chosen))
    reads = (units.source_last - units.source_first)[chosen]
    begins = np.cumsum(reads) - reads - units.source_first[chosen]
    return ranges(begins + units.first[chosen], begins + units.last[chosen])


def sentences_read(units: Units, chosen: np.ndarray, before: int) -> dict[int, int]:
    """Map each sentence that the units `chosen` read to its "sentence" in their packed source, counted after `before`
    others; if several units read it, to the one in the unit that writes it, if there is one."""
    sentences, written = read_sentences(units, chosen)
    places = before + np.arange(len(sentences))
    order = np.argsort(written, kind="stable")
    return dict(zip(sentences[order].tolist(), places[order].tolist(), strict=True))
