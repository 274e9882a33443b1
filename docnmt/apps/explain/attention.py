"""What a model read: attention of heads and layers, recorded while it translates; word alignments from it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from docnmt.core.batch import TranslationBatch
from docnmt.core.corpus import ParallelCorpus, TokenArray, offsets_of
from docnmt.core.models.encoder_decoder import AnyTranslationModel, TranslationTask
from docnmt.core.search.translate import forced_batches
from docnmt.core.tokenizer import tag_of
from docnmt.core.units import Units
from docnmt.modules.layers import Note, ReadFunction, recording

# Explanations as values: what a model read for a translation, and its scores without sentences.

#: The blocks that read other sentences.
CONTEXT = ("context", "target")


class HeadReads(NamedTuple):
    """The sentences of a document that one head of one layer reads at one word, numbered from 0, the strongest first.

    `block` is `context` (the source document), `target` (earlier translations), `cross` (the source of the translated
    unit) or `pointer` (translations to copy from). Each of `sentences` has one of the `weights`, the sum over its
    words. `model` is the model's number in an ensemble.
    """

    block: str
    layer: int
    head: int
    sentences: tuple[int, ...]
    weights: tuple[float, ...]
    model: int = 0


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention of a block's heads at each of n pieces of a sentence; k is the most entries of a head.

    Attributes:
        block, layer, model: see `HeadReads`.
        sentences: (n, h, k) int, numbers in the document; sentences of a translation memory before it are -1, -2, ...
        weights: (n, h, k), the strongest first; a head's sum to 1, or to 0 if it reads nothing.
        places: (n, h, k), if single pieces of these sentences are read: their numbers, `</s>` being the last;
            None: whole sentences are read.
        share: (n,), for a pointer: the share of the probability that is copied.
        tree: True if the sentences were found by descending a tree.
    """

    block: str
    layer: int
    model: int
    sentences: np.ndarray
    weights: np.ndarray
    places: np.ndarray | None = None
    share: np.ndarray | None = None
    tree: bool = False

    def by_sentence(self, piece: int, head: int) -> dict[int, float]:
        """Return sentences and their weights, the strongest first."""
        weight_of: defaultdict[int, float] = defaultdict(float)
        for sentence, weight in zip(
            self.sentences[piece, head].tolist(), self.weights[piece, head].tolist(), strict=True
        ):
            if weight > 0:
                weight_of[sentence] += weight
        return dict(sorted(weight_of.items(), key=lambda entry: -entry[1]))


@dataclass(frozen=True, eq=False)
class Without:
    """Natural log-probabilities (n+1,) of a translation's pieces and end in its document without `sentence`."""

    sentence: int
    log_probs: np.ndarray


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation of one translation.

    Attributes:
        number: of its sentence in the document, from 0.
        source, target: pieces of both, without their ends.
        decoder: what the words of the translation read: n pieces and the end. encoder: what those of the source read.
        leaves: the sentences below a tree, in order; empty: there is no tree.
        log_probs: (n+1,) natural log-probabilities of the pieces and the end, given the unchanged document.
        without: the same without one of the most read sentences, for some of these.
    """

    number: int
    source: tuple[str, ...]
    target: tuple[str, ...]
    decoder: tuple[Attention, ...] = ()
    encoder: tuple[Attention, ...] = ()
    leaves: tuple[int, ...] = ()
    log_probs: np.ndarray | None = None
    without: tuple[Without, ...] = ()

    @property
    def reads(self) -> tuple[tuple[HeadReads, ...], ...]:
        """For each piece of the translation, the sentences that each head of each decoder layer reads."""
        return tuple(
            tuple(
                HeadReads(attention.block, attention.layer, head, tuple(by), tuple(by.values()), attention.model)
                for attention in self.decoder
                for head in range(attention.weights.shape[1])
                for by in [attention.by_sentence(piece, head)]
            )
            for piece in range(len(self.target))
        )

    @property
    def others(self) -> dict[int, float]:
        """The other sentences that were read, the most read first, with mean weights over words, layers and heads."""
        read_most: defaultdict[int, float] = defaultdict(float)
        queries = 0
        for side in (self.decoder, self.encoder):
            parts = [attention for attention in side if attention.block in CONTEXT] or [
                attention for attention in side if attention.block != "pointer"
            ]
            parts += [attention for attention in side if attention.block == "pointer"]
            for attention in parts:
                queries += attention.weights.shape[0] * attention.weights.shape[1]  # also those that read nothing
                share = 1.0 if attention.share is None else attention.share[:, None, None]
                sentences, weights = attention.sentences.ravel(), (attention.weights * share).ravel()
                for sentence in np.unique(sentences).tolist():
                    read_most[sentence] += float(weights[sentences == sentence].sum())
        order = sorted(read_most, key=lambda sentence: -read_most[sentence])
        return {
            sentence: read_most[sentence] / queries
            for sentence in order
            if read_most[sentence] > 0 and sentence != self.number
        }

    def path(self, sentence: int) -> tuple[int, ...]:
        """Return the places of a sentence's nodes in their tree levels, from the root (0) down to its leaf."""
        place, levels = self.leaves.index(sentence), (len(self.leaves) - 1).bit_length()
        return tuple(place >> level for level in range(levels, -1, -1))


# Conversion of the recorded reads of one unit's pass into what each of its words read.

#: Number of keys whose weights are computed at once.
_COLUMNS = 64
#: The most single words kept for a head.
_WORDS = 64
_NAME = re.compile(r"(?:(encoder|decoder)\.layers\.(\d+)\.(\w+)(?:\.\w+)*|(pointer))")


@dataclass(frozen=True, eq=False)
class _UnitSide:
    """One side of a unit: the numbers (n,) of its sentences in the corpus, and where in the row each begins (n+1,)."""

    numbers: np.ndarray
    offsets: np.ndarray

    @property
    def sentence(self) -> np.ndarray:
        """The place among `numbers` (T,) of each word's sentence."""
        return np.repeat(np.arange(len(self.numbers)), np.diff(self.offsets))

    def rows(self, number: int) -> slice:
        """Return the words of a sentence."""
        index = int(np.searchsorted(self.numbers, number))
        return slice(int(self.offsets[index]), int(self.offsets[index + 1]))


@dataclass(frozen=True, eq=False)
class UnitNotes:
    """One unit, the only one of its batch, and the division of its rows into sentences of the corpus."""

    corpus: ParallelCorpus
    source: _UnitSide
    target: _UnitSide
    names: dict[nn.Module, str]
    joined: bool

    @classmethod
    def of(cls, model: AnyTranslationModel, corpus: ParallelCorpus, units: Units, batch: TranslationBatch) -> UnitNotes:
        """Build the notes of a batch of one unit."""
        assert corpus.target is not None
        read = np.arange(units.source_first[0], units.source_last[0])
        ends = np.ones(len(read), dtype=np.int64)
        if not model.reading.source_breaks:
            ends[:-1] = 0  # only the last sentence has an end token
        source = _UnitSide(read, offsets_of(corpus.source.lengths()[read] + ends))
        if model.reading.joined:
            written = np.arange(units.first[0], units.last[0])
            target = _UnitSide(written, offsets_of(corpus.target.lengths()[written] + 1))
        else:
            target = _UnitSide(read, batch.target.layout.sentences.host)
        modules = model.named_modules() if isinstance(model, nn.Module) else []
        return cls(corpus, source, target, {module: name for name, module in modules}, model.reading.joined)

    def block(self, note: Note) -> str | None:
        """Return the name of the block that recorded a note."""
        match = _NAME.fullmatch(self.names.get(note.module, ""))
        return None if match is None else match[3] or match[4]

    def attention(self, note: Note, model: int, *, own: bool = False) -> tuple[str, Attention] | None:
        """Return the side and the attention of all words of the unit in a note; None for unknown modules. With `own`,
        of cross attention, only the words of a translation's own source sentence are kept, but all of them."""
        match = _NAME.fullmatch(self.names.get(note.module, ""))
        if match is None:
            return None
        side, layer, block = match[1] or "decoder", int(match[2] or 0), match[3] or match[4]
        keys = self.target if block in ("target", "pointer") else self.source
        if block in ("context", "target"):
            groups = np.arange(len(keys.numbers)) if note.sentences else keys.sentence
            index, weights = strongest(note.read, note.values, groups, len(keys.numbers))
            sentences, places = keys.numbers[index], None
        else:
            word, within = np.arange(keys.offsets[-1]), not self.joined and block == "cross"
            groups = word - keys.offsets[keys.sentence] if within else word
            most = int(np.diff(keys.offsets).max(initial=1))
            owner = np.searchsorted(keys.numbers, self.target.numbers[self.target.sentence])
            bounds = np.stack([keys.offsets[owner], keys.offsets[owner + 1]]) if own and not within else None
            index, weights = strongest(
                note.read, note.values, groups, int(groups.max(initial=0)) + 1, max(most, _WORDS), bounds
            )
            if within:  # a place in the word's own source sentence
                index = np.minimum(index + keys.offsets[owner][:, None, None], keys.offsets[-1] - 1)
            sentences, places = keys.numbers[keys.sentence[index]], index - keys.offsets[keys.sentence[index]]
        share = None if note.share is None else note.share.cpu().numpy()
        return side, Attention(block, layer, model, sentences, weights, places, share, note.tree)

    def explanation(self, number: int, reads: Sequence[tuple[str, Attention]], task: TranslationTask) -> Explanation:
        """Return the explanation of one sentence of the unit."""
        assert self.corpus.target is not None
        rows = {"encoder": self.source.rows(number), "decoder": self.target.rows(number)}
        encoder, decoder = (tuple(_part(a, rows[side]) for name, a in reads if name == side) for side in rows)
        return Explanation(
            number=number, source=tuple(task.source_tokenizer.pieces(self.corpus.source[number].tolist())),
            target=tuple(task.target_tokenizer.pieces(self.corpus.target[number].tolist())),
            leaves=tuple(self.source.numbers.tolist()) if any(read.tree for _, read in reads) else (), decoder=decoder,
            encoder=encoder,
        )  # fmt: skip


def _part(attention: Attention, rows: slice) -> Attention:
    """Return the attention of some words only, no wider than they need."""
    weights = attention.weights[rows]
    width = int((weights > 0).sum(-1).max(initial=0))

    def _cut(values: np.ndarray) -> np.ndarray:
        return np.array(values[rows, :, :width])

    return Attention(
        attention.block, attention.layer, attention.model, _cut(attention.sentences), _cut(attention.weights),
        None if attention.places is None else _cut(attention.places),
        None if attention.share is None else attention.share[rows].copy(), attention.tree,
    )  # fmt: skip


def strongest(
    read: ReadFunction, values: Tensor, groups: np.ndarray, count: int, limit: int | None = None,
    bounds: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return the weights of groups of keys, the strongest first: attention's output for values that are 1 in one group.

    Args:
        values: of the attention, for their shape (keys, h, d) and type. groups: (keys,) the group of each, below
            `count`.
        limit: the most groups to keep for each query and head; None: all.
        bounds: (2, queries) the first and the last group that a query may have, the last exclusive; None: all.

    Returns:
        Groups and their weights, (queries, h, k) each.
    """
    of_key = torch.from_numpy(groups).to(values.device)
    weights, index = values.new_zeros(0), of_key[:0]
    for first in range(0, max(count, 1), _COLUMNS):
        columns = torch.arange(first, min(first + _COLUMNS, count), device=values.device)
        ones = (of_key[:, None] == columns).to(values.dtype)[:, None].expand(-1, values.shape[1], -1)
        part = read(ones.contiguous())  # (queries, h, columns)
        if bounds is not None:
            begin, end = torch.from_numpy(bounds[:, :, None, None]).to(values.device)
            part = part * ((columns >= begin) & (columns < end))
        new = columns.expand_as(part)
        weights, index = (torch.cat([weights, part], -1), torch.cat([index, new], -1)) if first else (part, new)
        weights, order = weights.sort(stable=True, dim=-1, descending=True)
        index = index.gather(-1, order)[..., :limit]
        weights = weights[..., :limit]
    return index.cpu().numpy(), weights.float().cpu().numpy()


# Word alignment of a translation with its source, by cross attention.

Span = tuple[int, int]
Pieces = tuple[int, ...]


@dataclass(frozen=True)
class AlignedPiece:
    """A subword of a translation and its source subword: begin and end in their texts."""

    source: Span
    target: Span


def source_pieces(attentions: Sequence[Attention], sentence: int, source: int, target: int) -> tuple[Pieces, Pieces]:
    """Return, for each of `target` pieces of a sentence's translation, its source piece among `source`; -1: none.

    It is found by the middle layer's cross attention, the mean of its heads, at the step that writes the piece, and at
    the step that reads it (Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine Translation",
    SHIFT-ATT).
    """
    cross = [
        attention
        for attention in attentions
        if attention.block == "cross" and attention.places is not None and not attention.model
    ]
    if not source or not cross:
        return (-1,) * target, (-1,) * target
    chosen = cross[(len(cross) - 1) // 2]
    assert chosen.places is not None
    of_sentence = (chosen.sentences == sentence) & (chosen.places < source)  # without other sentences and `</s>`
    weights = np.zeros((len(chosen.weights), source))
    rows = np.arange(len(weights))[:, None, None]
    np.add.at(
        weights,
        (np.broadcast_to(rows, of_sentence.shape)[of_sentence], chosen.places[of_sentence]),
        chosen.weights[of_sentence],
    )
    best = weights.argmax(1).tolist()
    return tuple(best[:target]), tuple(best[1 : target + 1])


def _same(source: Sequence[str], target: Sequence[str]) -> list[Span]:
    """Return pairs (i, j) of equal pieces with letters or digits that occur once on each side."""
    of_source, of_target = Counter(source), Counter(target)
    once = {piece: i for i, piece in enumerate(source) if of_source[piece] == 1 and any(map(str.isalnum, piece))}
    return [(once[piece], j) for j, piece in enumerate(target) if piece in once and of_target[piece] == 1]


@dataclass(frozen=True)
class ReadPair:
    """The cross attention of a sentence and its translation.

    Attributes:
        source, target: the places of their pieces in their texts.
        steps: the source piece of each piece of the translation, at the step that writes it and at the one that reads
            it; -1: none. equal: at each step, how many words that are equal on both sides align with each other.
    """

    source: list[Span]
    target: list[Span]
    steps: tuple[Pieces, Pieces]
    equal: tuple[int, int]


@torch.inference_mode()
def read(
    model: AnyTranslationModel, task: TranslationTask, corpus: ParallelCorpus, sources: Sequence[str],
    targets: Sequence[str],
) -> list[ReadPair]:  # fmt: skip
    """Return the cross attention of each sentence of a corpus and its translation, given their texts."""
    pairs = []
    for units, batch in forced_batches(model, task, corpus, max_tokens=1):
        with recording() as notes:
            model(batch)
        unit = UnitNotes.of(model, corpus, units, batch)
        cross = [note for note in notes if unit.block(note) == "cross"]
        middle = cross[(len(cross) - 1) // 2 :][:1]
        attentions = [one for note in middle if (one := unit.attention(note, 0, own=True)) is not None]
        for number in range(int(units.kept[0]), int(units.last[0])):
            source, target = task.source_tokenizer.spans(sources[number]), task.target_tokenizer.spans(targets[number])
            decoder = unit.explanation(number, attentions, task).decoder
            same = _same([sources[number][b:e] for b, e in source], [targets[number][b:e] for b, e in target])
            writing, reading = source_pieces(decoder, number, len(source), len(target))
            writing, reading = (_untagged(step, task) for step in (writing, reading))
            equal = sum(writing[j] == i for i, j in same), sum(reading[j] == i for i, j in same)
            pairs.append(ReadPair(source, target, (writing, reading), equal))
    return pairs


def _untagged(step: Pieces, task: TranslationTask) -> Pieces:
    """Remove language tags from the source pieces of pieces; -1 in place of them."""
    tagged = tag_of(task.source_tokenizer) is not None
    untagged = tuple(-1 if tagged and piece == 0 else piece for piece in step)
    return (-1, *untagged[1:]) if untagged and tag_of(task.target_tokenizer) is not None else untagged


def read_pairs(model: AnyTranslationModel, task: TranslationTask, pairs: Sequence[tuple[str, str]]) -> list[ReadPair]:
    """Return the cross attention of sentences and their translations. Each pair is read by itself, so that memory does
    not depend on the document."""
    if not pairs:
        return []
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    corpus = ParallelCorpus.from_lines([[source] for source in sources], task.source_tokenizer)
    target = TokenArray.from_lists(task.target_tokenizer.encode(targets), task.target_tokenizer.vocab_size)
    return read(model, task, replace(corpus, target=target), sources, targets)


def aligned(pairs: Sequence[ReadPair]) -> list[list[AlignedPiece]]:
    """Return, for each sentence, the pieces of its translation with their source pieces.

    Whether a layer attends to a word when it writes it or when it reads it depends on the model's depth and training.
    So the step is the one at which more of the words that are equal on both sides of all `pairs` align.
    """
    reading = sum(pair.equal[1] for pair in pairs) > sum(pair.equal[0] for pair in pairs)
    return [
        [AlignedPiece(pair.source[n], span) for n, span in zip(pair.steps[reading], pair.target, strict=True) if n >= 0]
        for pair in pairs
    ]


def beginnings(pieces: Sequence[AlignedPiece]) -> list[Span]:
    """Return where aligned pieces begin: a character of the source and one of the translation."""
    return [(piece.source[0], piece.target[0]) for piece in pieces]


def word_pairs(source: str, target: str, pieces: Sequence[AlignedPiece]) -> list[Span]:
    """Return aligned words by their numbers in source and target, from 0, where words are separated by white space.
    Each pair occurs once, in the order of the target."""
    starts = [[match.start() for match in re.finditer(r"\S+", text)] for text in (source, target)]
    pairs: dict[Span, None] = {}
    for piece in pieces:
        places = piece.source[0], piece.target[0]
        if places[0] < len(source) and places[1] < len(target):
            i, j = (bisect_right(of_text, character) - 1 for of_text, character in zip(starts, places, strict=True))
            pairs[i, j] = None
    return list(pairs)
