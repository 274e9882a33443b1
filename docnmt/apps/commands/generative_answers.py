"""The translations for generative evaluation: each question's last sentence, translated with its context."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from docnmt.apps.commands.config import ModelsConfig
from docnmt.apps.commands.models import load_models
from docnmt.apps.commands.output import progress_of
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.scoring.generative import Question
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.translate_corpus import translate_corpus
from docnmt.runtime.errors import UsageError, UserError


def answers(
    questions: Sequence[Question], models: ModelsConfig, options: GenerationConfig, search: SearchConfig
) -> list[str]:
    """Translate each question as a document of its own, context first; return the translations of last sentences.

    The context is translated, too: models that read their own translations read these, not the question's context.

    Raises:
        UserError: a question has no source sentence, or a model cannot be loaded.
    """
    examples = [question.example for question in questions]
    if missing := [number for number, example in enumerate(examples, 1) if not example.source.strip()]:
        raise UserError(f"--generative: question {missing[0]:,} has no source (column src), which --path translates")
    if options.formality == "given":
        raise UsageError("--formality given: questions have no given translations; expected formal or informal")
    loaded = load_models(models)
    documents = [[*filter(None, example.source_context), example.source] for example in examples]
    corpus = loaded.told(ParallelCorpus.from_lines(documents, loaded.task.source_tokenizer), options.formality)
    with progress_of(corpus, None) as progress:
        results = translate_corpus(
            loaded.models, loaded.task, corpus, options, search, context_window=models.context_window, progress=progress
        )
        texts = [result.text for result in results]
    return [texts[end - 1] for end in accumulate(map(len, documents))]
