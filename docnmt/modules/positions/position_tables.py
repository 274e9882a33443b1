"""Encodings of indices: sines and cosines or learned rows, for one structural level or added up over several.

`MultiLevel` is section 1.2 of Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT".
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from docnmt.modules.layers import DocumentPart, check_at_least
from docnmt.runtime.graphs import happens
from docnmt.runtime.transfer import to_device

logger = logging.getLogger(__name__)

#: What the columns of positions (T, 4) count. A column has the index of a word, or of its unit, in the unit above.
LEVELS = ("word", "sentence", "paragraph", "section")


def check_column(column: int) -> None:
    """Raise ValueError where `column` is none of the columns of positions."""
    if not 0 <= column < len(LEVELS):
        raise ValueError(f"column: expected 0 to {len(LEVELS) - 1}, got {column}")


def sinusoids(length: int, d_model: int, *, concatenated: bool = False) -> Tensor:
    """(length, d_model) float64: sin and cos of i / 10000^(2f / d_model), f = 0, 1, … (Vaswani et al. 2017, 3.5).

    Features alternate sin, cos, sin, … as in the paper; `concatenated` puts all sines first.
    """
    frequencies = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies  # (length, d_model / 2)
    pairs = torch.stack([angles.sin(), angles.cos()], dim=1 if concatenated else 2)
    return pairs.flatten(1)[:, :d_model]


def fairseq_sinusoids(length: int, d_model: int) -> Tensor:
    """(length, d_model) float64: fairseq's encoding, of M2M100 and NLLB, of the places 0, 1, …, which it counts from 2.

    sin, then cos, of i / 10000^(f / (d_model / 2 - 1)): the last frequency is 1 / 10000 itself.
    """
    half = d_model // 2
    frequencies = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10000.0) / (half - 1)))
    angles = torch.arange(2, length + 2, dtype=torch.float64)[:, None] * frequencies  # (length, d_model / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Indexed(nn.Module, ABC):
    """An encoding of positions (T, 4) that must know how far they reach. Whoever has that on the host says it, as the
    largest index of each column; otherwise it is read from the positions, for which a GPU stops.
    """

    @abstractmethod
    def forward(self, positions: Tensor, highest: Sequence[int] | None = None) -> Tensor:
        """(T, 4) → (T, d_model)."""

    @staticmethod
    def reach(positions: Tensor, column: int, highest: Sequence[int] | None) -> int:
        """The largest index of a column; -1 without positions."""
        if highest is not None:
            return highest[column]
        return int(positions[:, column].max()) if positions.shape[0] else -1  # torch cannot export len()


class Sinusoidal(Indexed):
    """Sines and cosines of one column of the positions. Any index is encoded exactly: the table grows when needed.

    Args:
        d_model: width of the encoding; even.
        column: which level's index to encode (0 word, 1 sentence, 2 paragraph, 3 section).
        shift: rotate the features by this many places, so that several levels can be told apart in their sum.
        concatenated: all sines before all cosines: what the notebooks of "Fusion Matters" call RoPE.
        fairseq: as fairseq has them instead (`fairseq_sinusoids`).

    Raises:
        ValueError: `d_model` is odd, or below 4 for fairseq's, or there is no such level.
    """

    table: Tensor

    def __init__(
        self, d_model: int, *, column: int = 0, shift: int = 0, concatenated: bool = False, fairseq: bool = False
    ) -> None:
        if fairseq and d_model < 4:
            raise ValueError(f"d_model: fairseq's positions need a width of at least 4, got {d_model}")
        if d_model % 2:
            raise ValueError(f"d_model: sinusoidal positions need an even width, got {d_model}")
        check_column(column)
        super().__init__()
        self.d_model, self.column, self.shift, self.concatenated = d_model, column, shift, concatenated
        self.fairseq = fairseq
        self.register_buffer("table", torch.empty(0, d_model), persistent=False)

    def forward(self, positions: Tensor, highest: Sequence[int] | None = None) -> Tensor:
        """(T, 4) → (T, d_model); an unknown index (-1) is encoded as 0."""
        needed = max(self.reach(positions, self.column, highest), 0) + 1
        if needed > len(self.table):
            length = max(512, 1 << (needed - 1).bit_length())
            if self.fairseq:
                table = fairseq_sinusoids(length, self.d_model)
            else:
                table = sinusoids(length, self.d_model, concatenated=self.concatenated)
            table = table.roll(self.shift, dims=1)
            (self.table,) = to_device([table.to(self.table.dtype)], self.table.device)
        return self.table.index_select(0, positions[:, self.column].clamp(min=0))


class Learned(Indexed):
    """A learned row for each index of one column. Indices past the end use the last row; the first time is reported.

    Args:
        d_model: width of the encoding.
        length: number of rows.
        column: as in `Sinusoidal`.
        std: standard deviation of the rows' initial values; 1/√d_model when None.

    Raises:
        ValueError: there is no row, or no such level.
    """

    def __init__(self, d_model: int, *, length: int, column: int = 0, std: float | None = None) -> None:
        check_at_least(1, length=length)
        check_column(column)
        super().__init__()
        self.column, self.reported = column, False
        self.weight = nn.Parameter(torch.empty(length, d_model).normal_(std=d_model**-0.5 if std is None else std))

    def forward(self, positions: Tensor, highest: Sequence[int] | None = None) -> Tensor:
        """(T, 4) → (T, d_model); an unknown index (-1) is encoded as 0."""
        index = positions[:, self.column]
        if not self.reported and (most := self.reach(positions, self.column, highest)) >= len(self.weight):
            self.reported = True
            level = LEVELS[self.column]
            logger.warning(
                "a %s index of %d is past the %d learned positions: all indices from %d on share the last one "
                "(--max-positions)",
                level,
                most,
                len(self.weight),
                len(self.weight) - 1,
            )
        return nn.functional.embedding(index.clamp(0, len(self.weight) - 1), self.weight)


class MultiLevel(Indexed, DocumentPart):
    """PE(word) + Σ_level scale_level · PE_level(index): where a word stands in its sentence, paragraph and section.

    Were all levels encoded alike, word 3 of sentence 5 and word 5 of sentence 3 would, with equal scales, be the same
    point; so each level's sines are rotated against the word's, fast frequencies onto slow ones. The levels are not
    orthogonal: over the first 50 words and sentences and 10 paragraphs and sections the mean cosine of two levels is
    .25 (word and sentence) to .62, where that of two words is .66, and index 0 is the same point in all of them. With
    scales of 0 it is the word's level alone.

    A level that is unknown (-1) has its own embedding, initially 0. In training a level that a corpus may lack
    (paragraph, section) is hidden with probability `level_dropout`, so that it is learned: from all of one side of a
    batch, each side for itself.

    Args:
        d_model: width of the encoding; even.
        levels: how many levels, 1 (words only) to 4.
        learned, learned_words: encode the higher levels, or the word, by learned tables of `length` rows instead.
        length: rows of those tables.
        level_dropout: probability of hiding a level.
        scale: of each higher level at the start; learned.
        fairseq: the word's sines are fairseq's.

    Raises:
        ValueError: an argument is out of its range.
    """

    def __init__(
        self,
        d_model: int,
        *,
        levels: int = 2,
        learned: bool = False,
        learned_words: bool = False,
        length: int = 1024,
        level_dropout: float = 0.1,
        scale: float = 0.7,
        fairseq: bool = False,
    ) -> None:
        super().__init__()
        if not 1 <= levels <= 4:
            raise ValueError(f"levels: expected 1 (word) to 4 (word, sentence, paragraph, section), got {levels}")
        if not 0 <= level_dropout <= 1:
            raise ValueError(f"level_dropout: expected a probability, got {level_dropout}")
        self.level_dropout = level_dropout
        as_sines = 0.5**0.5  # the standard deviation of sines over all angles
        self.word = (
            Learned(d_model, length=length, std=as_sines) if learned_words else Sinusoidal(d_model, fairseq=fairseq)
        )
        self.higher = nn.ModuleList(
            Learned(d_model, length=length, column=column, std=as_sines)
            if learned
            else Sinusoidal(d_model, column=column, shift=(0, 2, 1, 3)[column] * (d_model // 4))
            for column in range(1, levels)
        )
        self.scale = nn.Parameter(torch.full((levels - 1,), scale))
        self.unknown = nn.Parameter(torch.zeros(levels - 1, d_model))

    def start_closed(self) -> None:
        """Only the word's place in its sentence is known."""
        with torch.no_grad():
            self.scale.zero_()

    def forward(self, positions: Tensor, highest: Sequence[int] | None = None) -> Tensor:
        """(T, 4) → (T, d_model)."""
        encoded: Tensor = self.word(positions, highest)
        for i, level in enumerate(self.higher):
            column = i + 1
            known = positions[:, column : column + 1] >= 0
            if self.training and column >= 2:
                hidden = happens(self.level_dropout)
                if isinstance(hidden, Tensor):
                    known = known & ~hidden
                elif hidden:
                    known = torch.zeros_like(known)
            encoded = encoded + self.scale[i] * torch.where(known, level(positions, highest), self.unknown[i])
        return encoded
