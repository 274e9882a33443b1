"""The datasets of the translation task: the units of a split, and the changes that training makes to corpora."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from docnmt.core.batch import (
    DroppedContexts,
    HiddenWords,
    TranslationBatch,
    collate,
    resegmented,
    sentence_costs,
    unit_sizes,
)
from docnmt.core.corpus import ParallelCorpus, read_meta
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.formality import ToldForms, address_language, tag_numbers
from docnmt.core.reading import ReadingPlan
from docnmt.core.tokenizer import Tokenizer
from docnmt.core.units import Units, context_units, cut_units, document_units, resolution_units
from docnmt.runtime.errors import UsageError, UserError


@dataclass(frozen=True, eq=False)
class TranslationDataset:
    """The units of one split for one architecture."""

    corpus: ParallelCorpus
    units: Units
    plan: ReadingPlan
    name: str
    hidden: HiddenWords | None = None
    dropped: DroppedContexts | None = None

    @cached_property
    def sizes(self) -> np.ndarray:
        """The larger of source and target length (U,) of each unit, in subwords."""
        return unit_sizes(self.corpus, self.units, self.plan)

    def batch(self, units: np.ndarray) -> TranslationBatch:
        """Return the batch of these units, with words and contexts hidden if the dataset is for training."""
        batch = collate(self.corpus, self.units, units, self.plan)
        if self.hidden is not None:
            batch = replace(batch, source=self.hidden.hide(batch.source, self.corpus, self.units, units))
        return batch if self.dropped is None else self.dropped.drop(batch, units)

    def describe(self, units: np.ndarray) -> str:
        """Describe units as `train: sentences 3-17 (document 2), …`, numbers from 1; five units at most."""
        rows = [
            f"sentences {self.units.first[u] + 1}-{self.units.last[u]} (document {self.units.document[u] + 1})"
            for u in units[:5]
        ]
        more = f" and {len(units) - 5} units more" if len(units) > 5 else ""
        return f"{self.name}: {', '.join(rows)}{more}"


def check_training(
    config: DocumentTranslationConfig,
    plan: ReadingPlan,
    tokenizers: tuple[Tokenizer, Tokenizer],
    languages: tuple[str, str],
    data_dir: Path,
) -> None:
    """Check that a model and data folders allow what the configuration demands of training.

    Raises:
        UserError: `--resolutions` or `--max-doc-tokens` for a model that has its own units, a folder of `--mix-data`
            that does not fit, `--subword-sampling` of text that was cut off, or `--formality-share` without tags in
            the vocabulary or a rule for the language.
    """
    cut = config.max_doc_tokens if config.unit_sentences is None else None
    given = {"--resolutions": config.resolutions, "--max-doc-tokens": cut}
    if not plan.whole_documents and (useless := [flag for flag, value in given.items() if value]):
        why = f"has no effect with an architecture that reads {plan.noun}s; it belongs to those that read documents"
        raise UsageError([f"{flag} {why}" for flag in useless])
    if plan.joined and config.unit_sentences is not None:
        raise UsageError(
            "--unit-sentences is for architectures that write sentence by sentence, not several as one text"
        )
    if config.formality_share:
        tag_numbers(tokenizers[0])
        try:
            address_language(languages[1])
        except UserError as error:
            raise UsageError(f"--formality-share: {error}") from None
    mixed = [Path(folder) for folder, _ in config.mixed]
    for folder in mixed:
        check_mixed(folder, tokenizers, languages)
    for folder in (data_dir, *mixed):
        if config.subword_sampling is not None and read_meta(folder)["options"].get("long_policy") == "truncate":
            raise UserError(
                f"--subword-sampling: {folder} was preprocessed with --long-policy truncate, so its text is longer "
                "than its subwords; use another policy"
            )


def check_mixed(folder: Path, tokenizers: tuple[Tokenizer, Tokenizer], languages: tuple[str, str]) -> None:
    """Check that a folder can be used in training beside the task's own.

    Raises:
        UserError: the folder is no translation folder, lacks a training split, has other languages or another
            vocabulary.
    """
    meta = read_meta(folder)
    if meta["task"] != "document_translation" or "train" not in meta["splits"]:
        raise UserError(f"--mix-data {folder}: holds no training split for translation; preprocess with --trainpref")
    theirs = (meta["source_lang"], meta["target_lang"])
    if theirs != languages:
        raise UserError(f"--mix-data {folder}: translates {'-'.join(theirs)}, and DATA {'-'.join(languages)}")
    names = (meta["tokenizers"]["source"], meta["tokenizers"]["target"])
    if any((folder / name).read_bytes() != own.to_bytes() for name, own in zip(names, tokenizers, strict=True)):
        raise UserError(
            f"--mix-data {folder}: was preprocessed with another vocabulary than DATA; do it with --srcdict DATA"
        )


@dataclass(frozen=True)
class TrainingData:
    """The changes of a corpus for training in one epoch, a function of `seeds` (the run's, the epoch, its number)."""

    config: DocumentTranslationConfig
    tokenizers: tuple[Tokenizer, Tokenizer]
    seeds: tuple[int, int, int]

    languages: tuple[str, str]

    def corpus(self, corpus: ParallelCorpus) -> ParallelCorpus:
        """Return the corpus with new subwords (`--subword-sampling`) and formality tags (`--formality-share`)."""
        alpha, share = self.config.subword_sampling, self.config.formality_share
        if alpha is not None:
            corpus = resegmented(corpus, self.tokenizers, alpha, self.seeds)
        return ToldForms(share, self.languages[1], (*self.seeds, 2)).tell(corpus, self.tokenizers[0])

    def units(self, corpus: ParallelCorpus, units: Units, plan: ReadingPlan) -> Units:
        """Return units of every one of `--resolutions`, or of `--unit-sentences`, cut at `--max-doc-tokens`; without
        these options `units`, the architecture's own."""
        limit, size = self.config.max_doc_tokens, self.config.unit_sentences
        costs = None if limit is None else sentence_costs(corpus)
        if self.config.resolutions:
            return resolution_units(corpus.document_offsets, self.config.resolutions, costs, limit)
        if size is None:
            return units
        documents = document_units(corpus.document_offsets)
        if costs is not None and limit is not None:
            documents = cut_units(documents, costs, limit)
        return context_units(documents, None if plan.reads_context else 0, size)

    def hidden(self, plan: ReadingPlan) -> HiddenWords:
        """Return the masking of words: by `--source-mask`, and by the plan."""
        kept = getattr(self.tokenizers[0], "marks", ())  # a plug-in's tokenizer may lack them
        return HiddenWords(self.config.source_mask, plan.masked_context, self.seeds, plan.source_breaks, kept)

    def dropped(self, plan: ReadingPlan) -> DroppedContexts:
        """Return the removal of contexts by the plan; its draws are independent of masking."""
        return DroppedContexts(plan.dropped_context, (*self.seeds, 1))
