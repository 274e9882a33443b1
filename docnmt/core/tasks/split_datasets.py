"""The datasets of the translation task's splits: for training, for validation, in other contexts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from docnmt.core.batch import learned_units, planned_units
from docnmt.core.batching.foreign import in_foreign_documents
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.reading import ReadingPlan
from docnmt.core.tasks.mixture import Mixture
from docnmt.core.tasks.translation_data import TrainingData, TranslationDataset

if TYPE_CHECKING:  # imports this module when a dataset is needed
    from docnmt.core.tasks.document_translation import DocumentTranslation


def split_dataset(
    task: DocumentTranslation, split: str, plan: ReadingPlan, *, seed: int, epoch: int, training: bool
) -> TranslationDataset | Mixture:
    """Return the dataset of a split (see `DocumentTranslation.dataset`)."""
    if not training:
        return _dataset(task, task.corpus(split), plan, split)
    parts = []
    folders = [task.data_dir, *(Path(folder) for folder, _ in task.config.mixed)]
    for number, folder in enumerate(folders):
        tokenizers = (task.source_tokenizer, task.target_tokenizer)
        made = TrainingData(task.config, tokenizers, (seed, epoch, number), task.languages)
        name = f"{folder} {split}" if number else split
        parts.append(_dataset(task, made.corpus(task.corpus(split, folder)), plan, name, made))
    if len(parts) == 1:
        return parts[0]
    return Mixture.draw(parts, [1.0, *(weight for _, weight in task.config.mixed)], seed=seed, epoch=epoch)


def other_contexts(task: DocumentTranslation, split: str, plan: ReadingPlan) -> dict[str, TranslationDataset]:
    """Return the datasets of a split in other contexts (see `DocumentTranslation.other_contexts`)."""
    if not plan.reads_context:
        return {}
    corpus = task.corpus(split)
    alone = learned_units(planned_units(plan, corpus, limit=task.max_doc_tokens, window=0), corpus)
    found = {"none": TranslationDataset(corpus, alone, plan, f"{split}, no context")}
    if corpus.num_documents > 1:
        found["foreign"] = _dataset(task, in_foreign_documents(corpus), plan, f"{split}, foreign context")
    return found


def _dataset(
    task: DocumentTranslation, corpus: ParallelCorpus, plan: ReadingPlan, name: str, made: TrainingData | None = None
) -> TranslationDataset:
    units = planned_units(plan, corpus, limit=task.max_doc_tokens)
    if made is None:
        return TranslationDataset(corpus, learned_units(units, corpus), plan, name)
    units = learned_units(made.units(corpus, units, plan).counting_all(), corpus)
    return TranslationDataset(corpus, units, plan, name, made.hidden(plan), made.dropped(plan))
