"""Where a token stands: encodings that enter with the embeddings, and families that act inside attention."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from docnmt.modules.layers import DocumentPart, Dropout
from docnmt.registry import POSITIONS, UNFUSED
from docnmt.runtime.device import happens, to_device
from docnmt.runtime.system import UsageError

# Encodings of indices: sines and cosines or learned rows, of one structural level or added up over several.

logger = logging.getLogger(__name__)

#: What the columns of positions (T, 4) count. A column has the index of a word, or of its unit, in the unit above.
LEVELS = ("word", "sentence", "paragraph", "section")


def sinusoids(length: int, d_model: int, *, concatenated: bool = False) -> Tensor:
    """(length, d_model) float64: sin and cos of i / 10000^(2f / d_model), f = 0, 1, … (Vaswani et al. 2017, 3.5).

    Features alternate sin, cos, sin, … as in the paper; `concatenated` puts all sines first.
    """
    frequencies = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies  # (length, d_model / 2)
    pairs = torch.stack([angles.sin(), angles.cos()], dim=1 if concatenated else 2)
    return pairs.flatten(1)[:, :d_model]


def _fairseq_sinusoids(length: int, d_model: int) -> Tensor:
    """(length, d_model) float64: fairseq's sin, then cos, of the places 0, 1, …, counted from 2 (M2M100, NLLB)."""
    half = d_model // 2
    frequencies = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10000.0) / (half - 1)))
    angles = torch.arange(2, length + 2, dtype=torch.float64)[:, None] * frequencies  # (length, d_model / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class _Indexed(nn.Module, ABC):
    """An encoding of positions (T, 4) that reads how far they reach, where a GPU stops, unless the host knows it."""

    @abstractmethod
    def forward(self, positions: Tensor, highest: Sequence[int] | None = None) -> Tensor:
        """(T, 4) → (T, d_model); an unknown index (-1) is encoded as 0. highest: the largest index of each column."""

    @staticmethod
    def reach(positions: Tensor, column: int, highest: Sequence[int] | None) -> int:
        """The largest index of a column; -1 without positions."""
        if highest is not None:
            return highest[column]
        return int(positions[:, column].max()) if positions.shape[0] else -1  # torch cannot export len()


class Sinusoidal(_Indexed):
    """Sines and cosines of one column of the positions. Any index is encoded exactly: the table grows when needed.

    Args:
        column: which level's index to encode (0 word, 1 sentence, 2 paragraph, 3 section).
        shift: rotate the features by this many places, so that several levels can be told apart in their sum.
        concatenated: all sines before all cosines: what the notebooks of "Fusion Matters" call RoPE.
        fairseq: as fairseq has them instead (`_fairseq_sinusoids`).
    """

    table: Tensor

    def __init__(
        self, d_model: int, *, column: int = 0, shift: int = 0, concatenated: bool = False, fairseq: bool = False
    ) -> None:
        if fairseq and d_model < 4:
            raise ValueError(f"d_model: fairseq's positions need a width of at least 4, got {d_model}")
        if d_model % 2:
            raise ValueError(f"d_model: sinusoidal positions need an even width, got {d_model}")
        super().__init__()
        self.d_model, self.column, self.shift, self.concatenated = d_model, column, shift, concatenated
        self.fairseq = fairseq
        self.register_buffer("table", torch.empty(0, d_model), persistent=False)

    def forward(self, positions: Tensor, highest: Sequence[int] | None = None) -> Tensor:
        needed = max(self.reach(positions, self.column, highest), 0) + 1
        if needed > len(self.table):
            length = max(512, 1 << (needed - 1).bit_length())
            if self.fairseq:
                table = _fairseq_sinusoids(length, self.d_model)
            else:
                table = sinusoids(length, self.d_model, concatenated=self.concatenated)
            table = table.roll(self.shift, dims=1)
            (self.table,) = to_device([table.to(self.table.dtype)], self.table.device)
        return self.table.index_select(0, positions[:, self.column].clamp(min=0))


class Learned(_Indexed):
    """A learned row for each index of one column. Indices past the end use the last row; the first time is reported.

    `std` is the standard deviation of the rows' initial values; 1/√d_model when None.
    """

    def __init__(self, d_model: int, *, length: int, column: int = 0, std: float | None = None) -> None:
        super().__init__()
        self.column, self.reported = column, False
        self.weight = nn.Parameter(torch.empty(length, d_model).normal_(std=d_model**-0.5 if std is None else std))

    def forward(self, positions: Tensor, highest: Sequence[int] | None = None) -> Tensor:
        index = positions[:, self.column]
        if not self.reported and (most := self.reach(positions, self.column, highest)) >= len(self.weight):
            self.reported = True
            level, length = LEVELS[self.column], len(self.weight)
            text = "a %s index of %d is past the %d learned positions: all indices from %d on share the last one "
            logger.warning(f"{text}(--max-positions)", level, most, length, length - 1)
        return nn.functional.embedding(index.clamp(0, len(self.weight) - 1), self.weight)


class MultiLevel(_Indexed, DocumentPart):
    """PE(word) + Σ_level scale_level · PE_level(index): where a word stands in its sentence, paragraph and section.

    Were all levels encoded alike, word 3 of sentence 5 and word 5 of sentence 3 would, with equal scales, be the same
    point; so each level's sines are rotated against the word's, fast frequencies onto slow ones. (They are not
    orthogonal: the mean cosine of two levels is .25 to .62, that of two words .66.)

    A level that is unknown (-1) has its own embedding, initially 0. In training a level that a corpus may lack
    (paragraph, section) is hidden with probability `level_dropout`, so that it is learned: from all of one side of a
    batch, each side for itself.

    Args:
        levels: how many levels, 1 (words only) to 4.
        learned, learned_words: encode the higher levels, or the word, by learned tables of `length` rows instead.
        length: rows of those tables.
        level_dropout: probability of hiding a level.
        scale: of each higher level at the start; learned.
        fairseq: the word's sines are fairseq's.
    """

    def __init__(
        self, d_model: int, *, levels: int = 2, learned: bool = False, learned_words: bool = False,
        length: int = 1024, level_dropout: float = 0.1, scale: float = 0.7, fairseq: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if not 1 <= levels <= 4:
            raise ValueError(f"levels: expected 1 (word) to 4 (word, sentence, paragraph, section), got {levels}")
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
        with torch.no_grad():
            self.scale.zero_()

    def forward(self, positions: Tensor, highest: Sequence[int] | None = None) -> Tensor:
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


# The embedding of tokens and positions, which is the first layer's input.


class Embedding(nn.Module):
    """dropout(norm(fusion(sE, P))): token embeddings fused with an encoding of their positions.

    Args:
        tokens: the embedding matrix; may be shared with other embeddings and the output layer.
        position: (T, 4) positions → (T, d), or None for families that act inside attention and for no position.
        fusion: how both are joined; needed when there is a position.
        scale: s; √d when None. norm: applied to the result; None for none.
    """

    def __init__(
        self, *, tokens: nn.Embedding, position: nn.Module | None, fusion: nn.Module | None, dropout: float,
        scale: float | None = None, norm: nn.Module | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if (position is None) != (fusion is None):
            raise ValueError("an embedding has both a position and its fusion, or neither")
        self.tokens, self.position, self.fusion, self.norm = tokens, position, fusion, norm
        self.dropout = Dropout(dropout)
        self.scale = tokens.embedding_dim**0.5 if scale is None else scale

    def forward(
        self, tokens: Tensor, positions: Tensor, offsets: Tensor | None = None, highest: Sequence[int] | None = None
    ) -> Tensor:
        """tokens (T,), positions (T, 4), where each sentence begins (S+1,), largest positions if known → (T, d)."""
        x = self.tokens(tokens) * self.scale
        if self.position is not None and self.fusion is not None:
            known = (highest,) if isinstance(self.position, _Indexed) else ()
            x = self.fusion(x, self.position(positions, *known).to(x.dtype), offsets)
        if self.norm is not None:
            x = self.norm(x)
        return cast(Tensor, self.dropout(x) if self.training else x)


class WordDropout(nn.Module):
    """In training, each word's state is 0 with probability `p`; the others stay as they are, unscaled."""

    def __init__(self, p: float) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"p: expected a probability from 0 to 1, got {p}")
        super().__init__()
        self.p = p

    def forward(self, words: Tensor) -> Tensor:
        if not self.training or not self.p:
            return words
        return words * (torch.rand(len(words), 1, device=words.device) >= self.p)


# Families that act inside softmax self-attention, between the words of one span.


class AttentionPosition(nn.Module):
    """What a family may do inside attention; each does one of the two."""

    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """Queries (Tq, h, d) and keys (Tk, h, d) with the positions (Tq,), (Tk,) of their words inside their spans."""
        return q, k

    def distance_scores(self, q: Tensor, max_distance: int) -> Tensor | None:
        """What is added to the scaled scores by distance: (h, 2r+1) or (T, h, 2r+1), or None for nothing.

        Column r + clip(j − i, −r, r) for query i and key j of a span. `max_distance`: at least the greatest
        |j − i| of the batch.
        """
        return None


class Rotary(AttentionPosition):
    """Rotary positions (Su et al. 2021): pairs of features turn by angles that grow with the position.

    Feature f is paired with f + d/2 (the paper pairs neighbours: the same up to an order of the features, which the
    projections learn).
    """

    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        return rotated(q, q_positions), rotated(k, k_positions)


def rotated(x: Tensor, positions: Tensor) -> Tensor:
    """x (T, h, d) turned by `positions` (T,): features (f, f + d/2) by the angle position / 10000^(2f / d)."""
    half, odd = divmod(x.shape[-1], 2)
    if odd:
        raise ValueError(f"rotary positions need an even width of a head, got {x.shape[-1]}")
    precise = torch.promote_types(x.dtype, torch.float32)
    frequencies = 10000.0 ** (-torch.arange(half, device=x.device, dtype=precise) / half)
    angles = positions.to(precise)[:, None, None] * frequencies  # (T, 1, d / 2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class RelativeKeys(AttentionPosition):
    """Relative positions (Shaw et al. 2018, eq. 4): the score of key j is q·(k_j + a_clip(j−i, −r, r)) / √d.

    One table shared by the heads, for keys only (Shaw et al. found the values' table to add nothing, section 4.3).

    Args:
        d_head: width d of a head.
        max_distance: r; farther keys share the farthest embedding.
    """

    def __init__(self, d_head: int, max_distance: int = 16) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2 * max_distance + 1, d_head).normal_(std=d_head**-0.5))

    def distance_scores(self, q: Tensor, max_distance: int) -> Tensor:
        return torch.matmul(q * q.shape[-1] ** -0.5, self.weight.t())  # (T, h, 2r+1)


class Alibi(AttentionPosition):
    """ALiBi (Press et al. 2022): −slope·|j − i| on each score, slopes geometric over the heads; no parameters.

    The paper's masked attention sees the past only; the symmetric form serves both directions. The table reaches as far
    as the batch's longest span, so no distance is clipped.

    Args:
        heads: number of heads; for a count that is no power of two the missing slopes are every other one of the next
            power's, as the authors do.
    """

    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        power = 1 << (heads.bit_length() - 1)  # 2^(−8/n), 2^(−16/n), … for n heads, else completed from 2n
        slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        slopes += [2 ** (-8 * (i + 1) / (2 * power)) for i in range(0, 2 * (heads - power), 2)]
        self.register_buffer("slopes", torch.tensor(slopes), persistent=False)

    def distance_scores(self, q: Tensor, max_distance: int) -> Tensor:
        """−slope·|distance|, (h, 2r+1)."""
        distance = torch.arange(-max_distance, max_distance + 1, device=q.device).abs()
        precise = torch.promote_types(q.dtype, torch.float32)
        return -self.slopes.to(precise)[:, None] * distance.to(precise)  # (h, 2r+1)


# From a registered name to the modules of a family.


@dataclass(frozen=True, kw_only=True)
class PositionSettings:
    d_model: int  # width of the embeddings
    levels: int = 2  # structural levels of `multi_level`, 1 to 4
    learned_levels: bool = False  # learned tables for the levels above the word
    learned_words: bool = False  # and for the word's
    level_scale: float = 0.7  # see `MultiLevel`
    max_positions: int = 1024  # rows of learned tables
    max_distance: int = 16  # r of relative positions
    std: float | None = None  # of learned tables of word positions, at first; 1/√d_model when None
    sinusoids: str = "paper"  # of word positions: `paper` or `fairseq`


@dataclass(frozen=True)
class Position:
    """A family. `input` encodes positions (T, 4) as (T, d_model); `attention(heads, d_head)` makes a layer's module."""

    input: nn.Module | None = None
    attention: Callable[[int, int], AttentionPosition] | None = None


def build_position(
    name: str, d_model: int, *, options: Mapping[str, object] | None = None, **settings: Any
) -> Position:
    """The family `name` (registry of positions), with fields of `PositionSettings` and the options it brings itself."""
    return POSITIONS.get(name)(PositionSettings(d_model=d_model, **settings), **(options or {}))


def check_fusion(name: str, position: Position, fusion: str) -> None:
    """Refuse an operator where the family `name` has no input to fuse; only a plug-in's gets here with one."""
    if position.input is None and fusion not in UNFUSED:
        raise UsageError(f"--position-fusion {fusion}: --position {name} has nothing to fuse; use another family")


def none(settings: PositionSettings) -> Position:
    return Position()


def sinusoidal(settings: PositionSettings) -> Position:
    return Position(input=Sinusoidal(settings.d_model, fairseq=settings.sinusoids == "fairseq"))


def learned(settings: PositionSettings) -> Position:
    return Position(input=Learned(settings.d_model, length=settings.max_positions, std=settings.std))


def multi_level(settings: PositionSettings) -> Position:
    levels = MultiLevel(
        settings.d_model,
        levels=settings.levels,
        learned=settings.learned_levels,
        learned_words=settings.learned_words,
        length=settings.max_positions,
        scale=settings.level_scale,
        fairseq=settings.sinusoids == "fairseq",
    )
    return Position(input=levels)


def rope_input(settings: PositionSettings) -> Position:
    """The notebooks' "RoPE": a sinusoidal table with its features in another order, given to the fusion."""
    return Position(input=Sinusoidal(settings.d_model, concatenated=True))


def relative_input(settings: PositionSettings) -> Position:
    """The notebooks' "relative": a learned table of absolute indices with unit variance, given to the fusion."""
    return Position(input=Learned(settings.d_model, length=settings.max_positions, std=1.0))


def rope(settings: PositionSettings) -> Position:
    return Position(attention=lambda heads, d_head: Rotary())


def relative(settings: PositionSettings) -> Position:
    return Position(attention=lambda heads, d_head: RelativeKeys(d_head, settings.max_distance))


def alibi(settings: PositionSettings) -> Position:
    return Position(attention=lambda heads, d_head: Alibi(heads))
