"""Segmentation of words by byte-pair encoding with dropout.

A word is merged from its characters, the best pair first, the leftmost among equals. A pair to be merged is passed
over with probability p, for good unless one of its halves grows (Provilkov et al. 2020, BPE-Dropout, in the form that
SentencePiece gives it).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from docnmt.core.data.random_draws import uniform
from docnmt.core.data.sentencepiece_model import NORMAL, VocabularyPiece

#: The cache of merge steps is emptied when it has more than this many.
_MOST_STEPS = 1 << 18


class _Step:
    """A state in merging a word from characters to pieces.

    Attributes:
        symbols: the current symbols. closed: for each neighbouring pair, True if it was passed over.
        turn: the pair to be merged next; None at the end. codes: of the symbols, at the end.
        after: the next states, if that pair is merged or passed over; None if not computed yet.
    """

    __slots__ = ("after", "closed", "codes", "symbols", "turn")

    def __init__(self, symbols: tuple[str, ...], closed: tuple[bool, ...], turn: int | None, codes: list[int]) -> None:
        self.symbols, self.closed, self.turn, self.codes = symbols, closed, turn, codes
        self.after: list[_Step | None] = [None, None]


class BpeWords:
    """Draws segmentations of words by byte-pair encoding with dropout.

    Args:
        pieces: the vocabulary, by number. dropout: the probability p that a merge is passed over.
    """

    def __init__(self, pieces: Sequence[VocabularyPiece], dropout: float) -> None:
        normal = [(number, piece) for number, piece in enumerate(pieces) if piece.kind == NORMAL]
        self._numbers = {piece.text: number for number, piece in normal}
        self._scores = {piece.text: piece.score for _, piece in normal}
        self._dropout, self._vocabulary = dropout, len(pieces)
        self._begun: dict[str, _Step] = {}
        self._steps = 0

    def draw(
        self, words: Sequence[str], lines: np.ndarray, begins: np.ndarray, seeds: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a drawn segmentation of each word (see `UnigramWords.draw`)."""
        turns = np.array([3 * (len(word) - 1) for word in words], dtype=np.int64)  # a merge opens two pairs at most
        first = np.cumsum(turns) - turns
        places = np.arange(turns.sum()) - np.repeat(first, turns)
        draws = uniform(seeds, np.repeat(lines, turns), np.repeat(begins, turns), places)
        passed = (draws < self._dropout).tolist()
        found = [self._merge(word, passed, at) for word, at in zip(words, first.tolist(), strict=True)]
        counts = np.array([len(codes) for codes in found], dtype=np.int64)
        return np.array(list(itertools.chain.from_iterable(found)), dtype=np.int64), counts

    def _merge(self, word: str, passed: Sequence[bool], at: int) -> list[int]:
        """Return the codes of a word's pieces, by the decisions from `passed[at]` on."""
        step = self._begun.get(word)
        if step is None:
            if self._steps > _MOST_STEPS:
                self._begun, self._steps = {}, 0
            step = self._begun[word] = self._step(tuple(word), (False,) * (len(word) - 1))
        while step.turn is not None:
            after = step.after[passed[at]]
            step, at = after or self._follow(step, step.turn, passed[at]), at + 1
        return step.codes

    def _follow(self, step: _Step, pair: int, passed: bool) -> _Step:
        """Compute and store the step after the decision on `pair`."""
        symbols, closed = step.symbols, step.closed
        if passed:
            after = self._step(symbols, (*closed[:pair], True, *closed[pair + 1 :]))
        else:
            merged = (*symbols[:pair], symbols[pair] + symbols[pair + 1], *symbols[pair + 2 :])
            opened = (False,) * ((pair > 0) + (pair + 2 < len(symbols)))  # its neighbours
            after = self._step(merged, (*closed[: max(pair - 1, 0)], *opened, *closed[pair + 2 :]))
        step.after[passed] = after
        return after

    def _step(self, symbols: tuple[str, ...], closed: tuple[bool, ...]) -> _Step:
        """Return a step whose next pair is the best open one."""
        self._steps += 1
        turn, best = None, -math.inf
        for pair, over in enumerate(closed):
            score = -math.inf if over else self._scores.get(symbols[pair] + symbols[pair + 1], -math.inf)
            if score > best:
                turn, best = pair, score
        codes = [] if turn is not None else [self._numbers.get(s, self._vocabulary + ord(s[0])) for s in symbols]
        return _Step(symbols, closed, turn, codes)
