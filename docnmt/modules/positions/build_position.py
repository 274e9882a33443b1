"""From a registered name to the modules of a position family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from docnmt.modules.positions.attention_positions import Alibi, AttentionPosition, RelativeKeys, Rotary
from docnmt.modules.positions.position_tables import Learned, MultiLevel, Sinusoidal
from docnmt.registry.registry import POSITIONS
from docnmt.runtime.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class PositionSettings:
    """What a family may want to know.

    Attributes:
        d_model: width of the embeddings.
        levels: structural levels of `multi_level`, 1 to 4.
        learned_levels, learned_words: learned tables for the levels above the word, and for the word's.
        level_scale: see `MultiLevel`.
        max_positions: rows of learned tables.
        max_distance: r of relative positions.
        std: initial standard deviation of learned tables of word positions; 1/√d_model when None.
        sinusoids: of word positions: `paper` or `fairseq`.
    """

    d_model: int
    levels: int = 2
    learned_levels: bool = False
    learned_words: bool = False
    level_scale: float = 0.7
    max_positions: int = 1024
    max_distance: int = 16
    std: float | None = None
    sinusoids: str = "paper"


@dataclass(frozen=True)
class Position:
    """A family. `input` encodes positions (T, 4) as (T, d_model); `attention(heads, d_head)` makes a layer's module."""

    input: nn.Module | None = None
    attention: Callable[[int, int], AttentionPosition] | None = None


def build_position(
    name: str, d_model: int, *, options: Mapping[str, object] | None = None,
    **settings: Any,  # the fields of PositionSettings
) -> Position:  # fmt: skip
    """The family `name` (registry of positions) with `PositionSettings`.

    Args:
        options: values of the options that a family brings itself (`docnmt.registry.register_position`).

    Raises:
        ValueError: no such family, or a setting out of its range.
    """
    return POSITIONS.get(name)(PositionSettings(d_model=d_model, **settings), **(options or {}))


def check_fusion(name: str, position: Position, fusion: str) -> None:
    """Refuse an operator where the family `name` has no input to fuse; only a plug-in's gets here with one.

    Raises:
        UsageError: naming both.
    """
    if position.input is None and fusion not in ("add", "none"):
        raise UsageError(f"--position-fusion {fusion}: --position {name} has nothing to fuse; use another family")


def check_linear(name: str, inside: AttentionPosition | None) -> None:
    """Refuse what a family does inside attention where attention is linear; only a plug-in's gets here.

    Raises:
        UsageError: naming the family.
    """
    if inside is not None and not isinstance(inside, RelativeKeys):
        raise UsageError(f"--attention linear has no scores for --position {name} to act on; use another family")


def none(settings: PositionSettings) -> Position:
    """No position at all: attention sees a bag of words."""
    return Position()


def sinusoidal(settings: PositionSettings) -> Position:
    """Sines and cosines of the word's index."""
    return Position(input=Sinusoidal(settings.d_model, fairseq=settings.sinusoids == "fairseq"))


def learned(settings: PositionSettings) -> Position:
    """A learned vector for each word index."""
    return Position(input=Learned(settings.d_model, length=settings.max_positions, std=settings.std))


def multi_level(settings: PositionSettings) -> Position:
    """One encoding for each structural level, added up."""
    return Position(
        input=MultiLevel(
            settings.d_model,
            levels=settings.levels,
            learned=settings.learned_levels,
            learned_words=settings.learned_words,
            length=settings.max_positions,
            scale=settings.level_scale,
            fairseq=settings.sinusoids == "fairseq",
        )
    )


def rope_input(settings: PositionSettings) -> Position:
    """The notebooks' "RoPE": a sinusoidal table with its features in another order, given to the fusion."""
    return Position(input=Sinusoidal(settings.d_model, concatenated=True))


def relative_input(settings: PositionSettings) -> Position:
    """The notebooks' "relative": a learned table of absolute indices with unit variance, given to the fusion."""
    return Position(input=Learned(settings.d_model, length=settings.max_positions, std=1.0))


def rope(settings: PositionSettings) -> Position:
    """Rotary positions inside attention."""
    return Position(attention=lambda heads, d_head: Rotary())


def relative(settings: PositionSettings) -> Position:
    """Learned embeddings of the distance between words, inside attention."""
    return Position(attention=lambda heads, d_head: RelativeKeys(d_head, settings.max_distance))


def alibi(settings: PositionSettings) -> Position:
    """A penalty that grows with the distance between words, inside attention."""
    return Position(attention=lambda heads, d_head: Alibi(heads))
