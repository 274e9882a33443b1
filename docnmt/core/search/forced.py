"""Forced scoring: log-probabilities of existing translations, in one pass over both sides, without search.

corpus with targets → units (`forced_batches`) → the forward pass of training → (n+1,) a sentence (`token_log_probs`)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from docnmt.core.batch import TranslationBatch, collate, last_sentence_units, plan_batches, planned_units, unit_sizes
from docnmt.core.corpus import ParallelCorpus, TokenArray, offsets_of, ranges
from docnmt.core.models.encoder_decoder import AnyTranslationModel, TranslationTask
from docnmt.core.tokenizer import tag_of
from docnmt.core.units import Units
from docnmt.functional.loss import label_log_probs
from docnmt.runtime import jobs as ranks

if TYPE_CHECKING:
    from docnmt.core.scoring.discourse import ForcedExample

#: Upper bounds of what a rank scores at a time: examples, and their sentences with contexts (ContraPro has hundreds
#: per example).
_EXAMPLES, _SENTENCES = 1 << 11, 1 << 16


@torch.inference_mode()
def token_log_probs(
    models: Sequence[AnyTranslationModel],
    task: TranslationTask,
    corpus: ParallelCorpus,
    *,
    max_tokens: int,
    context_window: int | None = None,
    last_only: bool = False,
) -> list[np.ndarray]:
    """Natural log-probabilities (n+1,) of each sentence's target subwords and its end, given the prefix.

    Several models are averaged; those that read translations read those of the corpus.

    Args:
        max_tokens: subwords of a batch's longer side; a larger unit is a batch by itself.
        context_window: the most sentences of the document that are read before and after a sentence.
        last_only: score only each document's last sentence; it ends its unit, which has as many sentences before it as
            the model can read. All other sentences are NaN.
    """
    assert corpus.target is not None
    offsets = offsets_of(corpus.target.lengths() + 1)
    by_model = np.full((len(models), int(offsets[-1])), np.nan)
    for scores, model in zip(by_model, models, strict=True):
        batches = forced_batches(
            model, task, corpus, max_tokens=max_tokens, context_window=context_window, last_only=last_only
        )
        for units, batch in batches:
            rows = torch.arange(len(batch.labels), device=batch.labels.device)[batch.labels >= 0]
            log_probs = label_log_probs(model(batch), model.output, batch.labels, rows).double().cpu().numpy()
            numbers = ranges(units.kept, units.last)
            scores[ranges(offsets[numbers], offsets[numbers + 1])] = log_probs
    if tag_of(task.target_tokenizer) is not None:  # certain, as in search
        by_model[:, offsets[:-1][corpus.target.lengths() > 0]] = 0.0
    with np.errstate(invalid="ignore"):  # NaN stays NaN
        log_probs = np.logaddexp.reduce(by_model, axis=0) - math.log(len(models))
    return np.split(log_probs, offsets[1:-1]) if len(offsets) > 1 else []


def sentence_score(log_probs: np.ndarray, task: TranslationTask, lenpen: float) -> float:
    """The sum of a sentence's log-probabilities (n+1,) / (tokens with `</s>`, without a language's tag) ** lenpen."""
    tagged = tag_of(task.target_tokenizer) is not None and len(log_probs) > 1
    return float(log_probs.sum() / (len(log_probs) - tagged) ** lenpen)


def forced_batches(
    model: AnyTranslationModel,
    task: TranslationTask,
    corpus: ParallelCorpus,
    *,
    max_tokens: int,
    context_window: int | None = None,
    last_only: bool = False,
) -> Iterator[tuple[Units, TranslationBatch]]:
    """Yield the units of a corpus, cut as in search, in batches with their targets, on the model's device."""
    source = replace(corpus, target=None)  # where documents are cut does not depend on the target
    plan, device = model.reading, next(model.parameters()).device
    units_of = last_sentence_units if last_only else planned_units
    units = units_of(plan, source, limit=task.max_doc_tokens, window=context_window)
    sizes = unit_sizes(corpus, units, plan)
    for chosen in plan_batches(sizes, max_tokens, seed=0, epoch=0, shuffle=False):
        yield units[chosen], collate(corpus, units, chosen, plan).to(device)


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
    """log p(target </s> | source, contexts) of every example, in order; see `token_log_probs` and `sentence_score`.

    `context_window`: the most sentences right before the last one that are read, on both sides; positions stay
    unchanged. `progress` is called with a number of examples whenever they are done.
    """
    portions, begin, sentences = list[Sequence["ForcedExample"]](), 0, 0
    for end, example in enumerate(examples, 1):
        sentences += len(example.source_context) + 1
        if end - begin == _EXAMPLES or sentences >= _SENTENCES or end == len(examples):
            portions.append(examples[begin:end])
            begin, sentences = end, 0

    def scored(number: int) -> list[float]:
        corpus = examples_as_documents(portions[number], task)
        log_probs = token_log_probs(
            models, task, corpus, max_tokens=max_tokens, context_window=context_window, last_only=True
        )
        last = [log_probs[n - 1] for n in corpus.document_offsets[1:].tolist()]
        if progress is not None:
            progress(len(last))
        return [sentence_score(of_sentence, task, lenpen) for of_sentence in last]

    shares = ranks.shared_out([len(portion) for portion in portions], scored)
    return [score for share in shares for score in share]


def examples_as_documents(examples: Sequence[ForcedExample], task: TranslationTask) -> ParallelCorpus:
    """A corpus in which each example is a document whose last sentence is the one to be scored."""
    sources, targets = [], []
    for example in examples:
        source_context, target_context = example.contexts()
        sources.append([*source_context, example.source])
        targets += [*target_context, example.target]
    target = TokenArray.from_lists(task.target_tokenizer.encode(targets), task.target_tokenizer.vocab_size)
    return replace(ParallelCorpus.from_lines(sources, task.source_tokenizer), target=target)
