"""The options of the translation task. This file imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from docnmt.registry.options import below, no_share, option


@dataclass(frozen=True)
class DocumentTranslationConfig:
    """Options for cutting documents into units, for training noise, and for BLEU during training."""

    max_doc_tokens: int | None = option(
        None, "cut training documents at sentence ends into pieces of at most this many subwords [never cut]",
        basic=True,
    )  # fmt: skip
    resolutions: tuple[int, ...] = option(
        (), "train on every document several times an epoch, in pieces of each of these numbers of sentences; 0: the "
        "whole document, as 1 2 4 0 [0]", metavar="N",
    )  # fmt: skip
    unit_sentences: int | None = option(
        None, "train on units of N sentences, whose documents are also read, but not scored; 0: on whole documents, "
        "which gives a model of sentences the batches of a document model [what the architecture writes at once]",
        metavar="N",
    )  # fmt: skip
    mix_data: tuple[str, ...] = option(
        (), "train on the training splits of these data folders too, of the same vocabulary (docnmt-preprocess "
        "--srcdict); in every epoch WEIGHT times, a part of it drawn anew", metavar="DIR[=WEIGHT]",
    )  # fmt: skip
    source_mask: float = option(
        0.0, "in training, how often a word of a source sentence that is translated is replaced by <mask>"
    )
    subword_sampling: float | None = option(
        None, "in every epoch, draw another segmentation of all training text: alpha, such as 0.2 (unigram models: "
        "its smoothing, less is more varied; BPE: share of merges left out)", metavar="ALPHA",
    )  # fmt: skip
    formality_share: float = option(
        0.0,
        "in training, in this share of the documents, each source sentence is told the form of address of its "
        "translation by <formal> or <informal> before it, for --formality of the commands that translate",
    )
    eval_bleu_beam: int = option(
        1, "beam of the validation BLEU, which --eval-bleu or --best-checkpoint-metric bleu asks for"
    )

    def problems(self) -> list[str]:
        """Values out of range."""
        found = below(self, 1, "max_doc_tokens", "eval_bleu_beam")
        found += no_share(self, "source_mask", "formality_share")
        if any(size < 0 for size in self.resolutions) or len(set(self.resolutions)) < len(self.resolutions):
            sizes = " ".join(map(str, self.resolutions))
            found.append(f"--resolutions {sizes}: expected different numbers of sentences, 0 for whole documents")
        found += below(self, 0, "unit_sentences")
        if self.resolutions and self.unit_sentences is not None:
            found.append("--resolutions and --unit-sentences both say what a unit is; give one of them")
        if self.subword_sampling is not None and not 0 < self.subword_sampling <= 1:
            found.append(f"--subword-sampling: must be above 0 and at most 1, got {self.subword_sampling}")
        for folder, weight in self.mixed:
            if not 0 < weight < float("inf"):
                found.append(f"--mix-data {folder}: its weight must be a number above 0, as in {folder}=0.5")
        return found

    @property
    def mixed(self) -> list[tuple[str, float]]:
        """The folders of `--mix-data` with their weights: 1 if none is given, NaN if it is not a number."""
        found = []
        for given in self.mix_data:
            folder, equals, weight = given.rpartition("=")
            found.append((folder, _number(weight)) if equals else (given, 1.0))
        return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
