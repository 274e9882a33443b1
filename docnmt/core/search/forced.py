"""Scores of translations that exist: one pass over both sides of a corpus, as in training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from docnmt.core.batch import TranslationBatch
from docnmt.core.batching.collate import collate, unit_sizes
from docnmt.core.batching.plan import plan_batches
from docnmt.core.batching.planned_units import planned_units
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.store import offsets_of, ranges
from docnmt.core.models.translation_model import AnyTranslationModel, TranslationTask
from docnmt.core.units import Units
from docnmt.functional.loss import label_log_probs


@torch.inference_mode()
def token_log_probs(
    models: Sequence[AnyTranslationModel],
    task: TranslationTask,
    corpus: ParallelCorpus,
    *,
    max_tokens: int,
    context_window: int | None = None,
) -> list[np.ndarray]:
    """For each sentence (n+1,) natural log-probabilities of its target subwords and its end, given those before them.

    Models that read translations read the corpus's.

    Args:
        models: one, or several whose probabilities are averaged; in evaluation mode, on one device.
        corpus: with a target side.
        max_tokens: subwords of a batch's longer side; a larger unit is a batch by itself.
        context_window: a sentence is read with at most so many of its document before it and after it.
    """
    assert corpus.target is not None
    offsets = offsets_of(corpus.target.lengths() + 1)
    found = np.empty((len(models), int(offsets[-1])))
    for scores, model in zip(found, models, strict=True):
        for units, batch in forced_batches(model, task, corpus, max_tokens=max_tokens, context_window=context_window):
            rows = torch.arange(len(batch.labels), device=batch.labels.device)[batch.labels >= 0]
            log_probs = label_log_probs(model(batch), model.output, batch.labels, rows).double().cpu().numpy()
            numbers = ranges(units.kept, units.last)
            scores[ranges(offsets[numbers], offsets[numbers + 1])] = log_probs
    log_probs = np.logaddexp.reduce(found, axis=0) - math.log(len(models))
    return np.split(log_probs, offsets[1:-1]) if len(offsets) > 1 else []


def forced_batches(
    model: AnyTranslationModel,
    task: TranslationTask,
    corpus: ParallelCorpus,
    *,
    max_tokens: int,
    context_window: int | None = None,
) -> Iterator[tuple[Units, TranslationBatch]]:
    """The units that search has of a corpus, a batch at a time, with their targets; on the model's device."""
    source = replace(corpus, target=None)  # where documents are cut does not depend on the target
    plan, device = model.reading, next(model.parameters()).device
    units = planned_units(plan, source, limit=task.max_doc_tokens, window=context_window)
    sizes = unit_sizes(corpus, units, plan)
    for chosen in plan_batches(sizes, max_tokens, seed=0, epoch=0, shuffle=False):
        yield units[chosen], collate(corpus, units, chosen, plan).to(device)
