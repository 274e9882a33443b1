"""A corpus in, its translation out: the one path of validation BLEU, `docnmt-generate` and `docnmt-translate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import torch

from docnmt.data.collate import source_costs
from docnmt.data.corpus import ParallelCorpus
from docnmt.data.units import Units
from docnmt.errors import UserError
from docnmt.generation.config import GenerationConfig, SearchConfig
from docnmt.generation.ensemble import Ensemble, EnsembleState
from docnmt.generation.hypothesis import Hypothesis, Slot
from docnmt.generation.search import Search, decode
from docnmt.registry import GENERATORS
from docnmt.runtime import INVARIANT_ROWS


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence.

    Attributes:
        text: detokenised. pieces: its subwords, `</s>` not included.
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
    models: Sequence[Any],
    task: Any,
    corpus: ParallelCorpus,
    options: GenerationConfig,
    search: SearchConfig | None = None,
    *,
    context_window: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[SentenceResult]:
    """Translate every sentence of a corpus; results come one for each, in the corpus's order, as they are ready.

    Args:
        models: one, or several whose probabilities are averaged; all in evaluation mode, on one device.
        task: has the models' units and tokenizer.
        search: the generator's own options; None takes their defaults.
        context_window: a sentence is read with at most so many of its document before it and after it.
        progress: called with a number of source subwords (`</s>` included) whenever they are done.
    """
    corpus = replace(corpus, target=None)  # where documents are cut must not depend on the reference
    search = GENERATORS.config(options.generator)() if search is None else search
    device = next(models[0].parameters()).device
    limits = {"limit": task.config.max_doc_tokens, "window": context_window}
    units = [task.units(corpus, model, **limits) for model in models]
    lengths, ensemble = source_lengths(corpus), Ensemble(models)
    costs = np.max([_costs(corpus, each) for each in units], axis=0)
    texts = _texts([task.written(corpus, *pair) for pair in zip(units, models, strict=True)])
    for first, last in groups([each.first for each in units], costs, options.max_tokens):
        copies = -(-INVARIANT_ROWS // (last - first))  # few rows take other kernels, whose sums differ in the last bit
        chosen = [np.arange(*np.searchsorted(each.first, [first, last])) for each in units]
        parts = list(zip(units, chosen, models, strict=True))
        memories = ensemble.encode(
            [task.source(corpus, each, np.tile(own, copies), model).to(device) for each, own, model in parts]
        )
        places = [torch.from_numpy(task.places(*part)).to(device) for part in parts]

        def begin(slots: Sequence[Slot]) -> EnsembleState:
            numbers = np.searchsorted(begins, [slot.number for slot in slots])  # noqa: B023
            return ensemble.begin(memories, [place[numbers] for place in places], generator.width)  # noqa: B023

        generator: Search = GENERATORS.get(options.generator)(search, device)
        begins = texts[np.searchsorted(texts, first) : np.searchsorted(texts, last)]
        slots = _slots(begins, last, lengths, search)
        found: dict[int, list[Hypothesis]] = {}
        sizes = {"capacity": options.batch_size, "least_rows": INVARIANT_ROWS}
        for slot, hypotheses in decode(ensemble.step, begin, generator, slots, **sizes):
            apart = [hypothesis.sentences(search.lenpen) for hypothesis in hypotheses]
            for sentence in range(len(slot.limits)):
                found[slot.number + sentence] = [each[sentence] for each in apart]
            if progress is not None:
                progress(int(lengths[slot.number : slot.number + len(slot.limits)].sum()))
        yield from _results(found, range(first, last), task.target_tokenizer)


def _texts(written: Sequence[np.ndarray]) -> np.ndarray:
    """(W + 1,) where each text begins that the models write together.

    Raises:
        UserError: they do not write the same.
    """
    for other in written[1:]:
        if not np.array_equal(written[0], other):
            raise UserError(
                "--path: these models cannot translate together: some write sentence by sentence and others windows or "
                "documents as one text; give models of one kind"
            )
    return written[0]


def _slots(begins: np.ndarray, end: int, lengths: np.ndarray, search: SearchConfig) -> list[Slot]:
    """A slot for each text from `begins` (W,), up to sentence `end`, the longest first; its number is its first
    sentence's."""
    ends = np.append(begins, end)[1:]
    total = np.concatenate([[0], np.cumsum(lengths)])
    order = np.argsort(total[begins] - total[ends], kind="stable")
    return [
        Slot(int(begins[n]), tuple(search.limit(int(length)) for length in lengths[begins[n] : ends[n]])) for n in order
    ]


def _results(found: dict[int, list[Hypothesis]], numbers: range, tokenizer: Any) -> Iterator[SentenceResult]:
    """The sentences `numbers` in order, each with its translations.

    Raises:
        RuntimeError: one is missing.
    """
    for number in numbers:
        if not found.get(number):
            raise RuntimeError(f"sentence {number + 1} went in and no translation came out; the model gave no </s>")
        yield SentenceResult(number, tuple(translation(hypothesis, tokenizer) for hypothesis in found[number]))


def translation(hypothesis: Hypothesis, tokenizer: Any) -> Translation:
    """A hypothesis as text."""
    tokens = hypothesis.tokens[:-1]
    return Translation(
        text=tokenizer.decode(tokens),
        pieces=tuple(tokenizer.pieces(tokens)),
        score=hypothesis.score,
        piece_scores=hypothesis.token_scores[:-1],
    )


def source_lengths(corpus: ParallelCorpus) -> np.ndarray:
    """(S,) subwords of each source sentence, `</s>` included."""
    return np.diff(np.asarray(corpus.source.offsets)) + 1


def _costs(corpus: ParallelCorpus, units: Units) -> np.ndarray:
    """(S,) source subwords that have to be read for each unit, at its first sentence."""
    costs = np.zeros(corpus.num_sentences, dtype=np.int64)
    costs[units.first] = source_costs(corpus, units)
    return costs


def groups(starts: Sequence[np.ndarray], lengths: np.ndarray, max_tokens: int) -> Iterator[tuple[int, int]]:
    """Ranges of sentences to encode at once: whole units of every model, as many as `max_tokens` allows, at least one.

    Args:
        starts: for each model, the sentences (U,) where its units begin.
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
