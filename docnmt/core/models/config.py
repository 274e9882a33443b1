"""The options of each translation architecture. This file imports no torch: the command line reads it, too.

An architecture's configuration is put together from groups of options; every group extends `TransformerConfig`. A group
that changes a default or adds a condition says so itself. `sequence_config` has the groups for joined sentences and
their positions, `context_config` those for context attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from docnmt.core.models.position_rules import READ_POSITIONS, fusion_of, fusion_problems, width_problems
from docnmt.registry.options import Condition, Except, above, below, no_share, option
from docnmt.registry.registry import FUSIONS, POSITIONS


@dataclass(frozen=True)
class TransformerConfig:
    """Options of the encoder-decoder that all architectures share."""

    default_task: ClassVar[str] = "document_translation"

    #: Options that do not change the meaning of weights: a model may start from weights trained with other values.
    free: ClassVar[tuple[str, ...]] = ("checkpoint_activations",)
    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition(
            ("max_positions",), "learned_tables", (True,), "learned tables: --position learned or relative_input, or "
            "multi_level with --learned-levels or --learned-words",
        ),
        Condition(("max_positions",), "position_fusion", READ_POSITIONS),
        Condition(("sinusoids",), "position", ("sinusoidal", "multi_level")),
        Condition(("cross_relative",), "attention", ("linear",)),
        Condition(("cross_relative",), "horizon", Except((0,)), "relative positions: give --relative-horizon above 0"),
    )  # fmt: skip

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
    sinusoids: Literal["paper", "fairseq"] = option(
        "paper", "sines and cosines of word positions: the paper's, or fairseq's, which M2M100 and NLLB have"
    )
    attention: Literal["softmax", "linear"] = option(
        "softmax", "over a word's own span and its source's: softmax, or kernelised in linear time"
    )
    relative_horizon: int | None = option(
        None, "r of relative positions: farther words share an embedding [16 with --position relative]", metavar="R"
    )
    cross_relative: bool = option(
        True, "with --attention linear: relative positions in the attention to the source, too; the distance is that "
        "of a word's place in the translation and a word's in the source",
    )  # fmt: skip
    position_fusion: str = option(
        "", "how positions join the embeddings (gate_conv: in text classification only) [concat with --position "
        "sinusoidal and multi_level, add with the others]", choices=FUSIONS.names,
    )  # fmt: skip
    max_positions: int = option(1024, "rows of learned tables of positions; words, or units, farther on share the last")
    checkpoint_activations: bool = option(False, "compute layers again in the backward pass: less memory, slower")

    def __post_init__(self) -> None:
        """Store settings that follow from others in place of them, so that a checkpoint says what was trained."""
        object.__setattr__(self, "position_fusion", fusion_of(self.position, self.position_fusion))

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = below(self, 1, "encoder_layers", "decoder_layers", "embed_dim", "heads", "ffn_dim", "max_positions")
        found += above(self, 1000, "encoder_layers", "decoder_layers")
        found += above(self, 1 << 17, "embed_dim", "heads", "ffn_dim", "relative_horizon")
        found += above(self, 1 << 20, "max_positions")
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

    @property
    def learned_tables(self) -> bool:
        """True if positions are rows of learned tables."""
        return self.position in ("learned", "relative_input")

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
    """Options of a model with a pointer to earlier translations."""

    free: ClassVar[tuple[str, ...]] = ("copy_window",)

    copy_window: int = option(4096, "target subwords before a sentence that it can copy from", metavar="N", basic=True)

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        return super().problems() + below(self, 1, "copy_window")
