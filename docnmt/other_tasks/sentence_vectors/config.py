"""The options of sentence vectors: task `nli`, preprocessing, sentence encoders, `docnmt-embed`. No torch here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal

from docnmt.registry.options import Condition, Except, below, no_share, option, same_file

#: The width of random word vectors, used if no file is given.
RANDOM_DIMENSIONS = 300


@dataclass(frozen=True)
class NliConfig:
    """Options of the task `nli`; there are none, because vectors and vocabulary come with the data."""

    default_criterion: ClassVar[str] = "nli"


@dataclass(frozen=True)
class NliPreprocessConfig:
    """Options of labelled sentence pairs (.jsonl of SNLI or MultiNLI, or .tsv with label, text, text2) and vectors."""

    train: tuple[str, ...] = option(dataclasses.MISSING, "training pairs, one file or several", metavar="FILE")
    valid: tuple[str, ...] = option(dataclasses.MISSING, "pairs that choose the model", metavar="FILE")
    destdir: str = option(dataclasses.MISSING, "folder to write", metavar="DIR")
    vectors: tuple[str, ...] = option(
        (), "word vectors, one file for each embedding type: GloVe or word2vec text, word2vec .bin, fastText .vec, "
        f".npz [random ones of {RANDOM_DIMENSIONS} dimensions]", metavar="FILE",
    )  # fmt: skip
    test: tuple[str, ...] = option((), "pairs for the final test", metavar="FILE")
    keep_words: int = option(100_000, "besides the words of the pairs, keep the first N words of every vector file")
    overwrite: bool = option(False, "replace the folder if docnmt-preprocess wrote it")

    def problems(self) -> list[str]:
        """Values out of range."""
        return below(self, 0, "keep_words")


@dataclass(frozen=True)
class SentencePairConfig:
    """Options of the layers after every sentence encoder: an optional hashing layer, and the classifier of the pair."""

    default_task: ClassVar[str] = "nli"
    sizes: ClassVar[tuple[str, ...]] = ()  # options of a subclass that must be at least 1

    classifier_dim: int = option(512, "width of the two hidden layers that classify a pair")
    classifier_dropout: float = option(0.1, "dropout behind each of them")
    hash_bits: int = option(0, "learn binary codes of this many bits (256, 1024, 4096); 0 for none")
    hash_steps: int = option(5000, "batches until the temperature of the codes has fallen from 1 to its minimum")
    hash_min_temperature: float = option(0.05, "the temperature stays there; never 0")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = below(self, 1, "classifier_dim", "hash_steps", *self.sizes) + below(self, 0, "hash_bits")
        found += no_share(self, "classifier_dropout")
        if self.hash_bits % 8:
            found.append(f"--hash-bits: codes are stored in bytes, so a multiple of 8, got {self.hash_bits}")
        if not 0 < self.hash_min_temperature <= 1:
            found.append(f"--hash-min-temperature: must be in (0, 1], got {self.hash_min_temperature}")
        return found


@dataclass(frozen=True)
class InferLiteConfig(SentencePairConfig):
    """Options of InferLite (Kiros and Chan 2018). Default widths are ours: the paper's appendix is not available."""

    sizes: ClassVar[tuple[str, ...]] = ("hidden_dim", "output_dim", "conv_layers")

    hidden_dim: int = option(256, "width of encoder and controller; their weights grow with its square")
    output_dim: int = option(4096, "width of the sentence vectors")
    conv_layers: int = option(3, "convolutions behind the dense layer (M)")
    conv_width: Literal[1, 3] = option(1, "words that a convolution sees: 1 (no context) or 3 (local context)")
    gate: bool = option(True, "weight the embedding types by the controller's gates")
    skip: bool = option(True, "add the controller's first layer to the fused types")
    pooling: Literal["max", "mean"] = option("max", "over the words of a sentence")


@dataclass(frozen=True)
class BagOfWordsConfig(SentencePairConfig):
    """Options of the mean, the maximum or the SIF-weighted mean of the word vectors."""

    bag_pooling: Literal["mean", "max", "sif"] = option("mean", "over the words; sif weighs them by a / (a + p(w))")


@dataclass(frozen=True)
class BiLstmMaxConfig(SentencePairConfig):
    """Options of InferSent (Conneau et al. 2017)."""

    sizes: ClassVar[tuple[str, ...]] = ("output_dim",)

    output_dim: int = option(4096, "width of the sentence vectors, half of it a direction")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        odd = [f"--output-dim: both directions are equally wide, so even, got {self.output_dim}"]
        return super().problems() + (odd if self.output_dim % 2 else [])


@dataclass(frozen=True)
class Source2TokenEncoderConfig(SentencePairConfig):
    """Options of the document encoder's layers and its source2token summaries, on single sentences."""

    sizes: ClassVar[tuple[str, ...]] = ("embed_dim", "heads", "ffn_dim")

    embed_dim: int = option(512, "width of the layers and of the sentence vectors; even")
    encoder_layers: int = option(2, "self-attention layers")
    heads: int = option(8, "attention heads and source2token queries; divides --embed-dim")
    ffn_dim: int = option(2048, "inner width of the feed-forward blocks")
    dropout: float = option(0.1, "dropout on the output of every block")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = super().problems() + below(self, 0, "encoder_layers") + no_share(self, "dropout")
        if not found and (self.embed_dim % self.heads or self.embed_dim % 2):
            found.append(f"--embed-dim {self.embed_dim}: must be even and a multiple of --heads {self.heads}")
        return found


@dataclass(frozen=True)
class EmbedConfig:
    """Options of `docnmt-embed`."""

    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition(("top", "backend"), "search", Except((None,)), "--search"),
        Condition(("overwrite",), "search", (None,), "--output or --gates"),
    )

    path: str = option(dataclasses.MISSING, "trained model: a checkpoint, or a --save-dir (its best)", metavar="CKPT")
    input: str | None = option(None, "text, a sentence a line [stdin]", metavar="FILE")
    output: str | None = option(None, "write a row a line there", metavar="FILE.npy")
    codes: bool = option(False, "write binary codes (the model learned them with --hash-bits)")
    search: str | None = option(
        None, "find each line's nearest rows in this file of vectors or codes", metavar="FILE.npy"
    )
    texts: str | None = option(
        None, "with --search: the lines that the file's rows stand for, to print them", metavar="FILE"
    )
    top: int = option(10, "with --search: how many to find")
    backend: Literal["numpy", "faiss"] = option(
        "numpy", "with --search: numpy reads the file block by block; faiss copies it into memory and uses all threads"
    )
    gates: str | None = option(None, "draw the gates of each word, for a few lines", metavar="FILE.png")
    max_tokens: int = option(4096, "words that are encoded at once")
    device: str = option("cpu", "cpu, cuda, cuda:1 …", metavar="NAME")
    overwrite: bool = option(False, "replace an existing output file")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        chosen = [name for name in ("output", "search", "gates") if getattr(self, name)]
        found = below(self, 1, "top", "max_tokens")
        if len(chosen) != 1:
            found.append(f"give one of --output, --search and --gates, got {', '.join(chosen) or 'none'}")
        if self.texts and not self.search:
            found.append("--texts has no effect without --search")
        if self.codes and not self.output:
            found.append("--codes has no effect without --output; --search sees what its file holds")
        return found + same_file(self, "input", "output") + same_file(self, "input", "gates")
