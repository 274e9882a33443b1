"""Sampled segmentations in training: unigram sampling and BPE dropout, with draws from (seed, epoch, sentence)."""

from __future__ import annotations

import itertools
import math
import re
from array import array
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from docnmt.core.corpus import TokenArray, offsets_of, token_dtype
from docnmt.core.tokenizer import BPE, BYTE, NORMAL, UNIGRAM, UNK, USER_DEFINED, Tokenizer, VocabularyPiece, read_model
from docnmt.runtime.system import UserError

# Random numbers that depend only on their seeds and on the numbers they are drawn for.


def uniform(seeds: Sequence[int], *numbers: np.ndarray) -> np.ndarray:
    """Draw a number in [0, 1) for each tuple of `numbers` (n,), a function of it and the seeds alone (splitmix64)."""
    state = np.random.SeedSequence(list(seeds)).generate_state(1, np.uint64)
    for number in numbers:
        state = state ^ number.astype(np.uint64)
        state = state + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    draws: np.ndarray = (state >> np.uint64(11)) * 2.0**-53
    return draws


# Segmentation of words by byte-pair encoding with dropout.
#
# A word is merged from its characters, the best pair first, the leftmost among equals. A pair to be merged is passed
# over with probability p, for good unless one of its halves grows (Provilkov et al. 2020, BPE-Dropout, in the form
# that
# SentencePiece gives it).


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


# Sampling of segmentations of words from their exact distribution under a unigram model.
#
# P(x) ∝ exp(α · Σ score of the pieces of x), over all segmentations x of a word (Kudo 2018, Subword Regularization,
# eq. 8). Forward filtering gives the weight of all segmentations of each beginning of a word; backward sampling draws
# the
# last piece, then the last one of the rest, and so on.


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


# Subword sampling: other segmentations of the same text, by random numbers of our own.
#
# SentencePiece samples, too, but its draws depend on its version and, from 0.2.2 on, on the process. Here a draw is a
# function of its seeds and of the place in the text, so that a training can be repeated and resumed with any version.


#: SentencePiece's character for a space.
SPACE = "▁"
_WORD = re.compile(f"{SPACE}[^{SPACE}]*|[^{SPACE}]+")


class Words(Protocol):
    """The interface of samplers: draws segmentations of words."""

    def draw(
        self, words: Sequence[str], lines: np.ndarray, begins: np.ndarray, seeds: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return codes of the pieces of all words, and how many each word has (see `UnigramWords.draw`)."""


class SubwordSampler:
    """Draws segmentations of lines.

    Args:
        tokenizer: the source of the pieces.
        alpha: for a unigram model the smoothing, less is more varied; for a BPE model the share of merges left out.

    Raises:
        UserError: the tokenizer's model is of another kind, or has user-defined symbols.
    """

    def __init__(self, tokenizer: Tokenizer, alpha: float) -> None:
        model = read_model(tokenizer.to_bytes())
        kinds: dict[int, type[UnigramWords | BpeWords]] = {UNIGRAM: UnigramWords, BPE: BpeWords}
        if model.kind not in kinds or any(piece.kind == USER_DEFINED for piece in model.pieces):
            raise UserError(
                "--subword-sampling: expected a unigram or BPE model without user-defined symbols, and this vocabulary "
                "is of another kind; train one with docnmt-preprocess"
            )
        self._words: Words = kinds[model.kind](model.pieces, alpha)
        self._normalize, self._vocabulary, self._tag = tokenizer.normalize, len(model.pieces), tokenizer.tag
        # If no piece has a space inside it, words are independent of each other.
        self._apart = not any(SPACE in piece.text[1:] for piece in model.pieces)
        self._bytes = {piece.text: number for number, piece in enumerate(model.pieces) if piece.kind == BYTE}

    def draw(self, lines: Sequence[str], first: int, seeds: Sequence[int]) -> TokenArray:
        """Draw the subwords of each line, by the seeds and the lines' numbers, which count from `first`."""
        words: list[str] = []
        line_of_word: list[int] = []
        begins: list[int] = []
        for number, text in enumerate(self._normalize(lines)):
            for begin, word in self._divide(text):
                words.append(word)
                line_of_word.append(number)
                begins.append(begin)
        lines_of = np.array(line_of_word, dtype=np.int64)
        codes, counts = self._words.draw(words, lines_of + first, np.array(begins, dtype=np.int64), seeds)
        tokens, lines_of = self._spell(codes, np.repeat(lines_of, counts))
        lengths = np.bincount(lines_of, minlength=len(lines))
        if self._tag is not None:
            tokens = np.insert(tokens, (np.cumsum(lengths) - lengths)[lengths > 0], self._tag)
            lengths = lengths + (lengths > 0)
        offsets = offsets_of(lengths)
        return TokenArray(tokens.astype(token_dtype(self._vocabulary)), offsets)

    def _divide(self, text: str) -> list[tuple[int, str]]:
        """Return the words of a line, and where each begins."""
        if not self._apart:
            return [(0, text)] if text else []
        return [(match.start(), match[0]) for match in _WORD.finditer(text)]

    def _spell(self, codes: np.ndarray, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Turn codes into tokens, with the line of each: unknown characters into bytes, or one `<unk>` per run."""
        unknown = codes >= self._vocabulary
        if not unknown.any():
            return codes, lines
        if not self._bytes:
            run = unknown.copy()
            run[1:] &= unknown[:-1] & (lines[1:] == lines[:-1])
            run[:1] = False
            return np.where(unknown, UNK, codes)[~run], lines[~run]
        spelled = {code: chr(code - self._vocabulary).encode() for code in np.unique(codes[unknown]).tolist()}
        counts = np.ones(len(codes), dtype=np.int64)
        counts[unknown] = [len(spelled[code]) for code in codes[unknown].tolist()]
        tokens = np.repeat(codes, counts)
        values = b"".join(spelled[code] for code in codes[unknown].tolist())
        tokens[np.repeat(unknown, counts)] = [self._bytes[f"<0x{value:02X}>"] for value in values]
        return tokens, np.repeat(lines, counts)
