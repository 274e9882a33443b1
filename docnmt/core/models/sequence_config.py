"""The options of architectures whose texts have several sentences: structural positions, joined sentences.

This file imports no torch: the command line reads it, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from docnmt.core.models.config import TransformerConfig
from docnmt.core.models.position_rules import READ_POSITIONS
from docnmt.core.reading import PositionCount
from docnmt.registry.options import Except, Needs, Open, option
from docnmt.registry.registry import POSITIONS

_OF_LEVELS = ("levels", "learned_levels", "learned_words", "level_scale")
_MULTI_LEVEL = Needs("position", ("multi_level",), typed=True)
_OF_LEVELS_NEED = [_MULTI_LEVEL, READ_POSITIONS]
#: The conditions for options of the levels above the word.
ABOVE_WORDS = [*_OF_LEVELS_NEED, Needs("levels", (2, 3, 4), typed=True)]


@dataclass(frozen=True)
class LevelOptions(TransformerConfig):
    """Options of positions that know the structure of a text of several sentences."""

    free: ClassVar[tuple[str, ...]] = ("level_scale",)
    position: str = option("multi_level", "position family", choices=POSITIONS.names)
    levels: int = option(
        3,
        "structural levels that positions know: 1 word, 2 sentence, 3 paragraph, 4 section",
        between=(1, 4),
        needs=_OF_LEVELS_NEED,
    )
    position_count: Literal["unit", "document", "mixed"] = option(
        "unit",
        "count positions inside the parent unit; all from the document's start; or words from there and the "
        "others inside the parent unit (the paper's PE135,4,2: word 135 of the text, in sentence 4 of paragraph 2)",
        needs=READ_POSITIONS,
    )
    learned_levels: bool = option(
        False, "levels above the word have learned tables of --max-positions rows, not sines", needs=ABOVE_WORDS
    )
    learned_words: bool = option(False, "the word's level has a learned table, too", needs=_OF_LEVELS_NEED)
    level_scale: float = option(
        0.7, "what positions above the word are multiplied by at the start; learned", needs=ABOVE_WORDS
    )

    @property
    def learned_tables(self) -> bool:
        """True if positions, of one level or several, are rows of learned tables."""
        of_levels = self.learned_words or (self.learned_levels and self.levels > 1)
        return of_levels if self.position == "multi_level" else super().learned_tables

    @property
    def position_settings(self) -> dict[str, Any]:
        """The keyword arguments of the position family."""
        return {name: getattr(self, name) for name in _OF_LEVELS} if self.position == "multi_level" else {}


@dataclass(frozen=True)
class StructuredConfig(LevelOptions):
    """Options of architectures that read several sentences as one sequence."""

    also_needs: ClassVar[dict[str, Needs]] = {"position_count": _MULTI_LEVEL}

    @property
    def joined_count(self) -> PositionCount:
        """The way positions are counted in joined sentences; families of one level count along the whole sequence."""
        return self.position_count if self.position == "multi_level" else "sequence"


@dataclass(frozen=True)
class JoinedConfig(StructuredConfig):
    """Options of sentences joined with a break token between them (Trankova and Rykunov, section 1.3.1), or without."""

    source_breaks: bool = option(
        True, "<brk> stands between the sentences of the source; without, only positions tell them apart (section 1.2)"
    )


@dataclass(frozen=True)
class ConcatConfig(JoinedConfig):
    """Options of the concatenation of a few sentences (Tiedemann and Scherrer 2017)."""

    also_needs: ClassVar[dict[str, Needs]] = {"source_breaks": Needs("source_context", Except((0,)), typed=True)}

    position: str = option("sinusoidal", "position family", choices=POSITIONS.names)
    source_context: int = option(
        1,
        "source sentences that are read before the last one translated",
        metavar="K",
        basic=True,
        between=(0, None),
    )
    target_window: int = option(
        1,
        "sentences translated together, the last of those read (2-to-1: K=1 J=1; 2-to-2: K=1 J=2)",
        metavar="J",
        basic=True,
        between=(1, None),
    )
    window_stride: int | None = option(
        None,
        "windows begin so many sentences after one another; where they overlap, a translation is kept from the "
        "first that has it (1: sliding) [J: no overlap]",
        metavar="N",
        between=(1, None),
    )
    context_word_dropout: float = option(
        0.0,
        "in training, how often a word of a sentence that is only read is replaced by <mask>",
        between=(0, Open(1)),
    )

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        found, read = super().problems(), self.source_context + 1
        if self.context_word_dropout and self.target_window == read:
            found.append("--context-word-dropout has no effect where all sentences that are read are translated")
        if self.target_window > read:
            found.append(f"--target-window: must be at most {read}, --source-context + 1, got {self.target_window}")
        if (self.window_stride or 1) > self.target_window:
            found.append(f"--window-stride: must be at most --target-window, got {self.window_stride}")
        return found


@dataclass(frozen=True)
class ScaleformerConfig(JoinedConfig):
    """Options of linear attention with relative positions in encoder and decoder (Favier and Dal'Maz Silva)."""

    position: str = option("none", "position family of the embeddings, besides relative ones", choices=POSITIONS.names)
    attention: Literal["softmax", "linear"] = option(
        "linear", "a Scaleformer has no other; with softmax it is a doc_transformer", choices=("linear",)
    )
    relative_horizon: int | None = option(
        16, "r of relative positions inside attention; 0 for none", metavar="R", between=(0, 1 << 17)
    )
