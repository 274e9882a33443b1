"""Explanations as values: what a model read for a translation, and its scores without sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

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
        found: defaultdict[int, float] = defaultdict(float)
        for sentence, weight in zip(
            self.sentences[piece, head].tolist(), self.weights[piece, head].tolist(), strict=True
        ):
            if weight > 0:
                found[sentence] += weight
        return dict(sorted(found.items(), key=lambda entry: -entry[1]))


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
        return tuple(reads_of(self.decoder, piece) for piece in range(len(self.target)))

    @property
    def others(self) -> dict[int, float]:
        """The other sentences that were read, the most read first, with mean weights over words, layers and heads."""
        found: defaultdict[int, float] = defaultdict(float)
        queries = 0
        for side in (self.decoder, self.encoder):
            parts = [each for each in side if each.block in CONTEXT] or [
                each for each in side if each.block != "pointer"
            ]
            parts += [each for each in side if each.block == "pointer"]
            for attention in parts:
                queries += attention.weights[..., :1].size
                share = 1.0 if attention.share is None else attention.share[:, None, None]
                sentences, weights = attention.sentences.ravel(), (attention.weights * share).ravel()
                for sentence in np.unique(sentences).tolist():
                    found[sentence] += float(weights[sentences == sentence].sum())
        order = sorted(found, key=lambda sentence: -found[sentence])
        return {
            sentence: found[sentence] / queries for sentence in order if found[sentence] > 0 and sentence != self.number
        }

    def path(self, sentence: int) -> tuple[int, ...]:
        """Return the places of a sentence's nodes in their tree levels, from the root (0) down to its leaf."""
        place, levels = self.leaves.index(sentence), (len(self.leaves) - 1).bit_length()
        return tuple(place >> level for level in range(levels, -1, -1))


def reads_of(attentions: Sequence[Attention], piece: int) -> tuple[HeadReads, ...]:
    """Return the sentences that each head of some attentions reads at one piece."""
    found = []
    for each in attentions:
        for head in range(each.weights.shape[1]):
            by = each.by_sentence(piece, head)
            found.append(HeadReads(each.block, each.layer, head, tuple(by), tuple(by.values()), each.model))
    return tuple(found)
