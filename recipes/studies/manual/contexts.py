"""A corpus's references asked of a model in true and other contexts: the other sentences of each one's document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch

from docnmt.core.batch import IGNORE, TranslationBatch, collate, plan_batches, planned_units, unit_sizes
from docnmt.core.corpus import ParallelCorpus, TextArray, offsets_of, ranges
from docnmt.core.models.encoder_decoder import AnyTranslationModel
from docnmt.core.units import Units, last_units
from docnmt.functional.loss import label_log_probs
from docnmt.runtime.progress import Progress
from docnmt.runtime.system import UserError

_PORTION = 1 << 13  # sentences of made-up documents at a time
_LABELS = 1024  # whose scores of the whole vocabulary are held at a time


@dataclass(frozen=True, eq=False)
class Asked:
    """The sentences (Q,) whose references are asked for, in order, and the documents (Q,) that they stand in."""

    corpus: ParallelCorpus
    numbers: np.ndarray
    documents: np.ndarray

    @classmethod
    def draw(cls, corpus: ParallelCorpus, most: int, seed: int) -> Asked:
        """All of a document, or `most` of them."""
        chosen = []
        pairs = zip(corpus.document_offsets[:-1], np.diff(corpus.document_offsets), strict=True)
        for document, (begin, length) in enumerate(pairs):
            places = np.random.default_rng([seed, document]).permutation(length)[:most]
            chosen.append(begin + np.sort(places))
        documents = np.repeat(np.arange(len(chosen)), [len(numbers) for numbers in chosen])
        return cls(corpus, np.concatenate(chosen), documents)

    @property
    def places(self) -> np.ndarray:
        """(Q,) where each stands in its document, from 0."""
        return self.numbers - self.corpus.document_offsets[self.documents]


@dataclass(frozen=True, eq=False)
class Reader:
    """A model and how much it is asked at once."""

    model: AnyTranslationModel
    limit: int | None
    max_tokens: int

    @torch.inference_mode()
    def nll(self, corpus: ParallelCorpus, units: Units, asked: np.ndarray) -> np.ndarray:
        """(Q,) -log p(reference </s>) of the sentences `asked`, each in the unit that keeps it."""
        used, of = np.unique(_keeping(units, asked), return_inverse=True)
        part, plan = _taken(units, used), self.model.reading
        assert corpus.target is not None
        lengths, sums = corpus.target.lengths() + 1, []
        for chosen in plan_batches(unit_sizes(corpus, part, plan), self.max_tokens, seed=0, epoch=0, shuffle=False):
            tokens = self._of_tokens(collate(corpus, part, chosen, plan))
            begins = offsets_of(lengths[ranges(part.kept[chosen], part.last[chosen])])[:-1]
            sums.append(np.add.reduceat(tokens, begins))
        begins = offsets_of(part.last - part.kept)[:-1]
        return np.concatenate(sums)[begins[of] + asked - part.kept[of]]

    def _of_tokens(self, batch: TranslationBatch) -> np.ndarray:
        """(L,) of each label of a batch that counts."""
        data = batch.to(next(self.model.parameters()).device)
        counted = (data.labels != IGNORE).nonzero()[:, 0]
        predicted = self.model(data)
        parts = [-label_log_probs(predicted, self.model.output, data.labels, rows) for rows in counted.split(_LABELS)]
        return torch.cat(parts).double().cpu().numpy()

    def planned(self, corpus: ParallelCorpus, window: int | None) -> Units:
        """The units of translation, which do not depend on the reference."""
        alone = replace(corpus, target=None)
        return planned_units(self.model.reading, alone, limit=self.limit, window=window)

    def nearest(self, corpus: ParallelCorpus, window: int) -> Units:
        """Each sentence with at most `window` others on each side, or closing a text of `window` + 1."""
        narrow = self.model.reading.within(window)
        if narrow.joined:
            assert narrow.written is not None
            begins = np.repeat(corpus.document_offsets[:-1], np.diff(corpus.document_offsets))
            ends = np.arange(corpus.num_sentences) + 1
            return replace(last_units(begins, ends, narrow.written, narrow.earlier), kept=ends - 1)
        return self._after_its_context(self.planned(corpus, window))

    def one_each(self, corpus: ParallelCorpus, asked: np.ndarray) -> Units:
        """For each of the sentences `asked` a unit that, if it can, writes no later one and reads all that it reads."""
        units = self.planned(corpus, None)
        part = _taken(units, _keeping(units, asked))
        if self.model.reading.joined:
            return part
        return self._after_its_context(replace(part, first=asked, last=asked + 1, kept=asked))

    def _after_its_context(self, units: Units) -> Units:
        """Where a model reads given translations, those before the sentence that a unit writes are in the unit."""
        if not self.model.reading.given_text:
            return units
        return replace(units, first=np.minimum(units.source_first, units.first))


def _keeping(units: Units, sentences: np.ndarray) -> np.ndarray:
    """(Q,) the unit that keeps each sentence."""
    return np.searchsorted(units.kept, sentences, side="right") - 1


def _taken(units: Units, chosen: np.ndarray) -> Units:
    return Units(**{field.name: getattr(units, field.name)[chosen] for field in fields(units)})


Documents = Callable[[int, int], np.ndarray]  # a document and a place in it → the sentences that stand there instead


def shuffled(corpus: ParallelCorpus, seed: int) -> Documents:
    """The document's own sentences in another order around the one at the place."""

    def order(document: int, position: int) -> np.ndarray:
        begin, end = corpus.document_offsets[document : document + 2]
        others = np.random.default_rng([seed, document]).permutation(np.delete(np.arange(begin, end), position))
        return np.insert(others, position, begin + position)

    return order


def foreign(corpus: ParallelCorpus, seed: int) -> Documents:
    """Sentences of other documents, the same for all places of a document, around the one at the place."""
    if corpus.num_documents < 2:
        raise UserError("foreign sentences: expected two documents at least, found one")

    def other(document: int, position: int) -> np.ndarray:
        begin, end = corpus.document_offsets[document : document + 2]
        numbers = np.concatenate([np.arange(begin), np.arange(end, corpus.num_sentences)])
        draw = np.random.default_rng([seed, document])
        drawn = draw.choice(numbers, end - begin, replace=bool(len(numbers) < end - begin))
        drawn[position] = begin + position
        return drawn

    return other


def made_up(asked: Asked, documents: Documents) -> Iterator[tuple[ParallelCorpus, np.ndarray]]:
    """A corpus with a document for each sentence that is asked for, and the number of that sentence; in portions."""
    sizes = np.diff(asked.corpus.document_offsets)[asked.documents]
    for part in np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(np.cumsum(sizes) // _PORTION)) + 1):
        lists = [documents(int(asked.documents[n]), int(asked.places[n])) for n in part]
        begins = asked.corpus.document_offsets[asked.documents[part]]
        structure = ranges(begins, begins + sizes[part])
        offsets = offsets_of(sizes[part])
        yield gathered(asked.corpus, np.concatenate(lists), structure, offsets), offsets[:-1] + asked.places[part]


def gathered(
    corpus: ParallelCorpus, sentences: np.ndarray, structure: np.ndarray, offsets: np.ndarray
) -> ParallelCorpus:
    """These sentences in documents of their own, in the sections and paragraphs of the sentences `structure`."""
    assert corpus.target is not None
    source, target = corpus.source.take(sentences), corpus.target.take(sentences)
    references = [TextArray.from_lines(side[int(number)] for number in sentences) for side in corpus.references[:1]]
    levels = corpus.levels[structure]
    return replace(corpus, source=source, target=target, references=references, document_offsets=offsets, levels=levels)


def losses(reader: Reader, asked: Asked, within: Sequence[int], seed: int) -> dict[str, np.ndarray]:
    """-log p(reference) of each sentence (Q,), by context."""
    corpus, numbers = asked.corpus, asked.numbers
    changed = {"shuffled": shuffled(corpus, seed), "foreign": foreign(corpus, seed)}
    with Progress((len(within) + 4) * len(numbers), "asking", unit="sentences") as bar:

        def ask(text: ParallelCorpus, units: Units, sentences: np.ndarray) -> np.ndarray:
            bar.update(len(sentences))
            return reader.nll(text, units, sentences)

        by_context = {"true": ask(corpus, reader.planned(corpus, None), numbers)}
        by_context |= {f"within {k}": ask(corpus, reader.nearest(corpus, k), numbers) for k in within}
        for name, documents in changed.items():
            parts = [ask(text, reader.one_each(text, places), places) for text, places in made_up(asked, documents)]
            by_context[name] = np.concatenate(parts)
        by_context["none"] = ask(corpus, reader.planned(corpus, 0), numbers)
    return by_context
