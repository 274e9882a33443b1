"""Word alignment of a translation with its source, by cross attention."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from docnmt.apps.explain.explanation import Attention
from docnmt.apps.explain.notes import UnitNotes
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.store import TokenArray
from docnmt.core.data.tokenizer import tag_of
from docnmt.core.models.translation_model import AnyTranslationModel, TranslationTask
from docnmt.core.search.forced import forced_batches
from docnmt.modules.record_reads import recording

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
    cross = [each for each in attentions if each.block == "cross" and each.places is not None and not each.model]
    if not source or not cross:
        return (-1,) * target, (-1,) * target
    chosen = cross[(len(cross) - 1) // 2]
    assert chosen.places is not None
    here = (chosen.sentences == sentence) & (chosen.places < source)  # without other sentences and `</s>`
    weights = np.zeros((len(chosen.weights), source))
    rows = np.arange(len(weights))[:, None, None]
    np.add.at(weights, (np.broadcast_to(rows, here.shape)[here], chosen.places[here]), chosen.weights[here])
    best = weights.argmax(1).tolist()
    return tuple(best[:target]), tuple(best[1 : target + 1])


def _same(source: Sequence[str], target: Sequence[str]) -> list[Span]:
    """Return pairs (i, j) of equal pieces with letters or digits that occur once on each side."""
    once = {piece: i for i, piece in enumerate(source) if source.count(piece) == 1 and any(map(str.isalnum, piece))}
    return [(once[piece], j) for j, piece in enumerate(target) if piece in once and target.count(piece) == 1]


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
        attentions = [each for note in middle if (each := unit.attention(note, 0)) is not None]
        for number in range(int(units.kept[0]), int(units.last[0])):
            source, target = task.source_tokenizer.spans(sources[number]), task.target_tokenizer.spans(targets[number])
            own = unit.explanation(number, attentions, task).decoder
            same = _same([sources[number][b:e] for b, e in source], [targets[number][b:e] for b, e in target])
            writing, reading = source_pieces(own, number, len(source), len(target))
            writing, reading = (_untagged(step, task) for step in (writing, reading))
            equal = sum(writing[j] == i for i, j in same), sum(reading[j] == i for i, j in same)
            pairs.append(ReadPair(source, target, (writing, reading), equal))
    return pairs


def _untagged(step: Pieces, task: TranslationTask) -> Pieces:
    """Remove language tags from the source pieces of pieces; -1 in place of them."""
    tagged = tag_of(task.source_tokenizer) is not None
    found = tuple(-1 if tagged and place == 0 else place for place in step)
    return (-1, *found[1:]) if found and tag_of(task.target_tokenizer) is not None else found


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
    found: dict[Span, None] = {}
    for piece in pieces:
        places = piece.source[0], piece.target[0]
        if places[0] < len(source) and places[1] < len(target):
            i, j = (bisect_right(of_text, place) - 1 for of_text, place in zip(starts, places, strict=True))
            found[i, j] = None
    return list(found)
