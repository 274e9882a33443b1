"""Translation of a corpus: the one path of validation BLEU, `docnmt-generate` and `docnmt-translate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any  # JSON

import numpy as np
import torch

from docnmt.core.corpus import ParallelCorpus
from docnmt.core.data.tokenizer import Tokenizer
from docnmt.core.models.encoder_decoder import AnyTranslationModel, TranslationTask
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.glossary import Glossary, TermFinder, asked_terms
from docnmt.core.search.memory_check import check_memory
from docnmt.core.search.rows import Hypothesis
from docnmt.core.search.scheduler import Job, Scheduler, given_tokens
from docnmt.core.search.translation_memory import TranslationMemory, streams_of, with_memory
from docnmt.registry.registry import GENERATORS
from docnmt.runtime import ranks

if TYPE_CHECKING:
    from docnmt.apps.explain.attention import Explanation, HeadReads


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence.

    Attributes:
        text: detokenised, without spaces at its ends. pieces: its subwords without `</s>`.
        score: natural log-probability of the subwords and `</s>` (`<brk>` inside a joined unit), divided by their
            number ** lenpen. A prescribed tag of the language is certain and not counted.
        piece_scores: natural log-probability of each piece.
        explanation: the context that was read for it, if requested.
        limited: True if it ends at the length limit (`max_len_a`, `max_len_b`), so that its end may be missing.
    """

    text: str
    pieces: tuple[str, ...]
    score: float
    piece_scores: tuple[float, ...]
    explanation: Explanation | None = None
    limited: bool = False

    @classmethod
    def of_given(cls, text: str, tokenizer: Tokenizer) -> Translation:
        """Return a given translation, which is not searched and so has probability 1."""
        pieces = tuple(tokenizer.pieces(tokenizer.encode([text])[0]))
        return cls(text, pieces, 0.0, (0.0,) * len(pieces))

    @property
    def reads(self) -> tuple[tuple[HeadReads, ...], ...] | None:
        """For each piece, the document's sentences that each head of each layer read, with their weights.

        None if `explain` was not requested.
        """
        return None if self.explanation is None else self.explanation.reads


@dataclass(frozen=True)
class SentenceResult:
    """The translations of one source sentence, best first; in a joined unit, its parts of the unit's translations."""

    number: int
    nbest: tuple[Translation, ...]

    @property
    def text(self) -> str:
        """The text of the best translation."""
        return self.nbest[0].text

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> SentenceResult:
        """Rebuild a result from its dictionary as read from JSON, which has lists for tuples; numbers are exact."""
        translations = (
            Translation(
                each["text"], tuple(each["pieces"]), each["score"], tuple(each["piece_scores"]), limited=each["limited"]
            )
            for each in found["nbest"]
        )
        return cls(found["number"], tuple(translations))


@torch.inference_mode()
def translate_corpus(
    models: Sequence[AnyTranslationModel],
    task: TranslationTask,
    corpus: ParallelCorpus,
    options: GenerationConfig,
    search: SearchConfig | None = None,
    *,
    given: Sequence[str | None] | None = None,
    memory: TranslationMemory | None = None,
    context_window: int | None = None,
    glossary: Glossary | None = None,
    fixed: Sequence[Sequence[tuple[int, int]]] | None = None,
    before: int = 0,
    progress: Callable[[int], object] | None = None,
) -> Iterator[SentenceResult]:
    """Translate a corpus, all of its sentences or all that are not given.

    Yield one result for each, in the corpus's order, as they are ready.

    Args:
        models: one, or several whose probabilities are averaged; all in evaluation mode, on one device.
        task: has the models' units and tokenizer.
        search: the generator's own options; None takes their defaults.
        given: for each sentence its translation or None. Later sentences are written as if the
            models had written the given ones.
        memory: sentences of other documents that are put before each document, with their translations as given.
        context_window: the most sentences of the document that are read before and after a sentence.
        glossary: terms that the translations of searched sentences must keep to; None: that of `options`.
        fixed: for each sentence its parts in which no terms are looked for, in order.
        before: number of sentences of the same text translated before this corpus; random streams continue from there.
        progress: called with a number of source subwords (`</s>` included) of the corpus whenever they are done.

    Raises:
        UserError: the glossary is wrong, the vocabulary cannot write a term, the generator does not support terms, or
            a document needs more memory than is available.
    """
    finder = asked_terms(options, task.target_tokenizer, glossary)
    search = GENERATORS.config(options.generator)() if search is None else search
    found: dict[int, list[Hypothesis]] = {}
    job, own_numbers = job_of(
        models,
        task,
        corpus,
        options,
        search,
        finder=finder,
        given=given,
        fixed=fixed,
        memory=memory,
        window=context_window,
        before=before,
        progress=progress,
        deliver=found.__setitem__,
    )

    results = partial(_results, job, found, own_numbers, task.target_tokenizer)
    yield from results(list(job.ranges())) if ranks.world() == 1 else _shared_out(job, results)


def _results(
    job: Job,
    found: dict[int, list[Hypothesis]],
    own_numbers: np.ndarray,
    tokenizer: Tokenizer,
    ranges: Sequence[tuple[int, int]],
) -> Iterator[SentenceResult]:
    """Search the sentences of these ranges that are not given; yield each, in order, once its translations are `found`.

    Raises:
        RuntimeError: a sentence got no translation.
    """
    scheduler = Scheduler(job.ensemble, job.options, job.search)
    scheduler.submit(job, ranges)
    for number in chain.from_iterable(range(*each) for each in ranges):
        if number in job.given:
            continue
        while number not in found and scheduler.jobs:
            scheduler.step()
        if number not in found:
            raise RuntimeError(f"sentence {number + 1} went in and no translation came out; the model gave no </s>")
        nbest = tuple(translation(hypothesis, tokenizer) for hypothesis in found.pop(number))
        yield SentenceResult(int(own_numbers[number]), nbest)


def _shared_out(
    job: Job, results: Callable[[Sequence[tuple[int, int]]], Iterator[SentenceResult]]
) -> Iterator[SentenceResult]:
    """Share the parts of a job among the ranks; yield all results in every rank, in order."""
    parts = job.chains()
    sizes = [int(job.lengths[part[0][0] : part[-1][1]].sum()) for part in parts]
    for part in ranks.shared_out(sizes, lambda place: [asdict(result) for result in results(parts[place])]):
        yield from map(SentenceResult.from_dict, part)


def job_of(
    models: Sequence[AnyTranslationModel], task: TranslationTask, corpus: ParallelCorpus, options: GenerationConfig,
    search: SearchConfig, *, finder: TermFinder | None, given: Sequence[str | None] | None,
    fixed: Sequence[Sequence[tuple[int, int]]] | None = None, memory: TranslationMemory | None, window: int | None,
    before: int = 0, progress: Callable[[int], object] | None = None,
    deliver: Callable[[int, list[Hypothesis]], object],
) -> tuple[Job, np.ndarray]:  # fmt: skip
    """Return the job that translates a corpus, with the memory's sentences before its documents.

    Args:
        finder: of the glossary's terms. window: the `context_window`. deliver: see `Job`. Others: see
            `translate_corpus`.

    Returns:
        The job, and for each of its sentences the number in `corpus`, or -1.

    Raises:
        UserError: a document needs more memory than there is.
    """
    own_numbers = np.arange(corpus.num_sentences)
    terms = None if finder is None else finder.of(corpus.source_text, fixed)
    if memory is not None:
        corpus, given, own_numbers = with_memory(corpus, given, memory)
    corpus = replace(corpus, target=None)  # where documents are cut must not depend on the reference
    tokens = given_tokens(given, corpus.num_sentences, task.target_tokenizer)
    job = Job(
        models,
        task,
        corpus,
        options,
        search,
        given=tokens,
        window=window,
        terms=None if terms is None else terms.renumbered(own_numbers.tolist()),
        streams=before + streams_of(own_numbers),
        asked=own_numbers >= 0,
        progress=progress,
        deliver=deliver,
    )
    check_memory(job)
    return job, own_numbers


def translation(hypothesis: Hypothesis, tokenizer: Tokenizer) -> Translation:
    """Return a hypothesis as text."""
    return Translation(
        text=hypothesis.text(tokenizer),
        pieces=tuple(tokenizer.pieces(hypothesis.tokens[:-1])),
        score=hypothesis.score,
        piece_scores=hypothesis.token_scores[:-1],
        limited=hypothesis.limited,
    )
