"""BLEU of a model on a corpus: what training watches, by the code that `docnmt-generate` runs."""

from __future__ import annotations

from dataclasses import replace

from docnmt.data.corpus import ParallelCorpus
from docnmt.data.store import TokenArray
from docnmt.errors import UserError
from docnmt.models.protocol import AnyTranslationModel, TranslationTask
from docnmt.scoring.metrics import bleu_tokenizer, evaluate
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
    texts = [result.text for result in results]
    tokenize = bleu_tokenizer(task.target_lang)
    return evaluate(texts, references, part.document_offsets, tokenize=tokenize).scores["s-BLEU"]


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
