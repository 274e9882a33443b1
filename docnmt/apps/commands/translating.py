"""`Translating`: the one way from a corpus to translations, for commands, files, Python and the service.

corpus → `tagged` (form of address) → `results`, or a `job` for a search that several share → `explained`, `aligned`.
`ProtectedText` is the same with placeholders, addresses and the like, which come through as they are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise

import numpy as np

from docnmt.apps.commands.models import LoadedModels, load_models, open_memory
from docnmt.apps.documents.segments import Segment
from docnmt.apps.documents.sentences import SegmentPart, accept, between, fixed_spans, piece_by_piece, pieces_of
from docnmt.apps.explain.attention import AlignedPiece, Explanation, aligned, read_pairs
from docnmt.apps.explain.explain import ExplainedSentence, explain_translations
from docnmt.apps.options import MemoryConfig, ModelsConfig
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.models.encoder_decoder import TranslationTask
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.generators import Hypothesis
from docnmt.core.search.glossary import Glossary, TermFinder, opened_glossary
from docnmt.core.search.scheduler import Job
from docnmt.core.search.translate import (
    SentenceResult,
    Translation,
    TranslationMemory,
    job_of,
    translate_corpus,
    translation,
)

#: For each sentence of a corpus its translation, or None if it is to be searched.
Given = Sequence[str | None] | None
#: For each sentence the parts of it in which no glossary's terms are looked for.
Fixed = Sequence[Sequence[tuple[int, int]]] | None


@dataclass(frozen=True, eq=False)
class Translating:
    """Models, and everything else that their translations depend on."""

    loaded: LoadedModels
    options: GenerationConfig
    search: SearchConfig
    window: int | None = None  # sentences of a document that are read before and after a sentence, at most
    memory: TranslationMemory | None = None  # sentences of other documents that are read before each document
    glossary: Glossary | None = None  # None: the terms of `options`

    @classmethod
    def open(
        cls, models: ModelsConfig, memory: MemoryConfig, options: GenerationConfig, search: SearchConfig
    ) -> Translating:
        """Load what a command's options name."""
        loaded = load_models(models)
        loaded.check_formality(options.formality)
        recalled = open_memory(memory, loaded)
        return cls(loaded, options, search, models.context_window, recalled, opened_glossary(options))

    def tagged(self, corpus: ParallelCorpus, given: Given = None) -> ParallelCorpus:
        """Return `LoadedModels.tagged` of a corpus for `--formality`."""
        return self.loaded.tagged(corpus, self.options.formality, given)

    def results(
        self, corpus: ParallelCorpus, given: Given = None, *, prefixes: Given = None, fixed: Fixed = None,
        before: int = 0, progress: Callable[[int], object] | None = None,
    ) -> Iterator[SentenceResult]:  # fmt: skip
        """Yield the translation of each sentence of `tagged`'s corpus that is not given, in order."""
        loaded = self.loaded
        return translate_corpus(
            loaded.models, loaded.task, corpus, self.options, self.search, given=given, prefixes=prefixes,
            memory=self.memory, context_window=self.window, glossary=self.glossary, fixed=fixed, before=before,
            progress=progress,
        )  # fmt: skip

    def job(
        self, corpus: ParallelCorpus, given: Given, deliver: Callable[[int, Translation], object], *,
        fixed: Fixed = None, task: TranslationTask | None = None, terms: TermFinder | None = None,
    ) -> Job:  # fmt: skip
        """Return the job of `tagged`'s corpus, for a search that requests share; `deliver` gets each best translation.

        Args:
            task: of other languages than the models' own. terms: of the request's glossary.
        """
        task = task or self.loaded.task

        def best(number: int, hypotheses: list[Hypothesis]) -> None:
            deliver(int(numbers[number]), translation(hypotheses[0], task.target_tokenizer))

        job, numbers = job_of(
            self.loaded.models, task, corpus, self.options, self.search, finder=terms, given=given, fixed=fixed,
            memory=self.memory, window=self.window, deliver=best,
        )  # fmt: skip
        return job

    def explanations(
        self, corpus: ParallelCorpus, pieces: Sequence[Sequence[str]], given: Given = None, *,
        numbers: Sequence[int] | np.ndarray | None = None, task: TranslationTask | None = None,
    ) -> list[Explanation | None]:  # fmt: skip
        """Return what was read for each translation, given by its pieces; None for given ones.

        Args:
            numbers: of each sentence in its document; None: the corpus has all sentences of its documents.
        """
        offsets = corpus.document_offsets
        if numbers is None:
            numbers = np.arange(corpus.num_sentences) - np.repeat(offsets[:-1], np.diff(offsets))
        return explain_translations(
            self.loaded.models, task or self.loaded.task, corpus, pieces, numbers=np.asarray(numbers), given=given,
            memory=self.memory, context_window=self.window,
        )  # fmt: skip

    def explained(
        self, corpus: ParallelCorpus, results: Sequence[SentenceResult], given: Given = None
    ) -> list[list[ExplainedSentence]]:
        """Return the documents of a corpus, each sentence with its best translation and what was read for it."""
        best = {result.number: result.nbest[0] for result in results}
        tokenizer = self.loaded.task.target_tokenizer
        translations = [
            best[n] if n in best else Translation.of_given((given or ())[n] or "", tokenizer)
            for n in range(corpus.num_sentences)
        ]
        explanations = self.explanations(corpus, [each.pieces for each in translations], given)
        sentences = [
            ExplainedSentence(source, replace(translation, explanation=explanation))
            for source, translation, explanation in zip(corpus.source_text, translations, explanations, strict=True)
        ]
        return [sentences[begin:end] for begin, end in pairwise(corpus.document_offsets.tolist())]

    def aligned(self, pairs: Sequence[tuple[str, str]]) -> list[list[AlignedPiece]]:
        """Return which subwords of sentences and translations belong together; each pair is read by itself."""
        return aligned(read_pairs(self.loaded.models[0], self.loaded.task, pairs))


class ProtectedText:
    """Sentences whose placeholders, addresses, tags and the like come through as in documents.

    The model reads them as they are. A sentence whose translation does not have all of them is translated again,
    between them, with all other translations of its document given. A sentence of nothing else stays as it is.

    Args:
        given, prefixes: for each sentence its translation, or None; the words with which one begins, or None.
        on: False: nothing is protected.

    Attributes:
        given: the same, with the sentences that stay as they are. fixed: what is protected of each sentence.
        translations: by number, those of sentences that stay as they are; then, if anything is protected, also those
            that `take` noted. lost: the sentences whose translations lack something.
    """

    def __init__(
        self, corpus: ParallelCorpus, given: Given, task: TranslationTask, *, prefixes: Given = None, on: bool = True
    ) -> None:
        self._corpus, self._task, self._prefixes = corpus, task, prefixes
        self._known = [None] * corpus.num_sentences if given is None else list(given)
        self.fixed = [fixed_spans(text) for text in corpus.source_text] if on else None
        self._parts = {
            number: SegmentPart(Segment(text), 0, len(text), fixed=spans, number=number)
            for number, (text, spans) in enumerate(zip(corpus.source_text, self.fixed or (), strict=False))
            if spans and self._known[number] is None
        }
        staying = {number: part.source for number, part in self._parts.items() if not pieces_of(part)}
        self.given: Given = [staying.get(n, text) for n, text in enumerate(self._known)] if staying else given
        self.translations = {n: Translation.of_given(text, task.target_tokenizer) for n, text in staying.items()}
        self.lost: set[int] = set()

    def changing(self) -> ParallelCorpus:
        """Return what translations may lose of the sentences: their text without what is protected, if anything is."""
        if not self._parts:
            return self._corpus
        texts = [
            " ".join(" ".join(between(text, self._parts[n].fixed)).split()) if n in self._parts else text
            for n, text in enumerate(self._corpus.source_text)
        ]
        return ParallelCorpus.from_lines([[text for text in texts if text]], self._task.source_tokenizer)

    def take(self, number: int, translation: Translation) -> bool:
        """Note what the search found for a sentence; return whether all that is protected is in it."""
        if self._parts:
            self.translations[number] = translation
        if number in self._parts and not accept(self._parts[number], translation.text):
            self.lost.add(number)
        return number not in self.lost

    def again(self) -> tuple[ParallelCorpus, list[str | None], list[str | None]]:
        """Return the documents of what was lost, this in pieces and all else given, and the prefixes of the pieces."""
        offsets, known = self._corpus.document_offsets.tolist(), self._known
        documents: list[list[str]] = []
        given: list[str | None] = []
        prefixes: list[str | None] = []
        numbers: list[int] = []
        for document in sorted({bisect_right(offsets, number) - 1 for number in self.lost}):
            documents.append([])
            for number in range(offsets[document], offsets[document + 1]):
                pieces, text = [self._corpus.source_text[number]], known[number]
                if number in self.lost:
                    pieces = pieces_of(self._parts[number])
                elif text is None:
                    text = self.translations[number].text
                documents[-1] += pieces
                given += [text] * len(pieces)
                prefixes += [self._prefixes[number] if self._prefixes else None, *[None] * (len(pieces) - 1)]
                numbers += [number] * len(pieces)
        corpus = ParallelCorpus.from_lines(documents, self._task.source_tokenizer)
        return replace(corpus, levels=self._corpus.levels[numbers]), given, prefixes

    def mended(self, pieces: Iterator[Translation]) -> Iterator[tuple[int, Translation]]:
        """Yield what was lost, in order: the translations of the pieces as one, whose score is their mean."""
        tokenizer = self._task.target_tokenizer
        for number in sorted(self.lost):
            part = self._parts[number]
            translations = list(islice(pieces, len(pieces_of(part))))
            piece_by_piece(part, iter([each.text for each in translations]))
            text = part.text or ""
            tokens = tuple(tokenizer.pieces(tokenizer.encode([text])[0]))
            sizes = [len(each.pieces) + 1 for each in translations]
            score = sum(each.score * size for each, size in zip(translations, sizes, strict=True)) / sum(sizes)
            limited = next((piece for piece in translations if piece.limited), translations[0])
            yield number, replace(limited, text=text, pieces=tokens, score=score, piece_scores=(0.0,) * len(tokens))

    def results(
        self, translating: Translating, corpus: ParallelCorpus, *, before: int = 0,
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[SentenceResult]:  # fmt: skip
        """Yield the translations of all sentences that were not given, in order; `corpus` is `tagged`'s.

        From the first that lost something on they wait for the end, when this is searched again in pieces.
        """
        search = partial(translating.results, before=before)
        searched = search(corpus, self.given, prefixes=self._prefixes, fixed=self.fixed, progress=progress)
        waiting: dict[int, Translation] = {}
        for number in (n for n, text in enumerate(self._known) if text is None):
            if (staying := self.translations.get(number)) is not None:
                result = SentenceResult(number, (staying,))
            else:
                result = next(searched)
                self.take(number, result.nbest[0])
            if self.lost:
                waiting[number] = result.nbest[0]
            else:
                yield result
        if next(searched, None) is not None:
            raise ValueError("more translations than sentences")
        if self.lost:
            again, given, prefixes = self.again()
            pieces = (result.nbest[0] for result in search(translating.tagged(again, given), given, prefixes=prefixes))
            waiting |= self.mended(pieces)
            for number, best in waiting.items():
                yield SentenceResult(number, (best,))
