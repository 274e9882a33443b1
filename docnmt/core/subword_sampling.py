"""Sampled segmentations in training: unigram sampling and BPE dropout.
lines → words (`Tokenizer.normalize`) → pieces of each word, by draws from (seeds, line, place) alone → subwords.
SentencePiece samples, too, but its draws depend on its version and its process; a training could not be repeated.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

from docnmt.core.corpus import ParallelCorpus, TokenArray, offsets_of, token_dtype
from docnmt.core.tokenizer import UNK, Tokenizer
from docnmt.runtime.progress import Progress
from docnmt.runtime.system import UserError

_KINDS = ModelProto.SentencePiece
#: SentencePiece's character for a space.
SPACE = "▁"
_WORD = re.compile(f"{SPACE}[^{SPACE}]*|[^{SPACE}]+")
#: The score of a character without a piece is this much below the worst piece's: SentencePiece's own constant.
_UNKNOWN_PENALTY = 10.0
#: The table of words is emptied when it has more than this many choices; so many words merged are kept.
_MOST_CHOICES, _MOST_MERGED = 1 << 22, 1 << 18


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


class SubwordSampler:
    """Draws segmentations of lines. `alpha` is of a unigram model the smoothing, less is more varied; of a BPE model
    the share of merges left out."""

    def __init__(self, tokenizer: Tokenizer, alpha: float) -> None:
        model = tokenizer.model
        kinds: dict[int, type[_UnigramWords | _BpeWords]]
        kinds = {TrainerSpec.UNIGRAM: _UnigramWords, TrainerSpec.BPE: _BpeWords}
        kind = kinds.get(model.trainer_spec.model_type)
        if kind is None or any(piece.type == _KINDS.USER_DEFINED for piece in model.pieces):
            raise UserError(
                "--subword-sampling: expected a unigram or BPE model without user-defined symbols, and this vocabulary "
                "is of another kind; train one with docnmt-preprocess"
            )
        self._words = kind(model, alpha)
        self._normalize, self._vocabulary, self._tag = tokenizer.normalize, len(model.pieces), tokenizer.tag
        # If no piece has a space inside it, words are independent of each other.
        self._apart = not any(SPACE in piece.piece[1:] for piece in model.pieces)
        self._bytes = {piece.piece: n for n, piece in enumerate(model.pieces) if piece.type == _KINDS.BYTE}

    def draw(self, lines: Sequence[str], first: int, seeds: Sequence[int]) -> TokenArray:
        """Draw the subwords of each line, by the seeds and the lines' numbers, which count from `first`."""
        places: list[tuple[int, int]] = []  # the line of each word, and where it begins there
        words: list[str] = []
        for number, text in enumerate(self._normalize(lines)):
            whole = [(0, text)] if text else []
            for begin, word in [(match.start(), match[0]) for match in _WORD.finditer(text)] if self._apart else whole:
                places.append((number, begin))
                words.append(word)
        line_of, begins = np.array(places, dtype=np.int64).reshape(-1, 2).T
        codes, counts = self._words.draw(words, line_of + first, begins, seeds)
        tokens, lines_of = self._spell(codes, np.repeat(line_of, counts))
        lengths = np.bincount(lines_of, minlength=len(lines))
        if self._tag is not None:
            tokens = np.insert(tokens, (np.cumsum(lengths) - lengths)[lengths > 0], self._tag)
            lengths = lengths + (lengths > 0)
        return TokenArray(tokens.astype(token_dtype(self._vocabulary)), offsets_of(lengths))

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
        spelled = [chr(code - self._vocabulary).encode() for code in codes[unknown].tolist()]
        counts = np.ones(len(codes), dtype=np.int64)
        counts[unknown] = [len(character) for character in spelled]
        tokens = np.repeat(codes, counts)
        tokens[np.repeat(unknown, counts)] = [self._bytes[f"<0x{value:02X}>"] for value in b"".join(spelled)]
        return tokens, np.repeat(lines, counts)


class _UnigramWords:
    """Draws words' pieces x from P(x) ∝ exp(α · Σ score of the pieces) (Kudo 2018, Subword Regularization, eq. 8)."""

    # Forward filtering gives the weight of all segmentations of each beginning of a word; backward sampling draws the
    # last piece, then the last of the rest. A *state* is a beginning, its choices are pieces that may end it. The bound
    # of a choice is its state + the cumulative share of the choices there: one search finds those of many states.

    def __init__(self, model: ModelProto, alpha: float) -> None:
        normal = [(n, piece) for n, piece in enumerate(model.pieces) if piece.type == _KINDS.NORMAL]
        self._pieces = {piece.piece: (n, alpha * piece.score) for n, piece in normal}
        self._longest = max(len(text) for text in self._pieces)
        self._unknown = alpha * (min(piece.score for _, piece in normal) - _UNKNOWN_PENALTY)
        self._vocabulary = len(model.pieces)
        self._forget()

    def _forget(self) -> None:
        self._whole: dict[str, int] = {}  # the state of a whole word
        self._states = 0
        self._bounds, self._codes, self._rest = array("d"), array("q"), array("q")  # of each choice

    def draw(
        self, words: Sequence[str], lines: np.ndarray, begins: np.ndarray, seeds: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw codes (P,) of all words' pieces, V + the code point without a piece, and each word's number (W,)."""
        if len(self._codes) > _MOST_CHOICES:
            self._forget()
        for word in words:
            if word not in self._whole:
                self._learn(word)
        bounds = np.frombuffer(self._bounds, np.float64)
        codes, rest = (np.frombuffer(table, np.int64) for table in (self._codes, self._rest))
        state, word_of = np.array([self._whole[word] for word in words], dtype=np.int64), np.arange(len(words))
        rounds: list[tuple[np.ndarray, np.ndarray]] = []  # the words that are not at their begin, a piece of each
        while len(word_of):
            draws = uniform(seeds, lines[word_of], begins[word_of], np.full(len(word_of), len(rounds)))
            choice = np.searchsorted(bounds, state + draws, side="right")
            rounds.append((word_of, codes[choice]))
            going = rest[choice] >= 0
            state, word_of = rest[choice][going], word_of[going]
        owners = np.concatenate([owner for owner, _ in rounds[::-1]] or [word_of])  # the last piece was drawn first
        drawn = np.concatenate([drawn for _, drawn in rounds[::-1]] or [word_of])
        return drawn[np.argsort(owners, kind="stable")], np.bincount(owners, minlength=len(words))

    def _learn(self, word: str) -> None:
        first, totals = self._states, [0.0]  # log Σ exp(α · score) of each beginning
        for end in range(1, len(word) + 1):
            choices = []  # begin, code, α · score
            for begin in range(max(0, end - self._longest), end):
                if (piece := self._pieces.get(word[begin:end])) is not None:
                    choices.append((begin, *piece))
            if not choices or choices[-1][0] != end - 1:
                choices.append((end - 1, self._vocabulary + ord(word[end - 1]), self._unknown))
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


class _BpeWords:
    """Draws a word's pieces by byte-pair encoding with dropout (Provilkov et al. 2020, in SentencePiece's form)."""

    # A word is merged from its characters, the best pair first, the leftmost among equals. A pair to be merged is
    # passed over with probability p, for good unless one of its halves grows.

    def __init__(self, model: ModelProto, dropout: float) -> None:
        normal = [(n, piece) for n, piece in enumerate(model.pieces) if piece.type == _KINDS.NORMAL]
        self._numbers = {piece.piece: n for n, piece in normal}
        self._scores = {piece.piece: piece.score for _, piece in normal}
        self._dropout, self._vocabulary = dropout, len(model.pieces)
        self._merged = functools.lru_cache(_MOST_MERGED)(self._merge)

    def draw(
        self, words: Sequence[str], lines: np.ndarray, begins: np.ndarray, seeds: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw a segmentation of each word (see `_UnigramWords.draw`)."""
        turns = np.array([3 * (len(word) - 1) for word in words], dtype=np.int64)  # a merge opens two pairs at most
        ends = np.cumsum(turns)
        nth = np.arange(turns.sum()) - np.repeat(ends - turns, turns)
        passed = uniform(seeds, np.repeat(lines, turns), np.repeat(begins, turns), nth) < self._dropout
        decisions = zip((ends - turns).tolist(), ends.tolist(), strict=True)
        codes = [self._merged(word, passed[a:b].tobytes()) for word, (a, b) in zip(words, decisions, strict=True)]
        flat = np.array(list(itertools.chain.from_iterable(codes)), dtype=np.int64)
        return flat, np.array([len(pieces) for pieces in codes], dtype=np.int64)

    def _merge(self, word: str, passed: bytes) -> list[int]:
        """Return the codes of a word's pieces; `passed` has the decision on each pair in turn."""
        symbols, end = [*word, ""], len(word)  # each where it begins; "" where one was merged into another
        before, after = list(range(-1, end)), list(range(1, end + 1))
        pairs: list[tuple[float, int, str]] = []  # a heap: the best first, the leftmost among equals

        def offer(left: int) -> None:
            if left >= 0 and after[left] < end:
                pair = symbols[left] + symbols[after[left]]
                if (score := self._scores.get(pair, -math.inf)) > -math.inf:
                    heapq.heappush(pairs, (-score, left, pair))

        for left in range(end):
            offer(left)
        for decision in passed:
            while pairs:
                _, left, pair = heapq.heappop(pairs)
                if symbols[left] and symbols[left] + symbols[after[left]] == pair:  # neither half has grown since
                    break
            else:
                break
            if not decision:
                right = after[left]
                symbols[left], symbols[right] = pair, ""
                after[left] = after[right]
                before[after[left]] = left
                offer(before[left])
                offer(left)
        return [self._numbers.get(symbol, self._vocabulary + ord(symbol[0])) for symbol in symbols if symbol]


# The subwords of an epoch.


#: Lines whose subwords are drawn together; no draw depends on it.
_CHUNK = 4096
#: The sampler of each side, which learns words that the next epoch needs.
_sampler = functools.lru_cache(maxsize=2)(SubwordSampler)


def resegmented(
    corpus: ParallelCorpus, tokenizers: tuple[Tokenizer, Tokenizer], alpha: float, seeds: Sequence[int]
) -> ParallelCorpus:
    """Return the corpus with newly drawn subwords of the same text on both sides (Kudo 2018)."""
    sides = []
    with Progress(2 * corpus.num_sentences, "drawing subwords", unit="lines") as bar:
        for side, text in enumerate((corpus.source_text, corpus.references[0])):
            parts = []
            for first in range(0, len(text), _CHUNK):
                sampler = _sampler(tokenizers[side], alpha)
                parts.append(sampler.draw(text[first : first + _CHUNK], first, [*seeds, side]))
                bar.update(len(parts[-1]))
            lengths = np.concatenate([part.lengths() for part in parts])
            sides.append(TokenArray(np.concatenate([part.tokens for part in parts]), offsets_of(lengths)))
    return replace(corpus, source=sides[0], target=sides[1])
