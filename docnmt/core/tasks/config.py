"""The options of the translation task. This file imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from docnmt.registry.options import Open, option


@dataclass(frozen=True)
class DocumentTranslationConfig:
    """Options for cutting documents into units, for training noise, and for BLEU during training."""

    max_doc_tokens: int | None = option(
        None,
        "cut training documents at sentence ends into pieces of at most this many subwords [never cut]",
        basic=True,
        between=(1, None),
    )
    resolutions: tuple[int, ...] = option(
        (),
        "train on every document several times an epoch, in pieces of each of these numbers of sentences; 0: the "
        "whole document, as 1 2 4 0 [0]",
        metavar="N",
        between=(0, None),
        excludes=("unit_sentences",),
    )
    unit_sentences: int | None = option(
        None,
        "train on units of N sentences, whose documents are also read, but not scored; 0: on whole documents, "
        "which gives a model of sentences the batches of a document model [what the architecture writes at once]",
        metavar="N",
        between=(0, None),
    )
    mix_data: tuple[str, ...] = option(
        (),
        "train on the training splits of these data folders too, of the same vocabulary (docnmt-preprocess "
        "--srcdict); in every epoch WEIGHT times, a part of it drawn anew",
        metavar="DIR[=WEIGHT]",
    )
    source_mask: float = option(
        0.0,
        "in training, how often a word of a source sentence that is translated is replaced by <mask>",
        between=(0, Open(1)),
    )
    subword_sampling: float | None = option(
        None,
        "in every epoch, draw another segmentation of all training text: alpha, such as 0.2 (unigram models: "
        "its smoothing, less is more varied; BPE: share of merges left out)",
        metavar="ALPHA",
        between=(Open(0), 1),
    )
    formality_share: float = option(
        0.0,
        "in training, in this share of the documents, each source sentence is told the form of address of its "
        "translation by <formal> or <informal> before it, for --formality of the commands that translate; with "
        "--criterion form_choice models follow it much better",
        between=(0, Open(1)),
    )
    eval_bleu_beam: int = option(
        1,
        "beam of the validation BLEU, which --eval-bleu or --best-checkpoint-metric bleu asks for",
        between=(1, None),
    )

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        found = []
        if len(set(self.resolutions)) < len(self.resolutions):
            found.append(
                f"--resolutions {' '.join(map(str, self.resolutions))}: expected different numbers of sentences"
            )
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
