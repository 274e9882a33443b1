"""Forced scoring: log-probabilities of given translations of a document's last sentence, in one pass, without search.

The same training forward that gives the loss gives them, so target context is read as it is in training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from docnmt.apps.commands.config import ModelsConfig
from docnmt.apps.commands.models import load_models
from docnmt.core.batch import TranslationBatch
from docnmt.core.batching.plan import plan_batches
from docnmt.core.batching.planned_units import last_sentence_units
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.store import TokenArray, ranges
from docnmt.core.models.translation_model import AnyTranslationModel, TranslationTask
from docnmt.core.scoring.contrastive import ForcedExample
from docnmt.core.tasks.translation_data import TranslationDataset
from docnmt.functional.loss import label_log_probs
from docnmt.runtime import ranks
from docnmt.runtime.progress import Progress

_SENTENCES = 1 << 16  # tokenised at a time


@torch.inference_mode()
def forced_scores(
    models: Sequence[AnyTranslationModel],
    task: TranslationTask,
    examples: Sequence[ForcedExample],
    *,
    max_tokens: int = 4000,
    lenpen: float = 0.0,
    context_window: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[float]:
    """log p(target </s> | source, contexts) of every example, natural logs, in their order.

    The sentence in question closes the unit that it is read in, which has as much before it as the model can read.

    Args:
        models: one, or several whose probabilities are averaged; in evaluation mode, on one device.
        max_tokens: subwords of a batch's longer side; a larger example is a batch by itself.
        lenpen: each score is divided by (number of tokens, `</s>` included) ** lenpen; 0 leaves the sum.
        context_window: only so many sentences right before the last one are read, on both sides; their positions, and
            so everything else, stay as they are.
        progress: called with a number of examples whenever they are done.
    """
    scores: list[float] = []
    for portion in _portions(examples):
        corpus, lengths = corpus_of(portion, task)
        datasets = []
        for model in models:
            units = last_sentence_units(model.reading, corpus, limit=task.max_doc_tokens, window=context_window)
            datasets.append(TranslationDataset(corpus, units, model.reading, "contrastive"))
        sizes = np.maximum.reduce([data.sizes for data in datasets])
        plan = plan_batches(sizes, max_tokens, seed=0, epoch=0, shuffle=False)
        score = partial(_batch_scores, list(zip(models, datasets, strict=True)), lengths, plan, lenpen, progress)
        for found in ranks.shared_out([int(sizes[chosen].sum()) for chosen in plan], score):
            scores += found
    return scores


def _batch_scores(
    parts: Sequence[tuple[AnyTranslationModel, TranslationDataset]],
    lengths: np.ndarray,
    plan: Sequence[np.ndarray],
    lenpen: float,
    progress: Callable[[int], object] | None,
    place: int,
) -> list[float]:
    """The scores of one batch of the plan."""
    chosen, own = plan[place], lengths[plan[place]]
    device = next(parts[0][0].parameters()).device
    each = [gold_log_probs(model, data.batch(chosen).to(device), own) for model, data in parts]
    log_probs = torch.logsumexp(torch.stack(each), dim=0) - math.log(len(each))
    sums = np.add.reduceat(log_probs.double().cpu().numpy(), np.cumsum(own) - own)
    if progress is not None:
        progress(len(chosen))
    found: list[float] = (sums / own**lenpen).tolist()
    return found


def _portions(examples: Sequence[ForcedExample]) -> Iterator[Sequence[ForcedExample]]:
    """Examples in order, as many at a time as have `_SENTENCES` with their contexts: ContraPro's have hundreds each."""
    counts = np.cumsum([len(example.source_context) + 1 for example in examples])
    bounds = np.flatnonzero(np.diff(counts // _SENTENCES)) + 1
    for begin, end in pairwise([0, *bounds.tolist(), len(examples)]):
        if begin < end:
            yield examples[begin:end]


def gold_log_probs(model: AnyTranslationModel, batch: TranslationBatch, lengths: np.ndarray) -> Tensor:
    """(sum of lengths,) log-probabilities of the last `lengths[d]` labels of each of the batch's documents."""
    ends = batch.target.layout.documents.host[1:]
    rows = torch.from_numpy(ranges(ends - lengths, ends)).to(batch.labels.device)
    return label_log_probs(model(batch), model.output, batch.labels, rows)


def corpus_of(examples: Sequence[ForcedExample], task: TranslationTask) -> tuple[ParallelCorpus, np.ndarray]:
    """Each example as a document whose last sentence is the one in question; (E,) that sentence's target tokens."""
    sources, targets = [], []
    for example in examples:
        source_context, target_context = example.contexts()
        sources.append([*source_context, example.source])
        targets += [*target_context, example.target]
    target = TokenArray.from_lists(task.target_tokenizer.encode(targets), task.target_tokenizer.vocab_size)
    corpus = replace(ParallelCorpus.from_lines(sources, task.source_tokenizer), target=target)
    return corpus, target.lengths()[corpus.document_offsets[1:] - 1] + 1


def scorer(config: ModelsConfig) -> Callable[[list[ForcedExample]], list[float]]:
    """What `docnmt-score --contrastive` judges by: sums of log-probabilities under the models of `--path`.

    Raises:
        UserError: a model cannot be loaded.
    """
    loaded = load_models(config)

    def score(examples: list[ForcedExample]) -> list[float]:
        """Scores with a bar."""
        with Progress(len(examples), "scoring", unit="translations") as bar:
            window = config.context_window
            return forced_scores(loaded.models, loaded.task, examples, context_window=window, progress=bar.update)

    return score
