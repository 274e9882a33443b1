"""The options of architectures whose texts have several sentences: structural positions, joined sentences.

This file imports no torch: the command line reads it, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from docnmt.core.models.config import TransformerConfig
from docnmt.core.models.position_rules import READ_POSITIONS
from docnmt.core.reading import PositionCount
from docnmt.registry.options import Condition, Except, below, no_share, option
from docnmt.registry.registry import POSITIONS

_OF_LEVELS = ("levels", "learned_levels", "learned_words", "level_scale")


@dataclass(frozen=True)
class LevelOptions(TransformerConfig):
    """Options of positions that know the structure of a text of several sentences."""

    free: ClassVar[tuple[str, ...]] = ("level_scale",)
    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition(_OF_LEVELS, "position", ("multi_level",)),
        Condition(("learned_levels", "level_scale"), "levels", (2, 3, 4)),
        Condition((*_OF_LEVELS, "position_count"), "position_fusion", READ_POSITIONS),
    )

    position: str = option("multi_level", "position family", choices=POSITIONS.names)
    levels: int = option(3, "structural levels that positions know: 1 word, 2 sentence, 3 paragraph, 4 section")
    position_count: Literal["unit", "document", "mixed"] = option(
        "unit", "count positions inside the parent unit; all from the document's start; or words from there and the "
        "others inside the parent unit (the paper's PE135,4,2: word 135 of the text, in sentence 4 of paragraph 2)",
    )  # fmt: skip
    learned_levels: bool = option(False, "levels above the word have learned tables of --max-positions rows, not sines")
    learned_words: bool = option(False, "the word's level has a learned table, too")
    level_scale: float = option(0.7, "what positions above the word are multiplied by at the start; learned")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = super().problems()
        if not 1 <= self.levels <= 4:
            found.append(f"--levels: must be 1 to 4, got {self.levels}")
        return found

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

    conditions: ClassVar[tuple[Condition, ...]] = (Condition(("position_count",), "position", ("multi_level",)),)

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

    conditions: ClassVar[tuple[Condition, ...]] = (Condition(("source_breaks",), "source_context", Except((0,))),)

    position: str = option("sinusoidal", "position family", choices=POSITIONS.names)
    source_context: int = option(
        1, "source sentences that are read before the last one translated", metavar="K", basic=True
    )
    target_window: int = option(
        1, "sentences translated together, the last of those read (2-to-1: K=1 J=1; 2-to-2: K=1 J=2)", metavar="J",
        basic=True,
    )  # fmt: skip
    window_stride: int | None = option(
        None, "windows begin so many sentences after one another; where they overlap, a translation is kept from the "
        "first that has it (1: sliding) [J: no overlap]", metavar="N",
    )  # fmt: skip
    context_word_dropout: float = option(
        0.0, "in training, how often a word of a sentence that is only read is replaced by <mask>"
    )

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = super().problems()
        found += below(self, 0, "source_context")
        found += no_share(self, "context_word_dropout")
        if self.context_word_dropout and self.target_window == self.source_context + 1:
            found.append("--context-word-dropout has no effect where all sentences that are read are translated")
        if self.target_window < 1:
            found.append(f"--target-window: must be at least 1, got {self.target_window}")
        elif not found and self.target_window > self.source_context + 1:
            found.append(
                f"--target-window {self.target_window} translates sentences that are not read: --source-context "
                f"{self.source_context} reads {self.source_context + 1}; give at least {self.target_window - 1}"
            )
        if self.window_stride is not None and not 1 <= self.window_stride <= max(self.target_window, 1):
            found.append(
                f"--window-stride: must be 1 to --target-window ({self.target_window}), got {self.window_stride}"
            )
        return found


@dataclass(frozen=True)
class ScaleformerConfig(JoinedConfig):
    """Options of linear attention with relative positions in encoder and decoder (Favier and Dal'Maz Silva)."""

    position: str = option("none", "position family of the embeddings, besides relative ones", choices=POSITIONS.names)
    attention: Literal["softmax", "linear"] = option("linear", "linear: a Scaleformer has no other")
    relative_horizon: int | None = option(16, "r of relative positions inside attention; 0 for none", metavar="R")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        if self.attention != "linear":
            return ["scaleformer needs --attention linear; for softmax take doc_transformer"]
        return super().problems()
