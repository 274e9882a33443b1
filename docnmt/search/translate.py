"""A corpus in, its translation out: the one path of validation BLEU, `docnmt-generate` and `docnmt-translate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
import torch
from torch import Tensor

from docnmt.batching.collate import collate_source, source_costs
from docnmt.batching.units import memory_sentences, planned_units, searched_texts
from docnmt.data.corpus import ParallelCorpus
from docnmt.data.tokenizer import Tokenizer
from docnmt.models.protocol import AnyTranslationModel, TranslationTask
from docnmt.registry import GENERATORS
from docnmt.runtime import INVARIANT_ROWS
from docnmt.search.config import GenerationConfig, SearchConfig
from docnmt.search.decode import Search, decode
from docnmt.search.ensemble import Ensemble, EnsembleState
from docnmt.search.given import given_tokens
from docnmt.search.hypothesis import Hypothesis, Slot
from docnmt.search.memory import TranslationMemory, with_memory
from docnmt.search.own_text import GivenText, OwnText
from docnmt.search.texts import slots_of, texts_together
from docnmt.units import Units


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence.

    Attributes:
        text: detokenised, without spaces at its ends. pieces: its subwords, `</s>` not included.
        score: natural log-probability of the subwords and `</s>` (`<brk>` inside a joined unit), divided by their
            number ** lenpen.
        piece_scores: natural log-probability of each piece.
    """

    text: str
    pieces: tuple[str, ...]
    score: float
    piece_scores: tuple[float, ...]


@dataclass(frozen=True)
class SentenceResult:
    """The translations of one source sentence, best first; in a joined unit, those of its best translations."""

    number: int
    nbest: tuple[Translation, ...]

    @property
    def text(self) -> str:
        """The best translation."""
        return self.nbest[0].text


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
        progress: called with a number of source subwords (`</s>` included) whenever they are done.
    """
    own_numbers = np.arange(corpus.num_sentences)
    if memory is not None:
        corpus, given, own_numbers = with_memory(corpus, given, memory)
    corpus = replace(corpus, target=None)  # where documents are cut must not depend on the reference
    search = GENERATORS.config(options.generator)() if search is None else search
    tokens = given_tokens(given, corpus.num_sentences, task.target_tokenizer)
    work = _Work(models, task, corpus, options, search, tokens, context_window, progress)
    costs = np.max([_costs(corpus, each) for each in work.units], axis=0)
    for first, last in groups([each.kept for each in work.units], costs, options.max_tokens):
        numbers = (number for number in range(first, last) if number not in tokens)
        for result in _results(work.group(first, last), numbers, task.target_tokenizer):
            yield replace(result, number=int(own_numbers[result.number]))


class _Work:
    """A corpus and what translates it."""

    def __init__(
        self,
        models: Sequence[AnyTranslationModel],
        task: TranslationTask,
        corpus: ParallelCorpus,
        options: GenerationConfig,
        search: SearchConfig,
        given: Mapping[int, Sequence[int]],
        window: int | None,
        progress: Callable[[int], object] | None,
    ) -> None:
        self.corpus, self.options, self.search, self.given = corpus, options, search, given
        self.progress = progress or (lambda done: None)
        self.device, self.ensemble = next(models[0].parameters()).device, Ensemble(models)
        self.lengths = source_lengths(corpus)
        self.plans = [model.reading for model in models]
        self.units = [planned_units(plan, corpus, limit=task.max_doc_tokens, window=window) for plan in self.plans]
        pairs = list(zip(self.plans, self.units, strict=True))
        self.texts = texts_together([searched_texts(*pair, corpus.num_sentences) for pair in pairs])
        own = [units for plan, units in pairs if plan.own_text]
        given_only = [units for plan, units in pairs if plan.given_text]
        self.own_text = OwnText(own[0]) if own else None
        self.given_text = GivenText(given_only[0]) if given_only and not own else None

    def group(self, first: int, last: int) -> dict[int, list[Hypothesis]]:
        """The translations of the sentences from `first` to `last`, encoded together."""
        texts = self.texts[slice(*np.searchsorted(self.texts[:, 1], [first, last]))]
        slots = slots_of(texts, last, self.lengths, self.search, self.given)
        self.progress(sum(int(self.lengths[number]) for number in range(first, last) if number in self.given))
        if not slots:
            return {}
        group = _Group(self, *self._encode(first, last), texts[:, 1], slots)
        generator: Search = GENERATORS.get(self.options.generator)(self.search, self.device)
        found: dict[int, list[Hypothesis]] = {}
        for slot, hypotheses in decode(
            self.ensemble.step, partial(group.begin, generator.width), generator, group.ready,
            capacity=self.options.batch_size, least_rows=INVARIANT_ROWS, following=group.following,
        ):  # fmt: skip
            apart = [hypothesis.sentences(self.search.lenpen) for hypothesis in hypotheses]
            for number, sentence in enumerate(range(slot.before, len(slot.limits)), slot.number):
                if number not in self.given:
                    found[number] = [each[sentence] for each in apart]
                    self.progress(int(self.lengths[number]))
        return found

    def _encode(self, first: int, last: int) -> tuple[list[object], list[Tensor]]:
        """Each model's memory, and the sentences of it that the texts are."""
        copies = -(-INVARIANT_ROWS // (last - first))  # few rows take other kernels, whose sums differ in the last bit
        chosen = [np.arange(*np.searchsorted(each.kept, [first, last])) for each in self.units]
        parts = list(zip(self.plans, self.units, chosen, strict=True))
        sources = [collate_source(self.corpus, each, np.tile(own, copies), plan) for plan, each, own in parts]
        memories = self.ensemble.encode([source.to(self.device) for source in sources])
        return memories, [torch.from_numpy(memory_sentences(*part)).to(self.device) for part in parts]


class _Group:
    """Texts whose sources were encoded together.

    Args:
        memories: of each model. places: for each model, which sentence of its memory each text is.
        begins: (W,) the first sentence of each text that is kept. slots: of the texts, the longest first.
    """

    def __init__(
        self, work: _Work, memories: list[object], places: list[Tensor], begins: np.ndarray, slots: list[Slot]
    ) -> None:
        self.ensemble, self.own_text, self.given = work.ensemble, work.own_text, work.given
        self.given_text = work.given_text
        self.memories, self.places, self.begins = memories, places, begins
        self.waiting = {slot.number: slot for slot in slots}
        self.ready = slots
        given = [number for number in begins.tolist() if number in self.given]
        if self.own_text is not None:
            for number in given:
                if not self.own_text.follows(number):
                    self._keep(number, self.given[number])
            self.ready = self.own_text.ready(slots)
        if self.given_text is not None:
            self.given_text.keep({number: self._remember(number, self.given[number]) for number in given})

    def begin(self, width: int, entering: Sequence[Slot]) -> EnsembleState:
        """The models' state for slots that enter, `width` rows each."""
        numbers = np.searchsorted(self.begins, [slot.number for slot in entering])
        read = self.own_text or self.given_text
        earlier = [read.earlier(slot.number) for slot in entering] if read is not None else []
        return self.ensemble.begin(self.memories, [place[numbers] for place in self.places], width, earlier)

    def following(self, slot: Slot, hypotheses: list[Hypothesis]) -> list[Slot]:
        """The slot that had to wait for this one, whose best hypothesis it will read."""
        if self.own_text is None:
            return []
        after = self.waiting.get(self._keep(slot.number, hypotheses[0].tokens[:-1]))
        return [] if after is None or after in self.ready else [after]

    def _keep(self, number: int, tokens: Sequence[int]) -> int:
        """Later sentences will read this one, and the given ones that follow it. Returns the number after them."""
        assert self.own_text is not None
        while True:
            self.own_text.keep(number, self._remember(number, tokens))
            number += 1
            if number not in self.given or not self.own_text.follows(number):
                return number
            tokens = self.given[number]

    def _remember(self, number: int, tokens: Sequence[int]) -> list[object]:
        """What each model's other sentences read of a translation."""
        here = np.searchsorted(self.begins, number)
        sentences = [int(place[here]) for place in self.places]
        return self.ensemble.remember(self.memories, sentences, tokens, given=number in self.given)


def _results(
    found: dict[int, list[Hypothesis]], numbers: Iterable[int], tokenizer: Tokenizer
) -> Iterator[SentenceResult]:
    """The sentences `numbers` in order, each with its translations.

    Raises:
        RuntimeError: one is missing.
    """
    for number in numbers:
        if not found.get(number):
            raise RuntimeError(f"sentence {number + 1} went in and no translation came out; the model gave no </s>")
        yield SentenceResult(number, tuple(translation(hypothesis, tokenizer) for hypothesis in found[number]))


def translation(hypothesis: Hypothesis, tokenizer: Tokenizer) -> Translation:
    """A hypothesis as text."""
    tokens = hypothesis.tokens[:-1]
    return Translation(
        text=tokenizer.decode(tokens).strip(),
        pieces=tuple(tokenizer.pieces(tokens)),
        score=hypothesis.score,
        piece_scores=hypothesis.token_scores[:-1],
    )


def source_lengths(corpus: ParallelCorpus) -> np.ndarray:
    """(S,) subwords of each source sentence, `</s>` included."""
    return np.diff(np.asarray(corpus.source.offsets)) + 1


def _costs(corpus: ParallelCorpus, units: Units) -> np.ndarray:
    """(S,) source subwords that have to be read for each unit, at its first sentence that is kept."""
    costs = np.zeros(corpus.num_sentences, dtype=np.int64)
    costs[units.kept] = source_costs(corpus, units)
    return costs


def groups(starts: Sequence[np.ndarray], lengths: np.ndarray, max_tokens: int) -> Iterator[tuple[int, int]]:
    """Ranges of sentences to encode at once: whole units of every model, as many as `max_tokens` allows, at least one.

    Args:
        starts: for each model, the first sentence (U,) of each unit that is kept.
        lengths: (S,) tokens to read for each sentence.
    """
    begins = reduce(np.intersect1d, starts)
    total = np.concatenate([[0], np.cumsum(lengths)])
    ends = np.append(begins, len(lengths))[1:]
    place = 0
    while place < len(begins):
        fits = int(np.searchsorted(total[ends], total[begins[place]] + max_tokens, side="right"))
        after = max(fits, place + 1)
        yield int(begins[place]), int(ends[after - 1])
        place = after
