"""The options of text classification: task, preprocessing, classifier, `docnmt-classify`. No torch here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal

from docnmt.core.models.config import NOTHING_TO_FUSE, position_problems
from docnmt.options import Except, Needs, Open, option, same_file
from docnmt.registry.registry import FUSIONS, POSITIONS


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
    attention: Literal["softmax", "linear"] = option("softmax", "softmax attention, or kernelised in linear time")
    position: str = option("sinusoidal", "position family", choices=POSITIONS.names, basic=True)
    position_fusion: str = option("add", "how positions join the embeddings", choices=FUSIONS.names, basic=True)
    norm_after_fusion: bool = option(
        False, "a layer norm on the fused embeddings", needs=Needs("position", Except(NOTHING_TO_FUSE))
    )
    scale_embeddings: bool = option(True, "multiply embeddings by the square root of their width")
    embedding_std: float = option(
        0.03, "of the embeddings' initial values, before that factor (the notebooks have 1)", between=(Open(0), None)
    )
    gate_conv_radius: int | None = option(
        None,
        "K, positions looked at on either side [1]",
        between=(0, None),
        needs=_GATE_CONV,
    )
    gate_conv_scalar: bool | None = option(
        None,
        "one gate a word instead of one a feature [false]",
        needs=_GATE_CONV,
    )
    levels: int | None = option(None, "1 word, 2 also sentence [2]", between=(1, 2), needs=_MULTI_LEVEL)
    position_count: Literal["unit", "document"] | None = option(
        None,
        "words count inside their sentence, or from the text's start [unit]",
        needs=_MULTI_LEVEL,
    )
    max_positions: int | None = option(
        None,
        "rows of the table [4096]",
        between=(1, None),
        needs=Needs("position", ("learned", "relative_input"), typed=True),
    )
    relative_horizon: int | None = option(
        None,
        "farther words share an embedding [16]",
        metavar="R",
        aliases=("--relative-distance",),
        between=(1, None),
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
        return same_file(self, "input", "results")
