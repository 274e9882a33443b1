"""Segmentations of words by byte-pair encoding with dropout.

A word is merged from its characters, the best pair first, the leftmost of equals. A pair whose turn comes is passed
over with probability p, for good unless one of its halves grows (Provilkov et al. 2020, BPE-Dropout, in the form that
SentencePiece gives it).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from docnmt.core.data.random_draws import uniform
from docnmt.core.data.sentencepiece_model import NORMAL, Piece

#: When more steps than this are known, they are found anew.
_MOST_STEPS = 1 << 18


class _Step:
    """A word on its way from characters to pieces.

    Attributes:
        symbols: what it is merged to so far. closed: of each neighbouring pair whether it was passed over.
        turn: the pair whose turn it is; None at the end. codes: of the symbols, at the end.
        after: the next step when that pair is merged, and when it is passed over, once they are known.
    """

    __slots__ = ("after", "closed", "codes", "symbols", "turn")

    def __init__(self, symbols: tuple[str, ...], closed: tuple[bool, ...], turn: int | None, codes: list[int]) -> None:
        self.symbols, self.closed, self.turn, self.codes = symbols, closed, turn, codes
        self.after: list[_Step | None] = [None, None]


class BpeWords:
    """Draws segmentations of words.

    Args:
        pieces: the vocabulary, by number. dropout: the share p of merges that is passed over.
    """

    def __init__(self, pieces: Sequence[Piece], dropout: float) -> None:
        normal = [(number, piece) for number, piece in enumerate(pieces) if piece.kind == NORMAL]
        self._numbers = {piece.text: number for number, piece in normal}
        self._scores = {piece.text: piece.score for _, piece in normal}
        self._dropout, self._vocabulary = dropout, len(pieces)
        self._begun: dict[str, _Step] = {}
        self._steps = 0

    def draw(
        self, words: Sequence[str], lines: np.ndarray, begins: np.ndarray, seeds: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `UnigramWords.draw`."""
        turns = np.array([3 * (len(word) - 1) for word in words], dtype=np.int64)  # a merge opens two pairs at most
        first = np.cumsum(turns) - turns
        places = np.arange(turns.sum()) - np.repeat(first, turns)
        draws = uniform(seeds, np.repeat(lines, turns), np.repeat(begins, turns), places)
        passed = (draws < self._dropout).tolist()
        found = [self._merge(word, passed, at) for word, at in zip(words, first.tolist(), strict=True)]
        counts = np.array([len(codes) for codes in found], dtype=np.int64)
        return np.array(list(itertools.chain.from_iterable(found)), dtype=np.int64), counts

    def _merge(self, word: str, passed: Sequence[bool], at: int) -> list[int]:
        """The codes of a word's pieces, by its decisions from `at` on."""
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
        """The step that was not known yet, after the turn of `pair`."""
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
        """A step: the best open pair has its turn."""
        self._steps += 1
        turn, best = None, -math.inf
        for pair, over in enumerate(closed):
            score = -math.inf if over else self._scores.get(symbols[pair] + symbols[pair + 1], -math.inf)
            if score > best:
                turn, best = pair, score
        codes = [] if turn is not None else [self._numbers.get(s, self._vocabulary + ord(s[0])) for s in symbols]
        return _Step(symbols, closed, turn, codes)
