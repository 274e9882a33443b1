"""Sampling of segmentations of words from their exact distribution under a unigram model.

P(x) ∝ exp(α · Σ score of the pieces of x), over all segmentations x of a word (Kudo 2018, Subword Regularization,
eq. 8). Forward filtering gives the weight of all segmentations of each beginning of a word; backward sampling draws the
last piece, then the last one of the rest, and so on.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

import numpy as np

from docnmt.core.data.random_draws import uniform
from docnmt.core.data.sentencepiece_model import NORMAL, VocabularyPiece

#: The score of a character without a piece is this much below the worst piece's: SentencePiece's own constant.
_UNKNOWN_PENALTY = 10.0
#: Tables with more choices than this are emptied.
_MOST_CHOICES = 1 << 22


class UnigramWords:
    """Draws segmentations of words under a unigram model.

    A *state* is a prefix of a word, of one character or more. Its choices are the pieces that it may end with.
    The table entry of choice c of state s is s + the cumulative probability of the choices of s up to c, so one search
    finds the choices of many states at once.

    Args:
        pieces: the vocabulary, by number. alpha: the smoothing α.
    """

    def __init__(self, pieces: Sequence[VocabularyPiece], alpha: float) -> None:
        normal = [(number, piece) for number, piece in enumerate(pieces) if piece.kind == NORMAL]
        self._pieces = {piece.text: (number, alpha * piece.score) for number, piece in normal}
        self._longest = max(len(text) for text in self._pieces)
        self._unknown = alpha * (min(piece.score for _, piece in normal) - _UNKNOWN_PENALTY)
        self._vocabulary = len(pieces)
        self._forget()

    def _forget(self) -> None:
        self._whole: dict[str, int] = {}  # the state of a whole word
        self._states = 0
        self._bounds, self._codes, self._rest = array("d"), array("q"), array("q")  # of each choice

    def draw(
        self, words: Sequence[str], lines: np.ndarray, begins: np.ndarray, seeds: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw a segmentation of each word: codes (P,) of all pieces in order, and each word's number of pieces (W,).

        A piece's code is its number; that of a character without a piece is V + its code point.

        Args:
            words: none is empty. lines, begins: (W,) the place of each. The n-th draw for a word is a function of this
                place, of n and of the seeds.
        """
        if len(self._codes) > _MOST_CHOICES:
            self._forget()
        for word in words:
            if word not in self._whole:
                self._learn(word)
        bounds = np.frombuffer(self._bounds, np.float64)
        codes, rest = (np.frombuffer(table, np.int64) for table in (self._codes, self._rest))
        state, at = np.array([self._whole[word] for word in words], dtype=np.int64), np.arange(len(words))
        found: list[tuple[np.ndarray, np.ndarray]] = []
        while len(at):
            draws = uniform(seeds, lines[at], begins[at], np.full(len(at), len(found)))
            choice = np.searchsorted(bounds, state + draws, side="right")
            found.append((at, codes[choice]))
            going = rest[choice] >= 0
            state, at = rest[choice][going], at[going]
        word_of = np.concatenate([at for at, _ in found[::-1]] or [at])  # the last piece was drawn first
        order = np.argsort(word_of, kind="stable")
        drawn = np.concatenate([each for _, each in found[::-1]] or [at])[order]
        return drawn, np.bincount(word_of, minlength=len(words))

    def _learn(self, word: str) -> None:
        """Add the states of a word to the tables."""
        first, totals = self._states, [0.0]  # log Σ exp(α · score) of each beginning
        for end in range(1, len(word) + 1):
            choices = list(self._ending(word, end))
            weights = [totals[begin] + score for begin, _, score in choices]
            most = max(weights)
            shares = [math.exp(weight - most) for weight in weights]
            total, bound = sum(shares), float(self._states)
            totals.append(most + math.log(total))
            for (begin, code, _), share in zip(choices, shares, strict=True):
                bound += share / total
                self._bounds.append(bound)
                self._codes.append(code)
                self._rest.append(first + begin - 1 if begin else -1)
            self._bounds[-1] = self._states + 1.0
            self._states += 1
        self._whole[word] = self._states - 1

    def _ending(self, word: str, end: int) -> list[tuple[int, int, float]]:
        """Return for each piece that may end at `end` its begin, its code and α · its score."""
        found = []
        for begin in range(max(0, end - self._longest), end):
            piece = self._pieces.get(word[begin:end])
            if piece is not None:
                found.append((begin, *piece))
        if not found or found[-1][0] != end - 1:
            found.append((end - 1, self._vocabulary + ord(word[end - 1]), self._unknown))
        return found
