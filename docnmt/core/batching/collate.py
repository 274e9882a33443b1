"""Collation: ranges of sentences become the packed tensors that a model reads."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from docnmt.core.batch import IGNORE, PackedText, TranslationBatch
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.store import TokenArray, offsets_of, ranges
from docnmt.core.data.tokenizer import BOS, BRK, EOS
from docnmt.core.reading import ReadingPlan
from docnmt.core.units import Units
from docnmt.layout import DocumentLayout


def collate(corpus: ParallelCorpus, units: Units, chosen: np.ndarray, plan: ReadingPlan) -> TranslationBatch:
    """Collate the units `chosen` (U,) of a plan, in that order, to a training batch.

    The target of a sentence without a translation is its first token, without a label, so nothing is learned from it.
    Sentences before `units.kept` have no label either.

    Raises:
        ValueError: the corpus has no target side.
    """
    if corpus.target is None:
        raise ValueError("a training batch needs a target side, and this corpus has none")
    target, labels = (_joined_target if plan.joined else _target)(corpus, corpus.target, units, chosen, plan)
    return TranslationBatch(
        source=collate_source(corpus, units, chosen, plan),
        target=target,
        labels=labels,
        units=torch.from_numpy(np.asarray(chosen, dtype=np.int64)),
    )


def _joined_target(
    corpus: ParallelCorpus, side: TokenArray, units: Units, chosen: np.ndarray, plan: ReadingPlan
) -> tuple[PackedText, Tensor]:
    """Return the target side of joined units, one sequence each, and its labels (T,)."""
    first, last = units.first[chosen], units.last[chosen]
    sentences, layout = ranges(first, last), offsets_of(last - first)
    structure = structure_positions(corpus, sentences, count=plan.positions)
    packed = partial(pack_joined, side, sentences, layout, structure, running=plan.positions == "sequence")
    lengths = side.offsets[sentences + 1] - side.offsets[sentences] + 1
    learned = torch.from_numpy(np.repeat(_counted(corpus, units.kept[chosen], sentences, layout), lengths))
    return packed(begin=True), packed(begin=False).tokens.masked_fill(~learned, IGNORE)


def _target(
    corpus: ParallelCorpus, side: TokenArray, units: Units, chosen: np.ndarray, plan: ReadingPlan
) -> tuple[PackedText, Tensor]:
    """Return a target sentence for each sentence read, and labels (T,) for those written.

    The others have no tokens or, if the model reads its own text, tokens without labels.
    """
    sentences, written = read_sentences(units, chosen)
    layout = offsets_of((units.source_last - units.source_first)[chosen])
    structure = structure_positions(corpus, sentences, count=plan.positions)
    packed = partial(pack, side, sentences, layout, structure, empty=None if plan.reads_translations else ~written)
    target, labels = packed(begin=True), packed(begin=False).tokens
    learned = written & _counted(corpus, units.kept[chosen], sentences, layout)
    return target, labels.masked_fill(~torch.from_numpy(learned)[target.layout.sentence_of_token], IGNORE)


def _counted(corpus: ParallelCorpus, kept: np.ndarray, sentences: np.ndarray, layout: np.ndarray) -> np.ndarray:
    """Return a mask (S,) of sentences with a translation, at or after their unit's `kept` (U,); `layout` (U+1,)."""
    return np.asarray(corpus.has_partner(sentences) & (sentences >= np.repeat(kept, np.diff(layout))))


def collate_source(corpus: ParallelCorpus, units: Units, chosen: np.ndarray, plan: ReadingPlan) -> PackedText:
    """Pack the source side of the units `chosen` of a plan, which search encodes."""
    first, last = units.source_first[chosen], units.source_last[chosen]
    sentences, layout = ranges(first, last), offsets_of(last - first)  # (S,) of the corpus; (U+1,)
    structure = structure_positions(corpus, sentences, count=plan.positions)
    if not plan.joined:
        return pack(corpus.source, sentences, layout, structure, begin=False)
    running = plan.positions == "sequence"
    options = {"running": running, "breaks": plan.source_breaks}
    source = pack_joined(corpus.source, sentences, layout, structure, begin=False, **options)
    written = (units.last - units.first)[chosen]
    ends = layout[1:] - 1
    place = ends[:, None] - np.maximum(written[:, None] - 1 - np.arange(written.max(initial=1)), 0)  # (U, n)
    return replace(source, begins=torch.from_numpy(structure[place]))


def read_sentences(units: Units, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the source sentences (S,) that the units `chosen` read, and a mask (S,) of those they also write."""
    lengths = (units.source_last - units.source_first)[chosen]
    sentences = ranges(units.source_first[chosen], units.source_last[chosen])
    first, last = (np.repeat(each[chosen], lengths) for each in (units.first, units.last))
    return sentences, (first <= sentences) & (sentences < last)


def pack(
    side: TokenArray, sentences: np.ndarray, documents: np.ndarray, structure: np.ndarray,
    *, begin: bool, empty: np.ndarray | None = None,
) -> PackedText:  # fmt: skip
    """Pack sentences of one side in one row, each followed by `</s>` or, with `begin`, preceded by `<s>` instead.

    Args:
        sentences: (S,) numbers in the corpus. documents: (D+1,) offsets into them.
        structure: (S, 4) positions of each sentence's first token; the word index is counted from there.
        empty: (S,) True for sentences whose tokens are left out; None: none.
    """
    full = slice(None) if empty is None else ~empty
    first, last = np.asarray(side.offsets[sentences])[full], np.asarray(side.offsets[sentences + 1])[full]
    lengths = np.zeros_like(sentences)
    lengths[full] = last - first + 1
    offsets = offsets_of(lengths)
    tokens = np.full(int(offsets[-1]), BOS if begin else EOS, dtype=np.int64)
    words = np.ones(len(tokens), dtype=bool)
    words[(offsets[:-1] if begin else offsets[1:] - 1)[full]] = False
    tokens[words] = side.at(ranges(first, last))
    positions = np.repeat(structure, lengths, axis=0)
    positions[:, 0] += np.arange(len(tokens)) - np.repeat(offsets[:-1], lengths)
    layout = DocumentLayout(torch.from_numpy(offsets), torch.from_numpy(documents))
    return PackedText(torch.from_numpy(tokens), layout, torch.from_numpy(positions))


def pack_joined(
    side: TokenArray, sentences: np.ndarray, documents: np.ndarray, structure: np.ndarray,
    *, begin: bool, running: bool, breaks: bool = True,
) -> PackedText:  # fmt: skip
    """Pack like `pack`, but each document as one sequence: `<brk>` begins or ends a sentence inside it, and positions
    still say which sentence a token is in.

    Args:
        running: if true, the word index counts along the sequence.
        breaks: if false, `<brk>` is left out.
    """
    text = pack(side, sentences, documents, structure, begin=begin)
    tokens, positions, offsets = text.tokens, text.positions, text.layout.sentence_offsets
    inner = torch.ones(len(sentences), dtype=torch.bool)
    inner[torch.from_numpy(documents[:-1] if begin else documents[1:] - 1)] = False  # the ends of the sequence
    tokens[(offsets[:-1] if begin else offsets[1:] - 1)[inner]] = BRK
    starts = offsets[text.layout.document_offsets]
    if not breaks:
        kept = tokens != BRK
        tokens, positions = tokens[kept], positions[kept]
        starts = starts - torch.nn.functional.pad((~kept).cumsum(0), (1, 0))[starts]
    layout = DocumentLayout(starts, torch.arange(len(documents)))
    if running:
        starts = layout.sentence_offsets[:-1].index_select(0, layout.sentence_of_token)
        positions[:, 0] = torch.arange(layout.num_tokens) - starts
    return PackedText(tokens, layout, positions)


def structure_positions(corpus: ParallelCorpus, sentences: np.ndarray, *, count: str) -> np.ndarray:
    """Return the word, sentence, paragraph and section index (S, 4) of the first token of each sentence, int64.

    `count="unit"`: each index counts inside its parent unit (the default); `"document"`: each counts from the
    document's start; `"mixed"`: so does the word's, the others inside their parent unit (PE135,4,2 of Trankova and
    Rykunov, section 1.2); `"sequence"`: as `"unit"`, for joined units whose word index `pack_joined` sets. A target
    sentence takes its source line's, the word index included.
    An unknown level is -1. Cutting a document changes no position.
    """
    offsets = corpus.document_offsets
    document = np.searchsorted(offsets, sentences, side="right") - 1
    begin = offsets[document]
    positions = np.full((len(sentences), 4), -1, dtype=np.int64)
    positions[:, 1] = sentences - begin
    positions[:, 0] = 0
    if count in ("document", "mixed"):
        positions[:, 0] = corpus.source.offsets[sentences] - corpus.source.offsets[begin] + positions[:, 1]
    if corpus.levels.shape[1]:
        documents, number = np.unique(document, return_inverse=True)
        segments = offsets_of(offsets[documents + 1] - offsets[documents])
        levels = corpus.levels[ranges(offsets[documents], offsets[documents + 1])]
        _set_levels(positions, levels, segments, segments[number] + positions[:, 1], counts=count == "document")
    return positions


def _set_levels(
    positions: np.ndarray, levels: np.ndarray, segments: np.ndarray, place: np.ndarray, *, counts: bool
) -> None:
    """Set the index of the sentence, the paragraph and the section in positions (S, 4).

    Args:
        levels: (N, K) of all sentences of some documents, outermost first; the last two are used.
        segments: (D+1,) where each document begins. place: (S,) where the sentences of `positions` are.
        counts: from the document's start, not inside the parent unit.
    """
    begins = np.zeros(len(levels), dtype=bool)
    begins[segments[:-1]] = True
    new = np.zeros(len(levels), dtype=bool)  # True where a unit of this level, or of one above, begins inside
    known = levels.shape[1]
    for depth in range(known):
        level = levels[:, depth]
        new[1:] |= (np.diff(level) != 0) & ~begins[1:]
        column = 2 + known - 1 - depth  # paragraph 2, section 3; units around sections have no column
        if column <= 3 and counts:
            unknown = np.logical_and.reduceat(level < 0, segments[:-1])  # only other documents have this level
            number = np.cumsum(new)
            number -= np.repeat(number[segments[:-1]], np.diff(segments))
            level = np.where(np.repeat(unknown, np.diff(segments)), level, number)
        if column <= 3:
            positions[:, column] = level[place]
    if not counts:
        starts = np.maximum.accumulate(np.where(new | begins, np.arange(len(levels)), 0))
        positions[:, 1] = place - starts[place]


def sentence_costs(corpus: ParallelCorpus) -> np.ndarray:
    """Return the number of subwords (S,) of each sentence's longer side with `</s>`, which `--max-tokens` bounds."""
    source = np.diff(corpus.source.offsets)
    if corpus.target is None:
        return np.asarray(source + 1)
    return np.asarray(np.maximum(source, np.diff(corpus.target.offsets)) + 1)


def unit_sizes(corpus: ParallelCorpus, units: Units, plan: ReadingPlan) -> np.ndarray:
    """Return max(source, target) subwords (U,) of each unit, the end of every sentence included; sentences that are
    only read count, too."""
    source = source_costs(corpus, units)
    if corpus.target is None:
        return source
    reads = (units.source_first, units.source_last) if plan.reads_translations else (units.first, units.last)
    return np.asarray(np.maximum(source, _costs(corpus.target, *reads)))


def source_costs(corpus: ParallelCorpus, units: Units) -> np.ndarray:
    """Return the source subwords (U,) that each unit reads, the end of every sentence included."""
    return _costs(corpus.source, units.source_first, units.source_last)


def _costs(side: TokenArray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    offsets = np.asarray(side.offsets)
    return np.asarray(offsets[last] - offsets[first] + last - first)
