"""The options of sentence vectors: task `nli`, preprocessing, sentence encoders, `docnmt-embed`. No torch here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal

from docnmt.options import Needs, Open, option, same_file

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
        (),
        "word vectors, one file for each embedding type: GloVe or word2vec text, word2vec .bin, fastText .vec, "
        f".npz [random ones of {RANDOM_DIMENSIONS} dimensions]",
        metavar="FILE",
    )
    test: tuple[str, ...] = option((), "pairs for the final test", metavar="FILE")
    keep_words: int = option(
        100_000, "besides the words of the pairs, keep the first N words of every vector file", between=(0, None)
    )
    overwrite: bool = option(False, "replace the folder if docnmt-preprocess wrote it")


@dataclass(frozen=True)
class SentencePairConfig:
    """Options of the layers after every sentence encoder: an optional hashing layer, and the classifier of the pair."""

    default_task: ClassVar[str] = "nli"

    classifier_dim: int = option(512, "width of the two hidden layers that classify a pair", between=(1, None))
    classifier_dropout: float = option(0.1, "dropout behind each of them", between=(0, Open(1)))
    hash_bits: int = option(0, "learn binary codes of this many bits (256, 1024, 4096); 0 for none", between=(0, None))
    hash_steps: int = option(
        5000, "batches until the temperature of the codes has fallen from 1 to its minimum", between=(1, None)
    )
    hash_min_temperature: float = option(0.05, "the temperature stays there; never 0", between=(Open(0), 1))

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        odd = f"--hash-bits: codes are stored in bytes, so a multiple of 8, got {self.hash_bits}"
        return [odd] * bool(self.hash_bits % 8)


@dataclass(frozen=True)
class InferLiteConfig(SentencePairConfig):
    """Options of InferLite (Kiros and Chan 2018). Default widths are ours: the paper's appendix is not available."""

    hidden_dim: int = option(
        256, "width of encoder and controller; their weights grow with its square", between=(1, None)
    )
    output_dim: int = option(4096, "width of the sentence vectors", between=(1, None))
    conv_layers: int = option(3, "convolutions behind the dense layer (M)", between=(1, None))
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

    output_dim: int = option(4096, "width of the sentence vectors, half of it a direction", between=(1, None))

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        odd = [f"--output-dim: both directions are equally wide, so even, got {self.output_dim}"]
        return super().problems() + (odd if self.output_dim % 2 else [])


@dataclass(frozen=True)
class Source2TokenEncoderConfig(SentencePairConfig):
    """Options of the document encoder's layers and its source2token summaries, on single sentences."""

    embed_dim: int = option(512, "width of the layers and of the sentence vectors; even", between=(1, None))
    encoder_layers: int = option(2, "self-attention layers", between=(0, None))
    heads: int = option(8, "attention heads and source2token queries; divides --embed-dim", between=(1, None))
    ffn_dim: int = option(2048, "inner width of the feed-forward blocks", between=(1, None))
    dropout: float = option(0.1, "dropout on the output of every block", between=(0, Open(1)))

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        odd = f"--embed-dim {self.embed_dim}: must be even and a multiple of --heads {self.heads}"
        return super().problems() + [odd] * bool(self.embed_dim % self.heads or self.embed_dim % 2)


@dataclass(frozen=True)
class EmbedConfig:
    """Options of `docnmt-embed`."""

    path: str = option(dataclasses.MISSING, "trained model: a checkpoint, or a --save-dir (its best)", metavar="CKPT")
    input: str | None = option(None, "text, a sentence a line [stdin]", metavar="FILE")
    output: str | None = option(None, "write a row a line there", metavar="FILE.npy")
    codes: bool = option(False, "write binary codes (the model learned them with --hash-bits)", needs="output")
    search: str | None = option(
        None, "find each line's nearest rows in this file of vectors or codes", metavar="FILE.npy"
    )
    texts: str | None = option(
        None,
        "the lines that the file's rows stand for, to print them",
        metavar="FILE",
        needs="search",
    )
    top: int = option(10, "how many to find", between=(1, None), needs=Needs("search", typed=True))
    backend: Literal["numpy", "faiss"] = option(
        "numpy",
        "numpy reads the file block by block; faiss copies it into memory and uses all threads",
        needs=Needs("search", typed=True),
    )
    gates: str | None = option(None, "draw the gates of each word, for a few lines", metavar="FILE.png")
    max_tokens: int = option(4096, "words that are encoded at once", between=(1, None))
    device: str = option("cpu", "cpu, cuda, cuda:1 …", metavar="NAME")
    overwrite: bool = option(False, "replace an existing output file", needs=Needs(("output", "gates"), typed=True))

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        chosen = [f"--{name}" for name in ("output", "search", "gates") if getattr(self, name)]
        found = same_file(self, "input", "output") + same_file(self, "input", "gates")
        if len(chosen) != 1:
            found.append(f"give one of --output, --search and --gates, got {', '.join(chosen) or 'none'}")
        return found
