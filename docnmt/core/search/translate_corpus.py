"""A corpus in, its translation out: the one path of validation BLEU, `docnmt-generate` and `docnmt-translate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any  # JSON

import numpy as np
import torch

from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.tokenizer import Tokenizer
from docnmt.core.formats.glossary import Glossary
from docnmt.core.models.translation_model import AnyTranslationModel, TranslationTask
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.decode import Search, decode
from docnmt.core.search.given_translations import given_tokens
from docnmt.core.search.hypothesis import Hypothesis, Slot
from docnmt.core.search.memory_check import check_room
from docnmt.core.search.terms import TermFinder, asked_terms
from docnmt.core.search.translation_memory import TranslationMemory, streams_of, with_memory
from docnmt.core.search.work import Work, begin, encode
from docnmt.registry.registry import GENERATORS
from docnmt.runtime import ranks
from docnmt.runtime.tuning import INVARIANT_ROWS

if TYPE_CHECKING:
    from docnmt.apps.explain.explanation import Explanation, HeadReads


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence.

    Attributes:
        text: detokenised, without spaces at its ends. pieces: its subwords, `</s>` not included.
        score: natural log-probability of the subwords and `</s>` (`<brk>` inside a joined unit), divided by their
            number ** lenpen.
        piece_scores: natural log-probability of each piece.
        explanation: what was read for it, if that was asked for.
    """

    text: str
    pieces: tuple[str, ...]
    score: float
    piece_scores: tuple[float, ...]
    explanation: Explanation | None = None

    @classmethod
    def of_given(cls, text: str, tokenizer: Tokenizer) -> Translation:
        """One that was not searched: certain, and as it was given."""
        pieces = tuple(tokenizer.pieces(tokenizer.encode([text])[0]))
        return cls(text, pieces, 0.0, (0.0,) * len(pieces))

    @property
    def reads(self) -> tuple[tuple[HeadReads, ...], ...] | None:
        """For each piece, what each head of each layer read: sentences of the document and their weights.

        None where `explain` was not asked for.
        """
        return None if self.explanation is None else self.explanation.reads


@dataclass(frozen=True)
class SentenceResult:
    """The translations of one source sentence, best first; in a joined unit, those of its best translations."""

    number: int
    nbest: tuple[Translation, ...]

    @property
    def text(self) -> str:
        """The best translation."""
        return self.nbest[0].text

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> SentenceResult:
        """Back from JSON, which has lists for tuples; numbers are exact."""
        translations = (
            Translation(each["text"], tuple(each["pieces"]), each["score"], tuple(each["piece_scores"]))
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
    before: int = 0,
    progress: Callable[[int], object] | None = None,
) -> Iterator[SentenceResult]:
    """Translate a corpus, all of its sentences or all that are not given.

    Results come one for each, in the corpus's order, as they are ready.

    Args:
        models: one, or several whose probabilities are averaged; all in evaluation mode, on one device.
        task: has the models' units and tokenizer.
        search: the generator's own options; None takes their defaults.
        given: for each sentence its translation where there is one, else None. Later sentences are written as if the
            models had written it.
        memory: sentences of other documents that stand before each document, with their translations as given.
        context_window: a sentence is read with at most so many of its document before it and after it.
        glossary: what each sentence that is searched has to say for the terms in its source; None: that of `options`.
        before: sentences of the same text that were translated before this corpus; samples are drawn as if it were all.
        progress: called with a number of source subwords (`</s>` included) of the corpus whenever they are done.

    Raises:
        UserError: the glossary is wrong, the vocabulary cannot write a term of it, or the generator takes none; or a
            document needs more memory than there is.
    """
    finder = asked_terms(options, task.target_tokenizer, glossary)
    search = GENERATORS.config(options.generator)() if search is None else search
    work, own_numbers = work_of(
        models, task, corpus, options, search,
        finder=finder, given=given, memory=memory, window=context_window, before=before, progress=progress,
    )  # fmt: skip
    parts = work.chains()

    def _part(place: int) -> Iterator[SentenceResult]:
        for result in _results(work, parts[place], task.target_tokenizer):
            yield replace(result, number=int(own_numbers[result.number]))

    if ranks.world() == 1:
        yield from chain.from_iterable(map(_part, range(len(parts))))
    else:
        sizes = [int(work.lengths[part[0][0] : part[-1][1]].sum()) for part in parts]
        for found in ranks.shared_out(sizes, lambda place: [asdict(result) for result in _part(place)]):
            yield from map(SentenceResult.from_dict, found)


def work_of(
    models: Sequence[AnyTranslationModel], task: TranslationTask, corpus: ParallelCorpus, options: GenerationConfig,
    search: SearchConfig, *, finder: TermFinder | None, given: Sequence[str | None] | None,
    memory: TranslationMemory | None, window: int | None, before: int = 0,
    progress: Callable[[int], object] | None = None,
) -> tuple[Work, np.ndarray]:  # fmt: skip
    """A corpus, with what a memory puts before its documents, as work; arguments as for `translate_corpus`.

    Args:
        finder: of the terms of a glossary. window: `context_window`.

    Returns:
        The work, and for each of its sentences the number in `corpus`, or -1.

    Raises:
        UserError: a document needs more memory than there is.
    """
    own_numbers = np.arange(corpus.num_sentences)
    terms = None if finder is None else finder.of(corpus.source_text)
    if memory is not None:
        corpus, given, own_numbers = with_memory(corpus, given, memory)
    corpus = replace(corpus, target=None)  # where documents are cut must not depend on the reference
    tokens = given_tokens(given, corpus.num_sentences, task.target_tokenizer)
    work = Work(
        models, task, corpus, options, search, given=tokens, window=window,
        terms=None if terms is None else terms.renumbered(own_numbers.tolist()),
        streams=before + streams_of(own_numbers), asked=own_numbers >= 0, progress=progress,
    )  # fmt: skip
    check_room(work)
    return work, own_numbers


def _translated(work: Work, first: int, last: int) -> dict[int, list[Hypothesis]]:
    """The translations of the sentences from `first` to `last`, encoded together."""
    if not work.has_to_read(first, last):
        work.done(range(first, last))
        return {}
    (group,) = encode([(work, first, last)])
    generator: Search = GENERATORS.get(work.options.generator)(work.search, work.device)
    found: dict[int, list[Hypothesis]] = {}

    def following(slot: Slot, hypotheses: list[Hypothesis]) -> list[Slot]:
        sentences, after = group.finish(slot, hypotheses)
        found.update(sentences)
        return after

    start = partial(begin, work.ensemble, {0: group}, generator.width)
    for _ in decode(
        work.ensemble.step, start, generator, group.ready,
        capacity=work.options.texts_at_once(generator.width), least_rows=INVARIANT_ROWS, following=following,
    ):  # fmt: skip
        pass
    return found


def _results(work: Work, ranges: Iterable[tuple[int, int]], tokenizer: Tokenizer) -> Iterator[SentenceResult]:
    """The sentences of a chain of ranges that are not given, in order, each with its translations.

    Raises:
        RuntimeError: one is missing.
    """
    for first, last in ranges:
        found = _translated(work, first, last)
        for number in range(first, last):
            if number in work.given:
                continue
            if not found.get(number):
                raise RuntimeError(f"sentence {number + 1} went in and no translation came out; the model gave no </s>")
            yield SentenceResult(number, tuple(translation(hypothesis, tokenizer) for hypothesis in found[number]))


def translation(hypothesis: Hypothesis, tokenizer: Tokenizer) -> Translation:
    """A hypothesis as text."""
    return Translation(
        text=hypothesis.text(tokenizer),
        pieces=tuple(tokenizer.pieces(hypothesis.tokens[:-1])),
        score=hypothesis.score,
        piece_scores=hypothesis.token_scores[:-1],
    )
