"""The options of architectures with a context attention.

This file imports no torch: the command line reads it, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from docnmt.core.models.config import TransformerConfig
from docnmt.core.models.sequence_config import ABOVE_WORDS, LevelOptions
from docnmt.core.reading import ReadingPlan
from docnmt.registry.options import Except, Needs, Open, option
from docnmt.registry.registry import MERGES, POSITIONS

#: The default of `--target-top-t`.
DEFAULT_TARGET_TOP_T = 4

_OWN_BLOCK = Needs(
    "context_blocks",
    says="a block that reads the document alone: give --context-placement block or --target-context",
    typed=True,
)


@dataclass(frozen=True)
class ContextOptions(TransformerConfig):
    """Options of a context attention in encoder and decoder."""

    free: ClassVar[tuple[str, ...]] = ("target_top_t", "equal_start")

    context_placement: Literal["block", "heads", "replace"] = option(
        "block", "context attention as a block of its own, as extra heads, or in place of self-attention heads"
    )
    context_norm: Literal["pre", "post"] = option(
        "post",
        "the layer norm of blocks that read a document: after the residual sum as in the "
        "others, or before the block, which so can start without an effect (--finetune-from-model)",
        needs=[Needs("norm", ("post",), typed=True), _OWN_BLOCK],
    )
    context_heads: int | None = option(
        None,
        "heads of the context attention; 'replace' may take all of --heads [--heads; half of them for 'replace']",
        between=(1, None),
    )
    equal_start: bool = option(
        True,
        "queries and keys of context attention start with the same projections, so that at first a word finds "
        "what resembles it",
    )
    context_sides: Literal["both", "encoder", "decoder"] = option("both", "where there is a context attention")
    summary_input: Literal["layer", "embeddings"] = option(
        "layer",
        "source2token reads what every encoder layer's context attention reads (eq. 5), or the embeddings once "
        "(figure 1)",
        needs=Needs("context_sides", ("both", "encoder"), typed=True),
    )
    context_word_dropout: float = option(
        0.0,
        "in training, how often a word is hidden from context attention (not from its own sentence)",
        between=(0, Open(1)),
    )
    context_dropout: float = option(
        0.0,
        "in training, how often a document is read without context: each of its sentences reads itself alone",
        between=(0, Open(1)),
    )
    target_context: Literal["none", "summaries", "conditional"] = option(
        "none",
        "what the decoder reads of the translations before its sentence: their summaries, or the words of the "
        "most relevant ones (eq. 7); the reference's in training, the model's own in decoding",
        basic=True,
    )
    target_top_t: int | None = option(
        None,
        "sentences that each word and head keeps of earlier translations [4]",
        between=(1, None),
        needs=Needs("target_context", ("conditional",)),
    )

    @property
    def heads_of_context(self) -> int:
        """The number of heads of a layer's context attention."""
        return self.context_heads or (max(1, self.heads // 2) if self.context_placement == "replace" else self.heads)

    @property
    def heads_beside_context(self) -> int:
        """The number of heads left to the sublayer beside it; 0: there is no such sublayer."""
        return self.heads - (self.heads_of_context if self.context_placement == "replace" else 0)

    @property
    def context_blocks(self) -> bool:
        """True if a block of some layer reads the document and nothing else."""
        return self.context_placement == "block" or not self.heads_beside_context or self.target_context != "none"

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        found = super().problems()
        if self.context_placement == "replace" and (self.context_heads or 1) > self.heads:
            found.append(
                f"--context-placement replace: there are no --context-heads {self.context_heads} to replace among the "
                f"--heads {self.heads}"
            )
        return found


@dataclass(frozen=True)
class HierTransformerConfig(ContextOptions, LevelOptions):
    """Options of document models: structural positions and a context attention (Trankova and Rykunov, figure 1).

    At first the content of two sentences must weigh more than their places: else attention over the document finds the
    nearest sentence, not the one about the same thing. If sentences are joined, places must tell them apart.
    """

    also_needs: ClassVar[dict[str, Needs]] = {
        "position_count": Needs(
            "position", ("multi_level", "sinusoidal", "learned", "rope_input", "relative_input"), typed=True
        )
    }

    # a group that extends a class brings that class's defaults again, so defaults changed by a group are repeated here
    position: str = option("multi_level", "position family", choices=POSITIONS.names)
    level_scale: float = option(
        0.1, "what positions above the word are multiplied by at the start; learned", needs=ABOVE_WORDS
    )

    @property
    def reading(self) -> ReadingPlan:
        """The reading plan: whole documents, each sentence a sequence of its own."""
        own_text = self.target_context != "none"
        return ReadingPlan(
            written=None, positions=self.position_count, own_text=own_text, dropped_context=self.context_dropout
        )


@dataclass(frozen=True)
class CondTransformerConfig(HierTransformerConfig):
    """Options of ConditionalAttention (Trankova and Rykunov, eq. 7)."""

    free: ClassVar[tuple[str, ...]] = ("top_t", "read_all_updates", "always_own_sentence")

    top_t: int = option(4, "sentences that each word and head keeps", basic=True, between=(1, None))
    read_all_updates: int = option(
        0,
        "read every sentence of the source document in the first so many updates, then only --top-t (short "
        "documents only: this costs quadratic time)",
        between=(0, None),
    )
    always_own_sentence: bool = option(
        False,
        "a word's own sentence (a target word's: the one it translates) is always among those it keeps",
        needs=Needs("top_t", Except((1,))),
    )

    def notes(self) -> list[str]:
        """Return warnings about options that would waste a training run."""
        flags = {"--top-t": self.top_t == 1, "--target-top-t": self.target_top_t == 1}
        return [
            f"{flag} 1: softmax does not see the relevance of a sentence that is read alone, so the choice gets no "
            "gradient and is not learned; 2 or more learn it"
            for flag, alone in flags.items()
            if alone
        ]


@dataclass(frozen=True)
class HierCondTransformerConfig(CondTransformerConfig):
    """Options of HierarchicalCondAtt (Trankova and Rykunov, section 3.3)."""

    merge: str | None = option(
        None,
        "find sentences by a tree over the summaries (ConstructBT, TraverseTree) with this Merge(left, right), not "
        "through blocks of neighbouring sentences",
        choices=MERGES.names,
    )
    select_on: Literal["cumulative", "node"] = option(
        "cumulative",
        "the top t of a tree level are chosen by the sum of relevances on their path, or by their own",
        needs="merge",
    )

    count_copies: bool = option(
        True,
        "the relevance of a node without a sibling, of which its parent is a copy, is added to the sum a second time",
        needs="merge",
    )
