"""What the text classifier can be told. No torch here: this dataclass is also the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from docnmt.config import Condition, below, no_share, option
from docnmt.models.position_rules import NOTHING_TO_FUSE, fusion_problems, width_problems
from docnmt.registry import FUSIONS, POSITIONS


@dataclass(frozen=True)
class FusionClassifierConfig:
    """An encoder with a mean over its words ("Fusion Matters", the notebooks' setting for AG News and IMDB)."""

    default_task: ClassVar[str] = "text_classification"
    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition(("gate_conv_radius", "gate_conv_scalar"), "position_fusion", ("gate_conv",)),
        Condition(("levels", "position_count"), "position", ("multi_level",)),
        Condition(("max_positions",), "position", ("learned", "relative_input")),
        Condition(("relative_horizon",), "position", ("relative",)),
    )

    encoder_layers: int = option(4, "layers of the encoder")
    embed_dim: int = option(256, "width of the model")
    heads: int = option(8, "attention heads; divides --embed-dim")
    ffn_dim: int = option(1024, "inner width of the feed-forward blocks")
    dropout: float = option(0.1, "dropout on the output of every block and on the pooled text", basic=True)
    activation: Literal["relu", "gelu"] = option("gelu", "of the feed-forward blocks")
    norm: Literal["pre", "post"] = option("post", "layer norm before a block, or after its residual sum")
    attention: Literal["softmax", "linear"] = option("softmax", "softmax attention, or kernelised in linear time")
    position: str = option("sinusoidal", "position family", choices=POSITIONS.names, basic=True)
    position_fusion: str = option("add", "how positions join the embeddings", choices=FUSIONS.names, basic=True)
    norm_after_fusion: bool = option(False, "a layer norm on the fused embeddings")
    scale_embeddings: bool = option(True, "multiply embeddings by the square root of their width")
    embedding_std: float = option(1.0, "of the embeddings' initial values, before that factor (the notebooks have 1)")
    gate_conv_radius: int | None = option(None, "gate_conv: K, positions looked at on either side [1]")
    gate_conv_scalar: bool | None = option(None, "gate_conv: one gate a word instead of one a feature [false]")
    levels: int | None = option(None, "multi_level: 1 word, 2 also sentence [2]")
    position_count: Literal["unit", "document"] | None = option(
        None, "multi_level: words count inside their sentence, or from the text's start [unit]"
    )
    max_positions: int | None = option(None, "learned, relative_input: rows of the table [4096]")
    relative_horizon: int | None = option(None, "relative: farther words share an embedding [16]", metavar="R")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = below(self, 0, "encoder_layers", "gate_conv_radius")
        found += below(self, 1, "embed_dim", "heads", "ffn_dim", "levels", "max_positions", "relative_horizon")
        if not found and self.embed_dim % self.heads:
            found.append(f"--heads {self.heads} does not divide --embed-dim {self.embed_dim}")
        found += no_share(self, "dropout")
        if self.embedding_std <= 0:
            found.append(f"--embedding-std: must be above 0, got {self.embedding_std}")
        if self.levels is not None and self.levels > 2:
            found.append(f"--levels: must be 1 or 2 (a table's texts have words and sentences only), got {self.levels}")
        found += fusion_problems(self.position, self.position_fusion)
        if self.norm_after_fusion and self.position in NOTHING_TO_FUSE:
            why = NOTHING_TO_FUSE[self.position]
            found.append(f"--norm-after-fusion has no effect with --position {self.position}: {why}")
        if not found:
            found += width_problems(self.position, self.embed_dim, self.heads)
        if self.attention == "linear" and self.position in ("rope", "alibi"):
            found.append(
                f"--attention linear has no scores for --position {self.position} to act on; use relative or another"
            )
        return found
