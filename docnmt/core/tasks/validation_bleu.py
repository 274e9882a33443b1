"""BLEU and sample translations of a model during training, by the code that `docnmt-generate` runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from docnmt.core.corpus import ParallelCorpus
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.models.encoder_decoder import AnyTranslationModel, TranslationTask
from docnmt.core.scoring.metrics import bleu_tokenizer, evaluate, scored_sentences
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, GreedyConfig
from docnmt.core.search.translate import translate_corpus
from docnmt.runtime import ranks
from docnmt.runtime.errors import UserError
from docnmt.runtime.progress import Progress


def corpus_bleu(
    model: AnyTranslationModel,
    task: TranslationTask,
    corpus: ParallelCorpus,
    config: DocumentTranslationConfig,
    *,
    max_tokens: int = 8000,
) -> float:
    """Compute s-BLEU of beam search (`eval_bleu_beam`) on all sentences with references.

    Raises:
        UserError: the corpus has no reference.
    """
    kept = scored_sentences(corpus.references)
    if not kept:
        raise UserError("this split has no reference translation, so BLEU cannot be computed; judge by loss")
    search = BeamSearchConfig(beam=config.eval_bleu_beam)
    was_training = model.training
    model.train(False)
    total = len(corpus.source.tokens) + corpus.num_sentences
    options = GenerationConfig(max_tokens=max_tokens)
    try:
        with Progress(total // ranks.world(), "validating (BLEU)", unit="subwords", lasting=False) as bar:
            results = list(translate_corpus([model], task, corpus, options, search, progress=bar.update))
    finally:
        model.train(was_training)
    texts = [results[i].text for i in kept]
    references = [[reference[i] for i in kept] for reference in corpus.references]
    offsets = np.searchsorted(kept, corpus.document_offsets)
    return evaluate(texts, references, offsets, tokenize=bleu_tokenizer(task.target_lang)).scores["s-BLEU"]


def sample_translations(
    model: AnyTranslationModel, task: TranslationTask, corpus: ParallelCorpus, *, count: int = 5
) -> str:
    """Translate the first sentences of a corpus by greedy search; return a Markdown table with source and reference.

    Of their documents, only these sentences are read.
    """
    number = int(np.searchsorted(corpus.document_offsets, count))
    part = corpus.first_documents(number)
    documents = [list(part.source_text[a:b]) for a, b in pairwise(part.document_offsets.tolist())]
    documents[-1:] = [document[: count - int(part.document_offsets[-2])] for document in documents[-1:]]
    shown = ParallelCorpus.from_lines(documents, task.source_tokenizer)
    shown = replace(shown, levels=part.levels[: shown.num_sentences])
    search = GreedyConfig()
    was_training = model.training
    model.train(False)
    try:
        results = list(translate_corpus([model], task, shown, GenerationConfig(generator="greedy"), search))
    finally:
        model.train(was_training)
    columns: list[Sequence[str]] = [shown.source_text, [result.text for result in results], *corpus.references[:1]]
    heads = ["source", "translation", "reference"][: len(columns)]
    rows = zip(*(column[: len(results)] for column in columns), strict=True)
    table = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)
