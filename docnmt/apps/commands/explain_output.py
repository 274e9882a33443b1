"""Output of `--explain`: the context read for a command's translations, as a page or as JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from docnmt.apps.commands.models import LoadedModels
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.search.translate_corpus import SentenceResult, Translation
from docnmt.core.search.translation_memory import TranslationMemory
from docnmt.runtime.files import check_new

if TYPE_CHECKING:
    from docnmt.apps.explain.explain_page import ExplainedSentence


def check_explain(name: str | None, *, overwrite: bool) -> None:
    """Check before long work that `--explain` can be written.

    Raises:
        UserError: its ending is unknown, or the file exists already.
    """
    if name is not None:
        from docnmt.apps.explain.explain_page import check_suffix

        check_suffix(Path(name))
        check_new(Path(name), overwrite=overwrite)


def explained(
    loaded: LoadedModels,
    corpus: ParallelCorpus,
    results: Iterable[SentenceResult],
    *,
    given: Sequence[str | None] | None,
    memory: TranslationMemory | None,
    context_window: int | None,
) -> list[list[ExplainedSentence]]:
    """Return the documents of a corpus, each sentence with its best translation and the context read for it.

    Args:
        results: of all searched sentences. given, memory, context_window: the arguments of `translate_corpus`.
    """
    from docnmt.apps.explain.explain import explain_translations
    from docnmt.apps.explain.explain_page import ExplainedSentence

    found = {result.number: result.nbest[0] for result in results}
    tokenizer = loaded.task.target_tokenizer
    translations = [
        found[n] if n in found else Translation.of_given((given or ())[n] or "", tokenizer)
        for n in range(corpus.num_sentences)
    ]
    offsets = corpus.document_offsets
    explanations = explain_translations(
        loaded.models,
        loaded.task,
        corpus,
        [each.pieces for each in translations],
        numbers=np.arange(corpus.num_sentences) - np.repeat(offsets[:-1], np.diff(offsets)),
        given=given,
        memory=memory,
        context_window=context_window,
    )
    sentences = [
        ExplainedSentence(source, replace(translation, explanation=explanation))
        for source, translation, explanation in zip(corpus.source_text, translations, explanations, strict=True)
    ]
    return [sentences[begin:end] for begin, end in pairwise(offsets.tolist())]


def write_explained(name: str, loaded: LoadedModels, documents: Sequence[Sequence[ExplainedSentence]]) -> None:
    """Write the file of `--explain`."""
    from docnmt.apps.explain.explain_page import write_explanation

    write_explanation(
        Path(name),
        documents,
        tokenizer=loaded.task.source_tokenizer,
        languages=loaded.task.languages,
        models=[str(each) for each in loaded.paths],
    )
