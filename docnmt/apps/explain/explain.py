"""Explanations of translations: what was read, and what changes when a sentence is left out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from docnmt.apps.explain.attention import Attention, Explanation, UnitNotes, Without
from docnmt.core.corpus import ParallelCorpus, TextArray, TokenArray, offsets_of, renumber
from docnmt.core.models.encoder_decoder import AnyTranslationModel, TranslationTask
from docnmt.core.search.translate import TranslationMemory, forced_batches, given_tokens, token_log_probs, with_memory
from docnmt.modules.layers import recording


@dataclass(frozen=True)
class _Excerpt:
    """A document of selected sentences of a corpus.

    Attributes:
        sentences: their numbers in the corpus, in order. scored: those whose translations are scored.
    """

    sentences: tuple[int, ...]
    scored: frozenset[int]

    def without(self, sentence: int, scored: Collection[int]) -> _Excerpt:
        """Return the excerpt without one sentence; only sentences in `scored` are scored."""
        return _Excerpt(tuple(n for n in self.sentences if n != sentence), self.scored & frozenset(scored))


def _excerpts(
    corpus: ParallelCorpus, given: Collection[int], wanted: Collection[int], *, given_text: bool, window: int | None
) -> list[_Excerpt]:
    """Return the documents that contain `wanted` sentences, as search reads them.

    Args:
        given_text: each sentence is read with the given translations only: it comes after them in
            a document of its own, because positions of such models do not leave the sentence.
        window: the largest distance of such translations from the sentence; other documents stay whole.
    """
    documents = [range(*pair) for pair in pairwise(corpus.document_offsets.tolist())]
    if not given_text:
        whole = [_Excerpt(tuple(document), frozenset(document) & frozenset(wanted)) for document in documents]
        return [each for each in whole if each.scored]
    reach = corpus.num_sentences if window is None else window
    return [
        _Excerpt((*(m for m in document if m in given and 0 < abs(m - n) <= reach), n), frozenset([n]))
        for document in documents
        for n in document
        if n in wanted
    ]


def taken(corpus: ParallelCorpus, chosen: Sequence[_Excerpt]) -> tuple[ParallelCorpus, np.ndarray]:
    """Return a corpus of these documents, and for each of its sentences its number in `corpus`, without raw text."""
    assert corpus.target is not None
    numbers = np.array([n for each in chosen for n in each.sentences], dtype=np.int64)
    offsets = offsets_of(np.array([len(each.sentences) for each in chosen], dtype=np.int64))
    excerpt = replace(
        corpus, document_offsets=offsets, levels=renumber(corpus.levels[numbers], offsets),
        source=corpus.source.take(numbers), target=corpus.target.take(numbers), source_text=TextArray.from_lines([]),
        references=[],
    )  # fmt: skip
    return excerpt, numbers


#: Number of sentences, the most read ones, without which a translation is scored again.
WITHOUT = 3
#: Number of subwords that are scored at once.
_MAX_TOKENS = 8000


def explain_translations(
    models: Sequence[AnyTranslationModel], task: TranslationTask, corpus: ParallelCorpus,
    pieces: Sequence[Sequence[str]], *, numbers: np.ndarray, given: Sequence[str | None] | None = None,
    memory: TranslationMemory | None = None, context_window: int | None = None,
) -> list[Explanation | None]:  # fmt: skip
    """Return, for each sentence of a corpus, the explanation of its translation, or None if that was given.

    Args:
        pieces: of the searched translations; those of given ones are ignored.
        numbers: (S,) the number of each sentence in its document.
        given, memory, context_window: the arguments of `translate_corpus`.
    """
    entries = {piece: number for number, piece in enumerate(task.target_tokenizer.vocabulary())}
    tokens = [[entries[piece] for piece in each] for each in pieces]
    rows = np.arange(corpus.num_sentences)
    known: Sequence[str | None] = [None] * len(tokens) if given is None else given
    if memory is not None:
        corpus, known, rows = with_memory(corpus, known, memory)
    encoded = given_tokens(known, corpus.num_sentences, task.target_tokenizer)
    written = [encoded[n] if n in encoded else tokens[row] for n, row in enumerate(rows.tolist())]
    target = TokenArray.from_lists(written, task.target_tokenizer.vocab_size)
    wanted = [n for n, row in enumerate(rows.tolist()) if row >= 0 and n not in encoded]
    explanations = explain(
        models, task, replace(corpus, target=target), wanted, given=encoded, numbers=_numbers(corpus, rows, numbers),
        context_window=context_window,
    )  # fmt: skip
    by_row = {int(rows[n]): explanation for n, explanation in explanations.items()}
    return [by_row.get(row) for row in range(len(tokens))]


def _numbers(corpus: ParallelCorpus, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the numbers of sentences; those of a memory, whose row is -1, count backwards from -1."""
    if not len(rows):
        return numbers
    first = np.repeat(corpus.document_offsets[:-1], np.diff(corpus.document_offsets))
    before = np.cumsum(np.append(0, rows < 0))[np.append(first, 0)[:-1]]  # the memory's, in earlier documents
    after = np.cumsum(rows < 0) - before  # the memory's, in this document up to here
    whole = np.zeros(len(rows), dtype=np.int64)
    np.maximum.at(whole, first, after)
    return np.asarray(np.where(rows < 0, after - 1 - whole[first], numbers[rows]))


@torch.inference_mode()
def explain(
    models: Sequence[AnyTranslationModel], task: TranslationTask, corpus: ParallelCorpus, wanted: Collection[int], *,
    given: Collection[int], numbers: np.ndarray, context_window: int | None,
) -> dict[int, Explanation]:  # fmt: skip
    """Return explanations of the translations of sentences `wanted` of a corpus.

    A document without a sentence is scored as a text of its own; positions are counted anew.

    Args:
        corpus: the text with all translations as its target side.
        given: the sentences whose translations were given, not searched.
        numbers: (S,) the number of each sentence in its document.
        context_window: see search.
    """
    documents = [
        _excerpts(corpus, given, wanted, given_text=model.reading.given_text, window=context_window) for model in models
    ]
    # an excerpt of given translations holds what is within the window, and is read whole
    windows = [None if model.reading.given_text else context_window for model in models]
    passes = list(zip(models, documents, windows, strict=True))
    explanations: dict[int, Explanation] = {}
    for number, (model, own, window) in enumerate(passes):
        for sentence, explanation in _read(model, number, task, corpus, own, window):
            if (first := explanations.get(sentence)) is not None:  # that of the models before
                attentions = first.decoder + explanation.decoder, first.encoder + explanation.encoder
                explanation = replace(first, decoder=attentions[0], encoder=attentions[1])
            explanations[sentence] = explanation
    most_read = {sentence: list(each.others)[:WITHOUT] for sentence, each in explanations.items()}
    scores = [_scores(model, task, corpus, own, most_read, window) for model, own, window in passes]
    log_probs = {  # of the models' mean probabilities
        key: np.logaddexp.reduce([of_model[key] for of_model in scores]) - math.log(len(scores)) for key in scores[0]
    }
    for sentence, each in explanations.items():
        without = tuple(Without(other, log_probs[sentence, other]) for other in most_read[sentence])
        explanations[sentence] = _renamed(replace(each, log_probs=log_probs[sentence, None], without=without), numbers)
    return explanations


def _read(
    model: AnyTranslationModel, number: int, task: TranslationTask, corpus: ParallelCorpus,
    documents: Sequence[_Excerpt], context_window: int | None,
) -> Iterator[tuple[int, Explanation]]:  # fmt: skip
    """Yield the explanations of one model, document by document, with the corpus's sentence numbers."""
    for document in documents:
        excerpt, names = taken(corpus, [document])
        for units, batch in forced_batches(model, task, excerpt, max_tokens=1, context_window=context_window):
            with recording() as notes:
                model(batch)
            unit = UnitNotes.of(model, excerpt, units, batch)
            attentions = [each for each in (unit.attention(note, number) for note in notes) if each is not None]
            for place in range(int(units.kept[0]), int(units.last[0])):
                if (sentence := int(names[place])) in document.scored:
                    explanation = unit.explanation(place, attentions, task)
                    yield sentence, _renamed(explanation, names)


def _scores(
    model: AnyTranslationModel, task: TranslationTask, corpus: ParallelCorpus, documents: Sequence[_Excerpt],
    most_read: Mapping[int, Sequence[int]], context_window: int | None,
) -> dict[tuple[int, int | None], np.ndarray]:  # fmt: skip
    """Return log p of the pieces of each sentence in its document, and without each sentence in `most_read`."""
    variants: list[tuple[_Excerpt, int | None]] = [(document, None) for document in documents]
    for document in documents:
        missing = defaultdict(set)
        for sentence in document.scored:
            for other in most_read[sentence]:
                missing[other].add(sentence)
        variants += [(document.without(other, scored), other) for other, scored in sorted(missing.items())]
    excerpt, names = taken(corpus, [document for document, _ in variants])
    scored = token_log_probs([model], task, excerpt, max_tokens=_MAX_TOKENS, context_window=context_window)
    owners = np.repeat(np.arange(len(variants)), np.diff(excerpt.document_offsets))
    scores: dict[tuple[int, int | None], np.ndarray] = {}
    for sentence, owner, log_probs in zip(names.tolist(), owners.tolist(), scored, strict=True):
        document, left_out = variants[owner]
        if sentence in document.scored:
            scores[sentence, left_out] = log_probs
    return scores


def _renamed(explanation: Explanation, names: np.ndarray) -> Explanation:
    """Replace every sentence number `n` by `names[n]`."""

    def _of(attentions: tuple[Attention, ...]) -> tuple[Attention, ...]:
        return tuple(replace(attention, sentences=names[attention.sentences]) for attention in attentions)

    return replace(
        explanation, number=int(names[explanation.number]), decoder=_of(explanation.decoder),
        encoder=_of(explanation.encoder), leaves=tuple(names[list(explanation.leaves)].tolist()),
        without=tuple(replace(each, sentence=int(names[each.sentence])) for each in explanation.without),
    )  # fmt: skip
