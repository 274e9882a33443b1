"""The options of text classification: task, preprocessing, classifier, `docnmt-classify`. No torch here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal

from docnmt.core.models.position_rules import NOTHING_TO_FUSE, fusion_problems, width_problems
from docnmt.registry.options import Condition, below, no_share, option, same_file
from docnmt.registry.registry import FUSIONS, POSITIONS


@dataclass(frozen=True)
class TextClassificationConfig:
    """Options for the part of a text that is read."""

    default_criterion: ClassVar[str] = "classification"

    max_length: int | None = option(None, "read the first N tokens of a text only [all]")

    def problems(self) -> list[str]:
        """Values out of range."""
        return below(self, 1, "max_length")


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
    vocab_size: int | None = option(None, "entries of the vocabulary, at most [50000 words, 8000 subwords]")
    min_frequency: int | None = option(None, "words: those seen less often in the training texts are unknown [2]")
    overwrite: bool = option(False, "replace the folder if docnmt-preprocess wrote it")

    def problems(self) -> list[str]:
        """Values out of range."""
        found = below(self, 2, "vocab_size") + below(self, 1, "min_frequency")
        if self.min_frequency is not None and self.vocabulary != "words":
            found.append(f"--min-frequency has no effect with --vocabulary {self.vocabulary}; it belongs to words")
        return found


@dataclass(frozen=True)
class FusionClassifierConfig:
    """Options of an encoder with a mean over words (Hallam and Tseng 2026, the notebooks' setting of AG News, IMDB)."""

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
    embedding_std: float = option(0.03, "of the embeddings' initial values, before that factor (the notebooks have 1)")
    gate_conv_radius: int | None = option(None, "gate_conv: K, positions looked at on either side [1]")
    gate_conv_scalar: bool | None = option(None, "gate_conv: one gate a word instead of one a feature [false]")
    levels: int | None = option(None, "multi_level: 1 word, 2 also sentence [2]")
    position_count: Literal["unit", "document"] | None = option(
        None, "multi_level: words count inside their sentence, or from the text's start [unit]"
    )
    max_positions: int | None = option(None, "learned, relative_input: rows of the table [4096]")
    relative_horizon: int | None = option(
        None, "relative: farther words share an embedding [16]", metavar="R", aliases=("--relative-distance",)
    )

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
    labelled: bool = option(False, "FILE is a .tsv, .csv or .jsonl table with labels: score the model's against them")
    all_probabilities: bool = option(False, "show every label's probability, not the chosen one's alone")
    results: str | None = option(None, "with --labelled: write the scores there", metavar="FILE.json")
    overwrite: bool = option(False, "replace --results if it exists")
    max_tokens: int = option(16_384, "tokens labelled at once; a longer text is labelled by itself")
    device: str = option("auto", "cpu, cuda, cuda:1 …; auto takes cuda where there is one", metavar="NAME")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = below(self, 1, "max_tokens")
        if self.labelled and self.input is None:
            found.append("--labelled needs the table's FILE: its ending says how to read it")
        if self.results is not None and not self.labelled:
            found.append("--results has no effect without --labelled")
        if self.overwrite and self.results is None:
            found.append("--overwrite has no effect without --results")
        return found + same_file(self, "input", "results")
