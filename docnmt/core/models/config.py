"""The options of each translation architecture. This file imports no torch: the command line reads it, too.

An architecture's configuration is put together from groups of options; every group extends `TransformerConfig`. A group
that changes a default or needs more of an option says so itself. `sequence_config` has the groups for joined
sentences and their positions, `context_config` those for context attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from docnmt.core.models.position_rules import READ_POSITIONS, fusion_of, position_problems
from docnmt.registry.options import Needs, Open, option
from docnmt.registry.registry import FUSIONS, POSITIONS

_TABLES = Needs(
    "learned_tables",
    says="learned tables: --position learned or relative_input, or multi_level with --learned-levels or "
    "--learned-words",
    typed=True,
)


@dataclass(frozen=True)
class TransformerConfig:
    """Options of the encoder-decoder that all architectures share."""

    default_task: ClassVar[str] = "document_translation"

    #: Options that do not change the meaning of weights. A model may start from weights trained with other values.
    free: ClassVar[tuple[str, ...]] = ("checkpoint_activations",)

    encoder_layers: int = option(6, "layers of the encoder", between=(1, 1000))
    decoder_layers: int = option(6, "layers of the decoder", between=(1, 1000))
    embed_dim: int = option(512, "width of the model", between=(1, 1 << 17))
    heads: int = option(8, "attention heads; divides --embed-dim", between=(1, 1 << 17))
    ffn_dim: int = option(2048, "inner width of the feed-forward blocks", between=(1, 1 << 17))
    dropout: float = option(
        0.1, "dropout on embeddings and on the output of every block", basic=True, between=(0, Open(1))
    )
    activation: Literal["relu", "gelu", "swish"] = option("relu", "of the feed-forward blocks")
    norm: Literal["pre", "post"] = option("pre", "layer norm before a block, or after its residual sum")
    share_embeddings: bool = option(True, "one embedding matrix for source and target (needs a joined dictionary)")
    tie_output: bool = option(True, "the output layer's matrix is the target's embeddings")
    output_bias: bool = option(False, "the output layer has a bias, a number for each entry of the vocabulary")
    scale_embeddings: bool = option(True, "embeddings are multiplied by the square root of --embed-dim")
    position: str = option("sinusoidal", "position family", choices=POSITIONS.names)
    sinusoids: Literal["paper", "fairseq"] = option(
        "paper",
        "sines and cosines of word positions: the paper's, or fairseq's, which M2M100 and NLLB have",
        needs=Needs("position", ("sinusoidal", "multi_level"), typed=True),
    )
    attention: Literal["softmax", "linear"] = option(
        "softmax", "over a word's own span and its source's: softmax, or kernelised in linear time"
    )
    relative_horizon: int | None = option(
        None,
        "r of relative positions: farther words share an embedding [16 with --position relative]",
        metavar="R",
        between=(0, 1 << 17),
        needs=Needs("relative_inside", says="--position relative or --attention linear"),
    )
    cross_relative: bool = option(
        True,
        "relative positions in the attention to the source, too; the distance is that "
        "of a word's place in the translation and a word's in the source",
        needs=[
            Needs("attention", ("linear",), typed=True),
            Needs("horizon", says="--relative-horizon above 0", typed=True),
        ],
    )
    position_fusion: str = option(
        "",
        "how positions join the embeddings (gate_conv: in text classification only) [concat with --position "
        "sinusoidal and multi_level, add with the others]",
        choices=FUSIONS.names,
    )
    max_positions: int = option(
        1024,
        "rows of learned tables of positions; words, or units, farther on share the last",
        between=(1, 1 << 20),
        needs=[_TABLES, READ_POSITIONS],
    )
    share_positions: bool = option(
        True, "one learned table of positions for source and target; mBART has two", needs=[_TABLES, READ_POSITIONS]
    )
    norm_embeddings: bool = option(False, "a layer norm of the embeddings with their positions, which mBART has")
    checkpoint_activations: bool = option(False, "compute layers again in the backward pass: less memory, slower")

    def __post_init__(self) -> None:
        """Store settings that follow from others in place of them, so that a checkpoint says what was trained."""
        object.__setattr__(self, "position_fusion", fusion_of(self.position, self.position_fusion))

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        found = position_problems(self.position, self.position_fusion, self.attention, self.embed_dim, self.heads)
        if self.position == "relative" and self.relative_horizon == 0:
            found.append("--relative-horizon: must be at least 1 with --position relative, got 0")
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
    def relative_inside(self) -> bool:
        """True if relative positions can act inside attention."""
        return self.position == "relative" or self.attention == "linear"

    @property
    def learned_tables(self) -> bool:
        """True if positions are rows of learned tables."""
        return self.position in ("learned", "relative_input")


@dataclass(frozen=True)
class CopyTransformerConfig(TransformerConfig):
    """Options of a model with a pointer to earlier translations."""

    free: ClassVar[tuple[str, ...]] = ("copy_window",)

    copy_window: int = option(
        4096, "target subwords before a sentence that it can copy from", metavar="N", basic=True, between=(1, None)
    )
