"""Subword sampling: other segmentations of the same text, by random numbers of our own.

SentencePiece samples, too, but its draws depend on its version and, from 0.2.2 on, on the process. Here a draw is a
function of its seeds and of the place in the text, so that a training can be repeated and resumed with any version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from docnmt.core.corpus import TokenArray, offsets_of, token_dtype
from docnmt.core.data.bpe import BpeWords
from docnmt.core.data.sentencepiece_model import BPE, BYTE, UNIGRAM, USER_DEFINED, read_model
from docnmt.core.data.tokenizer import UNK, Tokenizer
from docnmt.core.data.unigram import UnigramWords
from docnmt.runtime.errors import UserError

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
