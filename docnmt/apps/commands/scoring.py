"""The models behind docnmt-score: contrastive scores and generated answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain

from docnmt.apps.commands.models import load_models
from docnmt.apps.commands.output import Limited, beginning, progress_of
from docnmt.apps.commands.translating import Translating
from docnmt.apps.options import MemoryConfig, ModelsConfig
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.scoring.discourse import ForcedExample, Question
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.forced import forced_scores
from docnmt.runtime.progress import Progress
from docnmt.runtime.system import UsageError, UserError


def scorer(config: ModelsConfig) -> Callable[[list[ForcedExample]], list[float]]:
    """Return a function that sums log-probabilities under the models of `--path`."""
    loaded = load_models(config)

    def score(examples: list[ForcedExample]) -> list[float]:
        with Progress(len(examples), "scoring", unit="translations") as bar:
            window = config.context_window
            return forced_scores(loaded.models, loaded.task, examples, context_window=window, progress=bar.update)

    return score


def answers(
    questions: Sequence[Question], models: ModelsConfig, options: GenerationConfig, search: SearchConfig, *,
    given: bool = False,
) -> list[str]:  # fmt: skip
    """Translate each question as a document of its own, context first; return the translations of last sentences.

    With `given`, models that read translations read those of the question's context where it has any.
    """
    examples = [question.example for question in questions]
    if missing := [number for number, example in enumerate(examples, 1) if not example.source.strip()]:
        raise UserError(f"--generative: question {missing[0]:,} has no source (column src), which --path translates")
    if options.formality == "given" and not given:
        raise UsageError("--formality given: expected --given-context, too, which gives translations of the contexts")
    pairs = [_document(example) for example in examples]
    known = [translation if given else None for _, translation in chain.from_iterable(pairs)]
    if given and not any(known):
        raise UserError("--given-context: no context has a translation; expected some in the column tgt_context")
    translating = Translating.open(models, MemoryConfig(), options, search)
    loaded = translating.loaded
    if given:
        loaded.note_unread("--given-context", options.formality)
    documents = [[source for source, _ in document] for document in pairs]
    corpus = ParallelCorpus.from_lines(documents, loaded.task.source_tokenizer)
    corpus = translating.told(corpus, known)
    lasts = {end - 1 for end in accumulate(map(len, documents))}
    with progress_of(corpus, None) as progress:
        limited = Limited()
        results = limited.counted(
            translating.results(corpus, known, progress=progress), lambda number: beginning(corpus.source_text[number])
        )
        texts = [result.text for result in results if result.number in lasts]
    limited.note()
    return texts


def _document(example: ForcedExample) -> list[tuple[str, str | None]]:
    """Return the sentences of a context and its question, each with its translation in the file, or None."""
    context = zip(*example.contexts(), strict=True)
    known = [(source, target.strip() or None) for source, target in context if source.strip()]
    return [*known, (example.source, None)]
