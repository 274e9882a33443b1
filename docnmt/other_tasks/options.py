"""The options of classification and of sentence vectors. No torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal

from docnmt.core.models.config import NOTHING_TO_FUSE, position_problems
from docnmt.options import Needs, Open, flag, option, same_path
from docnmt.registry import ATTENTIONS, FUSIONS, POSITIONS

# Text classification: task, preprocessing, classifier, `docnmt-classify`.


def _same_file(config: object, read: str, written: str) -> list[str]:
    """Return a message if the file to read is also the file to write."""
    path = getattr(config, written)
    same = same_path(getattr(config, read), path)
    return [f"{flag(written)} {path}: is the file that is read; give another name"] if same else []


@dataclass(frozen=True)
class TextClassificationConfig:
    """Options for the part of a text that is read."""

    default_criterion: ClassVar[str] = "classification"

    max_length: int | None = option(None, "read the first N tokens of a text only [all]", between=(1, None))


@dataclass(frozen=True)
class ClassificationPreprocessConfig:
    """Options of labelled texts in .tsv (label, tab, text), .csv (columns label, text) or .jsonl (keys label, text)."""

    train: str = option(
        dataclasses.MISSING, "training texts; vocabulary and labels come from here alone", metavar="FILE"
    )
    valid: str = option(dataclasses.MISSING, "texts that choose the model", metavar="FILE")
    destdir: str = option(dataclasses.MISSING, "folder to write", metavar="DIR")
    test: str | None = option(None, "texts for the final test", metavar="FILE")
    vocabulary: Literal["words", "sentencepiece"] = option(
        "words", "lower-cased words between white space, or SentencePiece subwords"
    )
    vocab_size: int | None = option(
        None, "entries of the vocabulary, at most [50000 words, 8000 subwords]", between=(2, None)
    )
    min_frequency: int | None = option(
        None,
        "words: those seen less often in the training texts are unknown [2]",
        between=(1, None),
        needs=Needs("vocabulary", ("words",)),
    )
    overwrite: bool = option(False, "replace the folder if docnmt-preprocess wrote it")


_GATE_CONV = Needs("position_fusion", ("gate_conv",), typed=True)
_MULTI_LEVEL = Needs("position", ("multi_level",), typed=True)


@dataclass(frozen=True)
class FusionClassifierConfig:
    """Options of an encoder with a mean over words (Hallam and Tseng 2026, the notebooks' setting of AG News, IMDB)."""

    default_task: ClassVar[str] = "text_classification"

    encoder_layers: int = option(4, "layers of the encoder", between=(0, None))
    embed_dim: int = option(256, "width of the model", between=(1, None))
    heads: int = option(8, "attention heads; divides --embed-dim", between=(1, None))
    ffn_dim: int = option(1024, "inner width of the feed-forward blocks", between=(1, None))
    dropout: float = option(
        0.1, "dropout on the output of every block and on the pooled text", basic=True, between=(0, Open(1))
    )
    activation: Literal["relu", "gelu"] = option("gelu", "of the feed-forward blocks")
    norm: Literal["pre", "post"] = option("post", "layer norm before a block, or after its residual sum")
    attention: str = option(
        "softmax", "softmax attention, a plug-in's, or linear: kernelised in linear time", choices=ATTENTIONS.names
    )
    position: str = option("sinusoidal", "position family", choices=POSITIONS.names, basic=True)
    position_fusion: str = option("add", "how positions join the embeddings", choices=FUSIONS.names, basic=True)
    norm_after_fusion: bool = option(
        False, "a layer norm on the fused embeddings", needs=Needs("position", without=tuple(NOTHING_TO_FUSE))
    )
    scale_embeddings: bool = option(True, "multiply embeddings by the square root of their width")
    embedding_std: float = option(
        0.03, "of the embeddings' initial values, before that factor (the notebooks have 1)", between=(Open(0), None)
    )
    gate_conv_radius: int | None = option(
        None, "K, positions looked at on either side [1]", between=(0, None), needs=_GATE_CONV
    )
    gate_conv_scalar: bool | None = option(None, "one gate a word instead of one a feature [false]", needs=_GATE_CONV)
    levels: int | None = option(None, "1 word, 2 also sentence [2]", between=(1, 2), needs=_MULTI_LEVEL)
    position_count: Literal["unit", "document"] | None = option(
        None, "words count inside their sentence, or from the text's start [unit]", needs=_MULTI_LEVEL
    )
    max_positions: int | None = option(
        None,
        "rows of the table [4096]",
        between=(1, 1 << 20),
        needs=Needs("position", ("learned", "relative_input"), typed=True),
    )
    relative_horizon: int | None = option(
        None,
        "farther words share an embedding [16]",
        metavar="R",
        aliases=("--relative-distance",),
        between=(1, 1 << 17),
        needs=Needs("position", ("relative",), typed=True),
    )

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        return position_problems(self.position, self.position_fusion, self.attention, self.embed_dim, self.heads)


@dataclass(frozen=True)
class ClassifyConfig:
    """Options for labelling texts with a trained classifier."""

    path: str = option(
        dataclasses.MISSING, "checkpoint, or the --save-dir of a run, whose best is taken", metavar="CKPT"
    )
    input: str | None = option(
        None,
        "texts, one a line (.jsonl: an object with 'text' a line), or with --labelled a table with labels [stdin]",
        positional=True,
        metavar="FILE",
    )
    labelled: bool = option(
        False,
        "FILE is a .tsv, .csv or .jsonl table with labels: score the model's against them",
        needs=Needs("input", says="the table's FILE: its ending says how to read it"),
    )
    all_probabilities: bool = option(False, "show every label's probability, not the chosen one's alone")
    results: str | None = option(None, "write the scores there", metavar="FILE.json", needs="labelled")
    overwrite: bool = option(False, "replace --results if it exists", needs="results")
    max_tokens: int = option(16_384, "tokens labelled at once; a longer text is labelled by itself", between=(1, None))
    device: str = option("auto", "cpu, cuda, cuda:1 …; auto takes cuda where there is one", metavar="NAME")

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        return _same_file(self, "input", "results")


# Sentence vectors: task `nli`, preprocessing, sentence encoders, `docnmt-embed`, `docnmt-senteval`.

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
        "word vectors, one file for each embedding type: GloVe or word2vec text, word2vec .bin, fastText .vec "
        f"[random ones of {RANDOM_DIMENSIONS} dimensions]",
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
    hash_bits: int = option(
        0, "learn binary codes of this many bits (256, 1024, 4096); 0 for none", between=(0, 1 << 16)
    )
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
    output: str = option(dataclasses.MISSING, "write a row a line there", metavar="FILE.npy")
    input: str | None = option(None, "text, a sentence a line [stdin]", metavar="FILE")
    codes: bool = option(False, "write binary codes (the model learned them with --hash-bits)")
    max_tokens: int = option(4096, "words that are encoded at once", between=(1, None))
    device: str = option("cpu", "cpu, cuda, cuda:1 …", metavar="NAME")
    overwrite: bool = option(False, "replace an existing output file")

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        return _same_file(self, "input", "output")


_RANDOM = Needs("baseline", ("borep-mean", "borep-max"), typed=True)


@dataclass(frozen=True)
class SentEvalConfig:
    """Options for the encoder, the tasks and the protocol."""

    data: str = option(
        dataclasses.MISSING, "folder of the tasks' TSV files (MR/all.tsv, STS14/OnWN.tsv …)", metavar="DIR"
    )
    path: str | None = option(None, "trained model: a checkpoint, or a --save-dir (its best)", metavar="CKPT")
    representation: Literal["vectors", "soft", "codes"] = option(
        "vectors", "of a hashing model: sentence vectors, codes before the threshold, or binary codes", needs="path"
    )
    baseline: Literal["bow", "sif", "borep-mean", "borep-max"] | None = option(
        None,
        "mean of word vectors, SIF-weighted mean without its common direction, or random projections",
        needs="vectors",
    )
    vectors: tuple[str, ...] = option(
        (), "word vectors of the baseline, one file a type", metavar="FILE", needs="baseline"
    )
    unit_vectors: bool = option(
        False, "bring the baseline's word vectors to unit length first, as InferLite does", needs="baseline"
    )
    frequencies: str | None = option(
        None, "word counts for sif: a word and its count a line", metavar="FILE", needs=Needs("baseline", ("sif",))
    )
    width: int = option(4096, "of the random projections", between=(1, None), needs=_RANDOM)
    seed: int = option(1, "of the random projections", between=(0, None), needs=_RANDOM)
    tasks: tuple[str, ...] = option((), "names of tasks [all but the probing tasks]", metavar="NAME")
    protocol: Literal["default", "fast"] = option(
        "default",
        "SentEval's settings for published numbers, or quick ones (5 folds, less patience, larger batches) whose "
        "accuracies are not comparable",
    )
    results_path: str | None = option(None, "write the results there", metavar="FILE.json")
    overwrite: bool = option(False, "replace --results-path if it exists")

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        problems = [] if self.baseline != "sif" or self.frequencies else ["--baseline sif needs --frequencies"]
        neither = (self.path is None) == (self.baseline is None)
        return problems + ["give either --path (a trained model) or --baseline"] * neither
