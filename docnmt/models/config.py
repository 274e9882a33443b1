"""What each translation architecture can be told. No torch here: these dataclasses are also the command line.

An architecture's configuration is put together from groups of options; every group extends `TransformerConfig`. A group
that changes a default or adds a condition says so itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from docnmt.config import Condition, below, no_share, option
from docnmt.models.position_rules import READ_POSITIONS, fusion_problems, width_problems
from docnmt.reading import PositionCount, ReadingPlan
from docnmt.registry import FUSIONS, MERGES, POSITIONS

#: What `--target-top-t` is when nobody says.
DEFAULT_TARGET_TOP_T = 4


@dataclass(frozen=True)
class TransformerConfig:
    """The encoder-decoder that all architectures share."""

    default_task: ClassVar[str] = "document_translation"

    #: Options that do not change what weights mean: a model may start from weights that were trained with others.
    free: ClassVar[tuple[str, ...]] = ("checkpoint_activations",)
    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition(("max_positions",), "position", ("learned", "relative_input")),
        Condition(("max_positions",), "position_fusion", READ_POSITIONS),
    )

    encoder_layers: int = option(6, "layers of the encoder")
    decoder_layers: int = option(6, "layers of the decoder")
    embed_dim: int = option(512, "width of the model")
    heads: int = option(8, "attention heads; divides --embed-dim")
    ffn_dim: int = option(2048, "inner width of the feed-forward blocks")
    dropout: float = option(0.1, "dropout on embeddings and on the output of every block", basic=True)
    activation: Literal["relu", "gelu", "swish"] = option("relu", "of the feed-forward blocks")
    norm: Literal["pre", "post"] = option("pre", "layer norm before a block, or after its residual sum")
    share_embeddings: bool = option(True, "one embedding matrix for source and target (needs a joined dictionary)")
    tie_output: bool = option(True, "the output layer's matrix is the target's embeddings")
    output_bias: bool = option(False, "the output layer has a bias, a number for each entry of the vocabulary")
    scale_embeddings: bool = option(True, "embeddings are multiplied by the square root of --embed-dim")
    position: str = option("sinusoidal", "position family", choices=POSITIONS.names)
    attention: Literal["softmax", "linear"] = option(
        "softmax", "over a word's own span and its source's: softmax, or kernelised in linear time"
    )
    relative_horizon: int | None = option(
        None, "r of relative positions: farther words share an embedding [16 with --position relative]", metavar="R"
    )
    position_fusion: str = option(
        "add", "how positions join the embeddings (gate_conv: in text classification only)", choices=FUSIONS.names
    )
    max_positions: int = option(1024, "learned, relative_input: rows of the table; words farther on share the last")
    checkpoint_activations: bool = option(False, "compute layers again in the backward pass: less memory, slower")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = below(self, 1, "encoder_layers", "decoder_layers", "embed_dim", "heads", "ffn_dim", "max_positions")
        if not found and self.embed_dim % self.heads:
            found.append(f"--heads {self.heads} does not divide --embed-dim {self.embed_dim}")
        if not found:
            found += width_problems(self.position, self.embed_dim, self.heads)
        found += no_share(self, "dropout")
        found += fusion_problems(self.position, self.position_fusion) + self._attention_problems()
        if self.position_fusion == "gate_conv":
            found.append(
                "--position-fusion gate_conv reads the next word's position, which a decoder does not have at a "
                "sentence's end; choose another operator (gate_scalar, gate_mlp) or use it in text classification"
            )
        return found

    @property
    def horizon(self) -> int:
        """r of the relative positions inside attention; 0 without them."""
        return self.relative_horizon or 0 if self.position != "relative" else self.relative_horizon or 16

    def _attention_problems(self) -> list[str]:
        if self.attention == "linear" and self.position in ("rope", "alibi"):
            return [f"--attention linear has no scores for --position {self.position} to act on; use another family"]
        if self.relative_horizon is None:
            return []
        least = int(self.position == "relative")
        if self.relative_horizon < least:
            return [f"--relative-horizon: must be at least {least}, got {self.relative_horizon}"]
        if self.attention == "softmax" and self.position != "relative":
            return ["--relative-horizon has no effect without --position relative or --attention linear"]
        return []


@dataclass(frozen=True)
class CopyTransformerConfig(TransformerConfig):
    """A pointer to earlier translations."""

    free: ClassVar[tuple[str, ...]] = ("copy_window",)

    copy_window: int = option(4096, "target subwords before a sentence that it can copy from", metavar="N", basic=True)

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        return super().problems() + below(self, 1, "copy_window")


_OF_LEVELS = ("levels", "learned_levels", "level_dropout", "level_scale")


@dataclass(frozen=True)
class LevelOptions(TransformerConfig):
    """Positions that know the structure of a text of several sentences."""

    free: ClassVar[tuple[str, ...]] = ("level_scale",)
    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition(_OF_LEVELS, "position", ("multi_level",)),
        Condition(("level_dropout",), "levels", (3, 4)),
        Condition(("learned_levels", "level_scale"), "levels", (2, 3, 4)),
        Condition((*_OF_LEVELS, "position_count"), "position_fusion", READ_POSITIONS),
    )

    position: str = option("multi_level", "position family", choices=POSITIONS.names)
    levels: int = option(3, "structural levels that positions know: 1 word, 2 sentence, 3 paragraph, 4 section")
    position_count: Literal["unit", "document"] = option(
        "unit", "count positions inside the parent unit, or from the document's start (the paper's PE135,4,2)"
    )
    learned_levels: bool = option(
        False, "levels above the word have learned tables of 1,024 rows, not sines; farther units share the last row"
    )
    level_dropout: float = option(
        0.1, "in training, how often paragraphs, or sections, are hidden from one side of a batch"
    )
    level_scale: float = option(0.7, "what positions above the word are multiplied by at the start; learned")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = super().problems()
        if not 1 <= self.levels <= 4:
            found.append(f"--levels: must be 1 to 4, got {self.levels}")
        if not 0 <= self.level_dropout <= 1:
            found.append(f"--level-dropout: must be in [0, 1], got {self.level_dropout}")
        return found

    @property
    def position_settings(self) -> dict[str, Any]:
        """What the position family is told."""
        return {name: getattr(self, name) for name in _OF_LEVELS} if self.position == "multi_level" else {}


@dataclass(frozen=True)
class StructuredConfig(LevelOptions):
    """Texts of several sentences that are one sequence."""

    conditions: ClassVar[tuple[Condition, ...]] = (Condition(("position_count",), "position", ("multi_level",)),)

    @property
    def joined_count(self) -> PositionCount:
        """How positions count where sentences are joined: families of one level along the whole sequence."""
        return self.position_count if self.position == "multi_level" else "sequence"


@dataclass(frozen=True)
class ConcatConfig(StructuredConfig):
    """A few sentences as one sequence (Tiedemann and Scherrer 2017)."""

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
class ScaleformerConfig(StructuredConfig):
    """Linear attention with relative positions in encoder and decoder (Favier and Dal'Maz Silva)."""

    position: str = option("none", "position family of the embeddings, besides relative ones", choices=POSITIONS.names)
    attention: Literal["softmax", "linear"] = option("linear", "linear: a Scaleformer has no other")
    relative_horizon: int | None = option(16, "r of relative positions inside attention; 0 for none", metavar="R")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        if self.attention != "linear":
            return ["scaleformer needs --attention linear; for softmax take doc_transformer"]
        return super().problems()


@dataclass(frozen=True)
class ContextOptions(TransformerConfig):
    """A context attention in encoder and decoder."""

    free: ClassVar[tuple[str, ...]] = ("target_top_t",)
    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition(("summary_input",), "context_sides", ("both", "encoder")),
        Condition(("context_norm",), "norm", ("post",)),
    )

    context_placement: Literal["block", "heads", "replace"] = option(
        "block", "context attention as a block of its own, as extra heads, or in place of self-attention heads"
    )
    context_norm: Literal["pre", "post"] = option(
        "post", "with --norm post, the layer norm of blocks that read a document: after the residual sum as in the "
        "others, or before the block, which so can start without an effect (--finetune-from-model)",
    )  # fmt: skip
    context_heads: int | None = option(None, "heads of the context attention [--heads; half of them for 'replace']")
    context_sides: Literal["both", "encoder", "decoder"] = option("both", "where there is a context attention")
    summary_input: Literal["layer", "embeddings"] = option(
        "layer",
        "source2token reads what every encoder layer's context attention reads (eq. 5), or the embeddings once "
        "(figure 1)",
    )
    context_word_dropout: float = option(
        0.0, "in training, how often a word is hidden from context attention (not from its own sentence)"
    )
    context_dropout: float = option(
        0.0, "in training, how often a document is read without context: each of its sentences reads itself alone"
    )
    target_context: Literal["none", "summaries", "conditional"] = option(
        "none", "what the decoder reads of the translations before its sentence: their summaries, or the words of the "
        "most relevant ones (eq. 7); the reference's in training, the model's own in decoding", basic=True,
    )  # fmt: skip
    target_top_t: int | None = option(
        None, "sentences that each word and head keeps with --target-context conditional [4]"
    )

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = super().problems() + no_share(self, "context_word_dropout", "context_dropout")
        found += below(self, 1, "context_heads", "target_top_t")
        if self.context_placement == "replace" and (self.context_heads or 1) >= self.heads:
            found.append(
                f"--context-placement replace: --context-heads {self.context_heads or 1} leaves no self-attention "
                f"head of --heads {self.heads}"
            )
        if self.target_top_t is not None and self.target_context != "conditional":
            found.append("--target-top-t has no effect without --target-context conditional")
        return found


@dataclass(frozen=True)
class HierTransformerConfig(ContextOptions, LevelOptions):
    """Whole documents: structural positions and a context attention (Trankova and Rykunov, figure 1).

    What two sentences say must at first weigh more than where they stand: else attention over the document finds the
    nearest sentence, not the one about the same thing. Where sentences are joined, places must tell them apart.
    """

    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition(
            ("position_count",), "position", ("multi_level", "sinusoidal", "learned", "rope_input", "relative_input")
        ),
    )

    # groups that extend one class bring all its defaults again, so what a group changed must be said once more
    position: str = option("multi_level", "position family", choices=POSITIONS.names)
    level_scale: float = option(0.1, "what positions above the word are multiplied by at the start; learned")

    @property
    def reading(self) -> ReadingPlan:
        """Whole documents, each sentence a sequence of its own."""
        own_text = self.target_context != "none"
        return ReadingPlan(
            written=None, positions=self.position_count, own_text=own_text, dropped_context=self.context_dropout
        )


@dataclass(frozen=True)
class CondTransformerConfig(HierTransformerConfig):
    """ConditionalAttention (Trankova and Rykunov, eq. 7)."""

    free: ClassVar[tuple[str, ...]] = ("top_t", "read_all_updates", "always_own_sentence")

    top_t: int = option(4, "sentences that each word and head keeps", basic=True)
    read_all_updates: int = option(
        0, "read every sentence of a document in the first so many updates, then only --top-t (short documents only: "
        "this costs quadratic time)"
    )  # fmt: skip
    always_own_sentence: bool = option(
        False, "a word's own sentence (a target word's: the one it translates) is always among those it keeps"
    )

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = super().problems() + below(self, 1, "top_t")
        if self.read_all_updates < 0:
            found.append(f"--read-all-updates: must not be negative, got {self.read_all_updates}")
        if self.always_own_sentence and self.top_t == 1:
            found.append("--always-own-sentence with --top-t 1 leaves no other sentence; give --top-t 2 or more")
        return found

    def notes(self) -> list[str]:
        """What is worth knowing before an hour is spent on it."""
        flags = {"--top-t": self.top_t == 1, "--target-top-t": self.target_top_t == 1}
        return [
            f"{flag} 1: softmax does not see the relevance of a sentence that is read alone, so the choice gets no "
            "gradient and is not learned; 2 or more learn it"
            for flag, alone in flags.items()
            if alone
        ]


@dataclass(frozen=True)
class HierCondTransformerConfig(CondTransformerConfig):
    """HierarchicalCondAtt (Trankova and Rykunov, section 3.3)."""

    merge: str | None = option(
        None,
        "find sentences by a tree over the summaries (ConstructBT, TraverseTree) with this Merge(left, right), not "
        "through blocks of neighbouring sentences",
        choices=MERGES.names,
    )
    select_on: Literal["cumulative", "node"] = option(
        "cumulative", "with --merge: the top t of a tree level are chosen by the sum of relevances on their path, or "
        "by their own",
    )  # fmt: skip

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = super().problems()
        if self.merge is None and self.select_on != "cumulative":
            found.append(f"--select-on {self.select_on} has no effect without --merge: no tree is descended")
        return found
