"""Units → batches, in four steps: units of a plan, their sizes, groups of similar size, packed text of each group.
corpus + `ReadingPlan` → `planned_units` → `unit_sizes` → `plan_batches` → `collate` → `TranslationBatch` → hidden words
A `TranslationBatch` has a `PackedText` of source and of target: tokens with the layout that models read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from docnmt.core.corpus import ParallelCorpus, TokenArray, offsets_of, ranges
from docnmt.core.subword_sampling import uniform
from docnmt.core.tokenizer import BOS, BRK, EOS, MASK
from docnmt.core.units import ReadingPlan, Units, context_units, cut_units, document_units, last_units, window_units
from docnmt.layout import DocumentLayout
from docnmt.runtime.device import to_device

# 1. The units that a reading plan makes of a corpus.


def planned_units(
    plan: ReadingPlan, corpus: ParallelCorpus, *, limit: int | None = None, window: int | None = None
) -> Units:
    """Return the units of the plan, which contain every sentence of the corpus. A plan of whole documents cuts those of
    more than `limit` subwords; `window` is the most sentences read before and after one (`ReadingPlan.within`)."""
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
    """Return one unit per document: its last sentence, with as much before it as the plan reads at once, at most
    `limit` source subwords of a plan of whole documents and `window` sentences; positions do not change."""
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


# 2. The sizes of units, in subwords.


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


# 3. The division of units into batches: a pure function of sizes, limits and (seed, epoch).


#: Units are sorted by size · (1 + NOISE · u), u uniform in [0, 1): those of a batch have similar, not equal size.
NOISE = 0.25


def plan_batches(
    sizes: np.ndarray, max_tokens: int, *, seed: int, epoch: int, shuffle: bool = True, max_units: int | None = None
) -> list[np.ndarray]:
    """Divide units of these sizes (U,) into batches of at most `max_tokens` and `max_units`: of each, the int64 numbers
    of its units. Every unit is in exactly one; one larger than `max_tokens` is a batch of its own.

    With `shuffle`, batches combine units of similar size at random and come in random order, both drawn from (seed,
    epoch) alone; without, units keep their order."""
    sizes = np.asarray(sizes)
    if sizes.ndim != 1 or (len(sizes) and (not np.issubdtype(sizes.dtype, np.integer) or sizes.min() < 0)):
        raise ValueError(f"sizes: expected a vector of whole numbers ≥ 0, got {sizes.dtype} of shape {sizes.shape}")
    if len(sizes) == 0:
        return []
    rng = np.random.default_rng([seed, epoch])
    order = np.arange(len(sizes))
    if shuffle:
        noisy = sizes * (1 + np.float32(NOISE) * rng.random(len(sizes), dtype=np.float32))
        order = np.argsort(noisy + rng.random(len(sizes), dtype=np.float32))  # equal sizes, size 0 too, are mixed
    ends = np.cumsum(sizes[order].astype(np.int64))
    following = np.searchsorted(ends, np.append(0, ends[:-1]) + max_tokens, side="right")  # the first that does not fit
    following = np.maximum(following, np.arange(1, len(sizes) + 1))
    if max_units is not None:
        following = np.minimum(following, np.arange(len(sizes)) + max_units)
    borders = [0]  # begin of each batch, and the end of the last: they are filled greedily in this order
    while borders[-1] < len(sizes):
        borders.append(int(following[borders[-1]]))
    batches = np.split(order.astype(np.int64), borders[1:-1])
    return [batches[i] for i in rng.permutation(len(batches))] if shuffle else batches


# 4. Packed text, which models read, and batches of it.


#: The label that no loss counts.
IGNORE = -100


@dataclass(frozen=True, eq=False)
class PackedText:
    """Several documents concatenated to one sequence of tokens."""

    tokens: Tensor  # (T,) int64
    layout: DocumentLayout  # the spans that attention sees: sentences, or units of several written as one sequence
    positions: Tensor  # (T, 4) int64, the index of each token's word, sentence, paragraph, section; -1: unknown
    # of a source with a row for each unit: (S, n, 4) positions of the first tokens of the n target sentences of row s,
    # the last repeated if there are fewer; None if each sentence becomes one, which begins where its source does
    begins: Tensor | None = None
    bound: tuple[int, ...] | None = field(default=None, kw_only=True)  # what `highest` is, where it is known

    @cached_property
    def highest(self) -> tuple[int, ...]:
        """The largest position of each level, on the host; -1 without tokens."""
        if self.bound is not None:
            return self.bound
        return tuple(self.positions.amax(0).tolist()) if len(self.positions) else (-1,) * self.positions.shape[1]

    def to(self, device: torch.device | str) -> PackedText:
        """Return the same text on `device`."""
        return self.moved(to_device(self.parts, device))

    @property
    def parts(self) -> list[Tensor]:
        """All tensors, in the order that `moved` expects."""
        layout, begins = self.layout, [] if self.begins is None else [self.begins]
        return [self.tokens, layout.sentence_offsets, layout.document_offsets, self.positions, *begins]

    def moved(self, parts: Sequence[Tensor]) -> PackedText:
        """Return the text with these copies of its tensors on another device; values known on the host are kept."""
        tokens, sentence_offsets, document_offsets, positions, *begins = parts
        layout = self.layout.moved(sentence_offsets, document_offsets)
        return PackedText(tokens, layout, positions, *begins, bound=self.highest)


@dataclass(frozen=True, eq=False)
class TranslationBatch:
    """Source documents with the decoder's input and labels."""

    source: PackedText  # every sentence ends in `</s>`
    target: PackedText  # the decoder's input, every sentence beginning with `<s>`; one for each of the source's
    labels: Tensor  # (T,) int64, the next token of each of `target.tokens`; `IGNORE`: not predicted
    units: Tensor  # (U,) int64, the dataset's numbers of these units
    counted: int | None = field(default=None, kw_only=True)  # what `num_tokens` is, where it is known

    @cached_property
    def num_tokens(self) -> int:
        """The number of target tokens with a label, by which the loss is normalised."""
        return int((self.labels != IGNORE).sum()) if self.counted is None else self.counted

    def to(self, device: torch.device | str) -> TranslationBatch:
        """Return the same batch on `device`, moved in one copy; `units` stay on the host."""
        if torch.device(device) == self.labels.device:
            return self
        source, target = self.source.parts, self.target.parts
        arrived = to_device([*source, *target, self.labels], device)
        texts = self.source.moved(arrived[: len(source)]), self.target.moved(arrived[len(source) : -1])
        return TranslationBatch(*texts, arrived[-1], self.units, counted=self.num_tokens)


def join_batches(batches: Sequence[TranslationBatch]) -> TranslationBatch:
    """Join the documents of all batches, in order; `units` are the batches' own numbers."""
    if len(batches) == 1:
        return batches[0]
    return TranslationBatch(
        source=join_texts([batch.source for batch in batches]),
        target=join_texts([batch.target for batch in batches]),
        labels=torch.cat([batch.labels for batch in batches]),
        units=torch.cat([batch.units for batch in batches]),
    )


def join_texts(texts: Sequence[PackedText]) -> PackedText:
    """Join the documents of all texts, in order."""
    if len(texts) == 1:
        return texts[0]
    layout = DocumentLayout.joined([text.layout for text in texts])
    begins = [text.begins for text in texts if text.begins is not None]
    return PackedText(
        torch.cat([text.tokens for text in texts]),
        layout,
        torch.cat([text.positions for text in texts]),
        join_begins(begins) if begins else None,
    )


def join_begins(begins: Sequence[Tensor]) -> Tensor:
    """Concatenate positions (S, n, 4), the last one repeated to the largest n."""
    most = max(positions.shape[1] for positions in begins)
    return torch.cat([rows[:, torch.arange(most).clamp(max=rows.shape[1] - 1)] for rows in begins])


# From ranges of sentences to packed tensors.


def collate(corpus: ParallelCorpus, units: Units, chosen: np.ndarray, plan: ReadingPlan) -> TranslationBatch:
    """Collate the units `chosen` (U,) of a plan, in that order, to a training batch. The target of a sentence without a
    translation is its first token, without a label; sentences before `units.kept` have no label either."""
    if (side := corpus.target) is None:
        raise ValueError("a training batch needs a target side, and this corpus has none")
    if plan.joined:
        sentences = ranges(units.first[chosen], units.last[chosen])  # (S,) of the corpus
        documents = offsets_of((units.last - units.first)[chosen])  # (U+1,)
    else:
        sentences, written = read_sentences(units, chosen)
        documents = offsets_of((units.source_last - units.source_first)[chosen])
    structure = structure_positions(corpus, sentences, count=plan.positions)
    counted = corpus.has_partner(sentences) & (sentences >= np.repeat(units.kept[chosen], np.diff(documents)))
    if plan.joined:
        running = plan.positions == "sequence"
        target = _pack_joined(side, sentences, documents, structure, begin=True, running=running)
        lengths = side.offsets[sentences + 1] - side.offsets[sentences] + 1
        learned = torch.from_numpy(np.repeat(counted, lengths))  # (T,)
    else:
        empty = None if plan.reads_translations else ~written
        target = pack(side, sentences, documents, structure, begin=True, empty=empty)
        learned = torch.from_numpy(written & counted)[target.layout.sentence_of_token]
    offsets, labels = target.layout.sentence_offsets, target.tokens.roll(-1)  # (T,) each token's next one
    labels[offsets[1:][offsets.diff() > 0] - 1] = EOS
    return TranslationBatch(
        source=collate_source(corpus, units, chosen, plan),
        target=target,
        labels=labels.masked_fill_(~learned, IGNORE),
        units=torch.from_numpy(np.asarray(chosen, dtype=np.int64)),
    )


def collate_source(corpus: ParallelCorpus, units: Units, chosen: np.ndarray, plan: ReadingPlan) -> PackedText:
    """Pack the source side of the units `chosen` of a plan, which search encodes."""
    first, last = units.source_first[chosen], units.source_last[chosen]
    sentences, documents = ranges(first, last), offsets_of(last - first)  # (S,) of the corpus; (U+1,)
    structure = structure_positions(corpus, sentences, count=plan.positions)
    if not plan.joined:
        return pack(corpus.source, sentences, documents, structure, begin=False)
    options = {"running": plan.positions == "sequence", "breaks": plan.source_breaks}
    source = _pack_joined(corpus.source, sentences, documents, structure, begin=False, **options)
    written = (units.last - units.first)[chosen]
    last_sentence = documents[1:] - 1  # (U,) row of `structure`; a unit writes its last sentences
    from_the_end = np.maximum(written[:, None] - 1 - np.arange(written.max(initial=1)), 0)  # (U, n): n-1 … 0, 0, 0
    return replace(source, begins=torch.from_numpy(structure[last_sentence[:, None] - from_the_end]))


def read_sentences(units: Units, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the source sentences (S,) that the units `chosen` read, and a mask (S,) of those they also write."""
    lengths = (units.source_last - units.source_first)[chosen]
    sentences = ranges(units.source_first[chosen], units.source_last[chosen])
    first, last = np.repeat(units.first[chosen], lengths), np.repeat(units.last[chosen], lengths)
    return sentences, (first <= sentences) & (sentences < last)


def pack(
    side: TokenArray, sentences: np.ndarray, documents: np.ndarray, structure: np.ndarray,
    *, begin: bool, empty: np.ndarray | None = None,
) -> PackedText:  # fmt: skip
    """Pack the sentences (S,) of one side in one row, each followed by `</s>` or, with `begin`, preceded by `<s>`
    instead. `documents` (D+1,) are offsets into them, `structure` (S, 4) the positions of each one's first token, from
    which words count; where `empty` (S,) is true, tokens are left out."""
    full = slice(None) if empty is None else ~empty
    first, last = np.asarray(side.offsets[sentences])[full], np.asarray(side.offsets[sentences + 1])[full]
    lengths = np.zeros_like(sentences)
    lengths[full] = last - first + 1
    offsets = offsets_of(lengths)
    tokens = np.full(int(offsets[-1]), BOS if begin else EOS, dtype=np.int64)
    words = np.ones(len(tokens), dtype=bool)
    words[(offsets[:-1] if begin else offsets[1:] - 1)[full]] = False
    tokens[words] = side.tokens[ranges(first, last)]
    positions = np.repeat(structure, lengths, axis=0)
    positions[:, 0] += np.arange(len(tokens)) - np.repeat(offsets[:-1], lengths)
    layout = DocumentLayout(torch.from_numpy(offsets), torch.from_numpy(documents))
    return PackedText(torch.from_numpy(tokens), layout, torch.from_numpy(positions))


def _pack_joined(
    side: TokenArray, sentences: np.ndarray, documents: np.ndarray, structure: np.ndarray,
    *, begin: bool, running: bool, breaks: bool = True,
) -> PackedText:  # fmt: skip
    """Pack each document as one sequence, with `<brk>` between sentences; if `running`, words count along it."""
    text = pack(side, sentences, documents, structure, begin=begin)
    tokens, positions, offsets = text.tokens, text.positions, text.layout.sentence_offsets
    inner = torch.ones(len(sentences), dtype=torch.bool)
    inner[torch.from_numpy(documents[:-1] if begin else documents[1:] - 1)] = False  # the ends of the sequence
    tokens[(offsets[:-1] if begin else offsets[1:] - 1)[inner]] = BRK
    starts = offsets[text.layout.document_offsets]
    if not breaks:
        words = tokens != BRK
        tokens, positions = tokens[words], positions[words]
        starts = starts - torch.nn.functional.pad((~words).cumsum(0), (1, 0))[starts]
    layout = DocumentLayout(starts, torch.arange(len(documents)))
    if running:
        starts = layout.sentence_offsets[:-1].index_select(0, layout.sentence_of_token)
        positions[:, 0] = torch.arange(layout.num_tokens) - starts
    return PackedText(tokens, layout, positions)


def structure_positions(corpus: ParallelCorpus, sentences: np.ndarray, *, count: str) -> np.ndarray:
    """Return the word, sentence, paragraph and section index (S, 4) of the first token of each sentence, int64.

    `count="unit"`: each index counts inside its parent unit (the default); `"document"`: each counts from the
    document's start; `"mixed"`: so does the word's, the others inside their parent unit (PE135,4,2 of Trankova and
    Rykunov, section 1.2); `"sequence"`: as `"unit"`, for joined units whose word index `_pack_joined` sets. A target
    sentence takes its source line's, the word index included. An unknown level is -1. Cutting a document changes no
    position."""
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
        segments = offsets_of(offsets[documents + 1] - offsets[documents])  # the documents as rows of `levels`
        levels = corpus.levels[ranges(offsets[documents], offsets[documents + 1])]
        _set_levels(positions, levels, segments, segments[number] + positions[:, 1], counts=count == "document")
    return positions


def _set_levels(
    positions: np.ndarray, levels: np.ndarray, segments: np.ndarray, row: np.ndarray, *, counts: bool
) -> None:
    """Set all columns but the word's by the levels (L, K) of the lines `row`; `segments` (D+1,) are documents there."""
    first, lengths = segments[:-1], np.diff(segments)
    begins_document = np.zeros(len(levels), dtype=bool)
    begins_document[first] = True
    begins_unit = np.zeros(len(levels), dtype=bool)  # a unit of this level, or of one above, inside a document
    for depth, unit in enumerate(levels.T):
        begins_unit[1:] |= (np.diff(unit) != 0) & ~begins_document[1:]
        column = 1 + levels.shape[1] - depth  # paragraph 2, section 3; units around sections have no column
        if column > 3:
            continue
        if counts:
            number = np.cumsum(begins_unit)
            number -= np.repeat(number[first], lengths)
            only_others_have = np.logical_and.reduceat(unit < 0, first)  # this level, of all documents of the corpus
            unit = np.where(np.repeat(only_others_have, lengths), unit, number)
        positions[:, column] = unit[row]
    if not counts:  # a sentence counts from the beginning of its innermost unit
        starts = np.maximum.accumulate(np.where(begins_unit | begins_document, np.arange(len(levels)), 0))
        positions[:, 1] = row - starts[row]


# What search needs to know of packed sources: which row is which sentence.


def memory_sentences(plan: ReadingPlan, units: Units, chosen: np.ndarray) -> np.ndarray:
    """Return, for each text that the units `chosen` write, the row of their packed source that it translates."""
    if plan.joined:
        return np.arange(len(chosen))
    reads = (units.source_last - units.source_first)[chosen]
    begins = np.cumsum(reads) - reads - units.source_first[chosen]
    return ranges(begins + units.first[chosen], begins + units.last[chosen])


def sentences_read(units: Units, chosen: np.ndarray, before: int) -> dict[int, int]:
    """Map each sentence that the units `chosen` read to its row in their packed source, counted after `before` others;
    if several units read it, to the row in the unit that writes it, if there is one."""
    sentences, written = read_sentences(units, chosen)
    order = np.argsort(written, kind="stable")
    return dict(zip(sentences[order].tolist(), (before + order).tolist(), strict=True))


# 5. Noise on training text. Every draw is a function of its seeds and its place only, not of other text in the batch.


@dataclass(frozen=True)
class HiddenWords:
    """Replaces source words by `<mask>`."""

    own: float  # probability in sentences that the unit translates
    context: float  # in those that it only reads
    seeds: tuple[int, ...]  # of draws, which also depend on the unit's number and the word's place in it
    breaks: bool = True  # does a token separate the sentences of a unit?
    kept: tuple[int, ...] = ()  # entries that are never hidden, besides the ends of sentences: `Tokenizer.marks`

    def hide(self, text: PackedText, corpus: ParallelCorpus, units: Units, chosen: np.ndarray) -> PackedText:
        """Hide words in the source side of the units `chosen`; the ends of sentences are kept."""
        if not self.own and not self.context:
            return text
        sentences, written = read_sentences(units, chosen)
        lengths = np.diff(corpus.source.offsets)[sentences] + 1  # (S,) with the sentence's end token
        sentences_of_unit = (units.source_last - units.source_first)[chosen]  # (U,)
        tokens_of_unit = np.add.reduceat(lengths, offsets_of(sentences_of_unit)[:-1])
        place_in_unit = ranges(np.zeros_like(tokens_of_unit), tokens_of_unit)
        draws = uniform(self.seeds, np.repeat(chosen, tokens_of_unit), place_in_unit)
        hidden = draws < np.where(np.repeat(written, lengths), self.own, self.context)
        sentence_ends = np.cumsum(lengths) - 1
        hidden[sentence_ends] = False
        if not self.breaks:  # the text has no token there
            last_sentence_of_unit = np.cumsum(sentences_of_unit) - 1
            inner_ends = np.delete(sentence_ends, last_sentence_of_unit)
            hidden = np.delete(hidden, inner_ends)
        hidden &= ~np.isin(text.tokens.numpy(), self.kept)
        return replace(text, tokens=text.tokens.masked_fill(torch.from_numpy(hidden), MASK))


@dataclass(frozen=True)
class DroppedContexts:
    """Removes the context of a `share` of the units, by draws from the seeds and the unit's number."""

    share: float
    seeds: tuple[int, ...]

    def drop(self, batch: TranslationBatch, chosen: np.ndarray) -> TranslationBatch:
        """Make every sentence of the drawn units a document by itself; `chosen` are the units of the batch."""
        if not self.share:
            return batch
        dropped = uniform(self.seeds, chosen) < self.share
        return replace(batch, source=_alone(batch.source, dropped), target=_alone(batch.target, dropped))


def _alone(text: PackedText, dropped: np.ndarray) -> PackedText:
    """Make every sentence of the documents `dropped` (D,) a document; tokens and positions stay."""
    documents = text.layout.document_sentences
    sentences = np.flatnonzero(np.repeat(dropped, documents.lengths))
    offsets = torch.from_numpy(np.union1d(documents.host, sentences))
    return replace(text, layout=DocumentLayout(text.layout.sentence_offsets, offsets))
