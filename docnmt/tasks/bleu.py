"""BLEU of a model on a corpus: what training watches, by the code that `docnmt-generate` runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from docnmt.data.corpus import ParallelCorpus
from docnmt.data.store import TokenArray
from docnmt.errors import UserError
from docnmt.models.protocol import AnyTranslationModel, TranslationTask
from docnmt.scoring.metrics import bleu_tokenizer, evaluate, scored_sentences
from docnmt.search.config import BeamSearchConfig, GenerationConfig
from docnmt.search.translate import translate_corpus
from docnmt.tasks.config import DocumentTranslationConfig


def corpus_bleu(
    model: AnyTranslationModel,
    task: TranslationTask,
    corpus: ParallelCorpus,
    config: DocumentTranslationConfig,
    *,
    max_tokens: int = 8000,
) -> float:
    """s-BLEU of beam search with `eval_bleu_beam` on the first `eval_bleu_documents` documents of a corpus.

    Raises:
        UserError: the corpus has no reference.
    """
    if not corpus.references:
        raise UserError("this split has no reference translation, so BLEU cannot be computed; judge by loss")
    part = first_documents(corpus, config.eval_bleu_documents)
    search = BeamSearchConfig(beam=config.eval_bleu_beam)
    was_training = model.training
    model.train(False)
    try:
        results = list(translate_corpus([model], task, part, GenerationConfig(max_tokens=max_tokens), search))
    finally:
        model.train(was_training)
    references = [reference[: len(results)] for reference in part.references]
    kept = scored_sentences(references)
    if not kept:
        raise UserError("no sentence that BLEU would be computed on has a reference; raise --eval-bleu-documents")
    texts = [results[i].text for i in kept]
    references = [[reference[i] for i in kept] for reference in references]
    offsets = np.searchsorted(kept, part.document_offsets)
    return evaluate(texts, references, offsets, tokenize=bleu_tokenizer(task.target_lang)).scores["s-BLEU"]


def first_documents(corpus: ParallelCorpus, count: int | None) -> ParallelCorpus:
    """The source side of the first `count` documents; of all if None. Raw text stays as it is: index it."""
    documents = corpus.num_documents if count is None else min(count, corpus.num_documents)
    sentences = int(corpus.document_offsets[documents])
    return replace(
        corpus,
        source=TokenArray(corpus.source.tokens, corpus.source.offsets[: sentences + 1]),
        target=None,
        document_offsets=corpus.document_offsets[: documents + 1],
        levels=corpus.levels[:sentences],
    )
