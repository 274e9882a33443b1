"""What the sentence encoders of task `nli` can be told. No torch here: these dataclasses are also the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from docnmt.config import below, no_share, option


@dataclass(frozen=True)
class SentencePairConfig:
    """What stands behind every sentence encoder: a hashing layer, if asked for, and the classifier of the pair."""

    default_task: ClassVar[str] = "nli"

    classifier_dim: int = option(512, "width of the two hidden layers that classify a pair")
    classifier_dropout: float = option(0.1, "dropout behind each of them")
    hash_bits: int = option(0, "learn binary codes of this many bits (256, 1024, 4096); 0 for none", basic=True)
    hash_steps: int = option(5000, "batches until the temperature of the codes has fallen from 1 to its minimum")
    hash_min_temperature: float = option(0.05, "the temperature stays there; never 0")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = below(self, 1, "classifier_dim", "hash_steps") + below(self, 0, "hash_bits")
        found += no_share(self, "classifier_dropout")
        if self.hash_bits % 8:
            found.append(f"--hash-bits: codes are stored in bytes, so a multiple of 8, got {self.hash_bits}")
        if not 0 < self.hash_min_temperature <= 1:
            found.append(f"--hash-min-temperature: must be in (0, 1], got {self.hash_min_temperature}")
        return found


@dataclass(frozen=True)
class InferLiteConfig(SentencePairConfig):
    """InferLite (Kiros & Chan 2018). Widths are ours: the paper's appendix with its values is not to be had."""

    hidden_dim: int = option(256, "width of encoder and controller; their weights grow with its square", basic=True)
    output_dim: int = option(4096, "width of the sentence vectors", basic=True)
    conv_layers: int = option(3, "convolutions behind the dense layer (M)")
    conv_width: Literal[1, 3] = option(1, "words that a convolution sees: 1 (no context) or 3 (local context)")
    gate: bool = option(True, "weight the embedding types by the controller's gates")
    skip: bool = option(True, "add the controller's first layer to the fused types")
    pooling: Literal["max", "mean"] = option("max", "over the words of a sentence")

    def problems(self) -> list[str]:
        return super().problems() + below(self, 1, "hidden_dim", "output_dim", "conv_layers")


@dataclass(frozen=True)
class BagOfWordsConfig(SentencePairConfig):
    """The mean, the maximum or the SIF-weighted mean of the word vectors."""

    bag_pooling: Literal["mean", "max", "sif"] = option("mean", "over the words; sif weighs them by a / (a + p(w))")


@dataclass(frozen=True)
class BiLstmMaxConfig(SentencePairConfig):
    """InferSent (Conneau et al. 2017)."""

    output_dim: int = option(4096, "width of the sentence vectors, half of it a direction", basic=True)

    def problems(self) -> list[str]:
        odd = [f"--output-dim: both directions are equally wide, so even, got {self.output_dim}"]
        return super().problems() + below(self, 2, "output_dim") + (odd if self.output_dim % 2 else [])


@dataclass(frozen=True)
class Source2TokenEncoderConfig(SentencePairConfig):
    """The document encoder's layers and its source2token summaries, on single sentences."""

    embed_dim: int = option(512, "width of the layers and of the sentence vectors; even")
    encoder_layers: int = option(2, "self-attention layers")
    heads: int = option(8, "attention heads and source2token queries; divides --embed-dim")
    ffn_dim: int = option(2048, "inner width of the feed-forward blocks")
    dropout: float = option(0.1, "dropout on the output of every block")

    def problems(self) -> list[str]:
        found = super().problems() + below(self, 2, "embed_dim") + below(self, 1, "heads", "ffn_dim")
        found += below(self, 0, "encoder_layers") + no_share(self, "dropout")
        if not found and (self.embed_dim % self.heads or self.embed_dim % 2):
            found.append(f"--embed-dim {self.embed_dim}: must be even and a multiple of --heads {self.heads}")
        return found
