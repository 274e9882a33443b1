"""Translation, scores, explanations and alignments of texts in memory, by loaded models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, overload

from docnmt.apps.commands.models import LoadedModels
from docnmt.apps.commands.translate import ProtectedText
from docnmt.apps.explain.attention_alignment import AlignedPiece, aligned, read
from docnmt.apps.explain.explanation import Explanation
from docnmt.apps.translator.model_texts import ModelTexts, ReadBeside, checked_window, opened_memory
from docnmt.apps.translator.translator_options import search_options
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.formats.address import Formality
from docnmt.core.formats.document import Document
from docnmt.core.formats.glossary import Glossary
from docnmt.core.formats.in_memory import Documents, InMemory, OneDocument
from docnmt.core.formats.split_sentences import splitter as sentence_splitter
from docnmt.core.search.forced import sentence_score, token_log_probs
from docnmt.core.search.translate_corpus import SentenceResult, Translation, translate_corpus
from docnmt.core.search.translation_memory import TranslationMemory
from docnmt.registry.options.keywords import named_options
from docnmt.runtime.errors import UserError

Results = Iterator[SentenceResult]
#: The translation of a sentence without text.
EMPTY = Translation("", (), 0.0, ())


class Translator:
    """One or several models that translate. Several threads may use one.

    Attributes:
        models: the loaded models with their task.
    """

    def __init__(self, models: LoadedModels) -> None:
        self.models = models

    def between(self, source_lang: str | None = None, target_lang: str | None = None) -> Translator:
        """Return the same models, of several languages, for another pair of them; None keeps a language.

        Raises:
            UsageError: the models lack a language.
        """
        if source_lang is None and target_lang is None:
            return self
        return Translator(self.models.between(source_lang, target_lang))

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is a sequence of str
        self,
        documents: OneDocument,
        *,
        beam: int = 5,
        explain: bool = False,
        given: Sequence[str | None] | None = None,
        memory: TranslationMemory | str | Path | None = None,
        glossary: Glossary | Mapping[str, str] | str | Path | None = None,
        formality: Formality | None = None,
        context_window: int | None = None,
        splitter: str = "auto",
        protect: bool = True,
        source_lang: str | None = None,
        target_lang: str | None = None,
        **options: object,
    ) -> list[Translation]: ...
    @overload
    def translate(
        self,
        documents: Documents,
        *,
        beam: int = 5,
        explain: bool = False,
        given: Sequence[Sequence[str | None]] | None = None,
        memory: TranslationMemory | str | Path | None = None,
        glossary: Glossary | Mapping[str, str] | str | Path | None = None,
        formality: Formality | None = None,
        context_window: int | None = None,
        splitter: str = "auto",
        protect: bool = True,
        source_lang: str | None = None,
        target_lang: str | None = None,
        **options: object,
    ) -> list[list[Translation]]: ...
    def translate(
        self,
        documents: OneDocument | Documents,
        *,
        beam: int = 5,
        explain: bool = False,
        given: Sequence[Any] | None = None,
        memory: TranslationMemory | str | Path | None = None,
        glossary: Glossary | Mapping[str, str] | str | Path | None = None,
        formality: Formality | None = None,
        context_window: int | None = None,
        splitter: str = "auto",
        protect: bool = True,
        source_lang: str | None = None,
        target_lang: str | None = None,
        **options: object,
    ) -> list[Translation] | list[list[Translation]]:
        """Translate one document, or several; return a translation in place of every sentence.

        A sentence without text has an empty translation, which no other sentence reads.

        Args:
            documents: a text, which is split into sentences (its line breaks end one, too); a list of sentences; a
                `Document`; or, for several, a list of lists or `Document`s.
            beam: number of hypotheses kept at every step.
            explain: also explain what was read for each, and what would change without the most read sentences
                (`Translation.reads`, `Translation.explanation`).
            given: in the shape of `documents`, for each sentence its translation, or None if there is none yet.
                They are returned as they are, with a score of 0, and models that read translations read them.
            memory: a data folder, whose similar sentences are read before each document (docnmt-translate `--memory`).
            glossary: target terms for source terms: a mapping, or a file (docnmt-translate `--glossary`).
            formality: the form of address of every sentence, `formal` or `informal`; or `given`: that of the last given
                translation before it. For models that were trained to be told one (docnmt-train `--formality-share`).
            context_window: the most sentences of the document that are read before and after a sentence.
            splitter: the sentence splitter: `auto`, `rules` or `sentencex` (docnmt-translate `--splitter`).
            protect: placeholders, addresses, tags and the like come through as they are (docnmt-translate `--protect`).
            source_lang, target_lang: source and target language, for models of several; None: the model's default.
            options: further options of docnmt-translate's groups generation and search, but for `--nbest`: `lenpen`,
                `max_len_a`, `no_repeat_ngram_size`, `repetition_penalty`, `batch_size`, `generator` and that
                generator's own.

        Raises:
            UserError: documents or options are invalid; the message names the sentence or the option.
        """
        models = self.between(source_lang, target_lang).models
        generation, search = search_options(beam, {"formality": formality, **options}, _translate_options())
        asked = InMemory.of(documents, "documents", sentence_splitter(splitter, models.task.source_lang))
        there = asked.partners(given, "given")
        beside: ReadBeside = {
            "given": None if given is None else [there[n] for n in asked.kept],
            "memory": opened_memory(models, memory, context_window),
            "context_window": checked_window(models, context_window),
        }
        if formality == "given" and given is None:
            raise UserError("formality: given: no translations are given; expected given=…, too")
        texts = ModelTexts(models, asked)
        corpus = models.told(texts.corpus(), formality, beside["given"])
        terms = Glossary.of(glossary)
        protected = ProtectedText(corpus, beside["given"], models.task, on=protect)

        def searched(part: ParallelCorpus, known: Sequence[str | None] | None, *, whole: bool = False) -> Results:
            read: ReadBeside = {**beside, "given": None if known is None else list(known)}
            fixed = protected.fixed if whole else None
            told = part if whole else models.told(part, formality, known)
            return translate_corpus(
                models.models, models.task, told, generation, search, glossary=terms, fixed=fixed, **read
            )

        results = protected.results(searched(corpus, protected.given, whole=True), searched)
        tokenizer = models.task.target_tokenizer
        found = {n: Translation.of_given(text, tokenizer) for n, text in enumerate(there) if text is not None}
        found |= {n: next(results).nbest[0] for n in asked.kept if there[n] is None}
        if explain:
            explanations = texts.explanations(corpus, [found[n].pieces for n in asked.kept], **beside)
            found = {n: replace(found.get(n, EMPTY), explanation=each) for n, each in enumerate(explanations)}
        return asked.shaped([found.get(n, EMPTY) for n in range(len(there))])

    @overload
    def score(  # type: ignore[overload-overlap]  # a str is a sequence of str
        self,
        sources: Document | Sequence[str],
        targets: Document | Sequence[str],
        *,
        lenpen: float = 1.0,
        context_window: int | None = None,
        max_tokens: int = 8000,
        source_lang: str | None = None,
        target_lang: str | None = None,
    ) -> list[float]: ...
    @overload
    def score(
        self,
        sources: Documents,
        targets: Documents,
        *,
        lenpen: float = 1.0,
        context_window: int | None = None,
        max_tokens: int = 8000,
        source_lang: str | None = None,
        target_lang: str | None = None,
    ) -> list[list[float]]: ...
    @named_options
    def score(
        self,
        sources: Document | Sequence[str] | Documents,
        targets: Document | Sequence[str] | Documents,
        *,
        lenpen: float = 1.0,
        context_window: int | None = None,
        max_tokens: int = 8000,
        source_lang: str | None = None,
        target_lang: str | None = None,
    ) -> list[float] | list[list[float]]:
        """Score given translations: natural log-probability / (subwords + 1) ** lenpen, as `Translation.score`.
        The tag of the target language with which a converted model's translations begin is not counted.

        Each sentence is scored in its document. Models that read translations read the others of `targets`.

        Args:
            sources, targets: of one shape: sentences of a document, or several such lists.
            lenpen: 0 gives the sum, which docnmt-score `--contrastive` compares.
            context_window: see `translate`.
            max_tokens: subwords that are scored at once; a larger document is scored by itself.
            source_lang, target_lang: see `translate`.

        Raises:
            UserError: the shapes differ, a sentence without text has a translation, or an option is wrong.
        """
        models = self.between(source_lang, target_lang).models
        generation, search = search_options(1, {"lenpen": lenpen, "max_tokens": max_tokens})
        texts, translations = ModelTexts.with_targets(models, sources, targets)
        log_probs = token_log_probs(
            models.models,
            models.task,
            texts.corpus(translations),
            max_tokens=generation.max_tokens,
            context_window=checked_window(models, context_window),
        )
        kept = texts.asked.kept
        scores = [sentence_score(each, models.task, search.lenpen) for each in log_probs]
        found = dict(zip(kept, scores, strict=True))
        return texts.asked.shaped([found.get(n, 0.0) for n in range(len(translations))])

    @named_options
    def explain(
        self, sources: Document | Sequence[str] | Documents, targets: Document | Sequence[str] | Documents
    ) -> list[Explanation] | list[list[Explanation]]:
        """Explain given translations like `translate` with `explain`, as if the model had written them.

        Args:
            sources, targets: of one shape, as in `score`.

        Returns:
            `Explanation`s in that shape.
        """
        texts, translations = ModelTexts.with_targets(self.models, sources, targets)
        tokenizer = self.models.task.target_tokenizer
        tokens = tokenizer.encode([translations[n] for n in texts.asked.kept])
        pieces = [tokenizer.pieces(each) for each in tokens]
        return texts.asked.shaped(texts.explanations(texts.corpus(), pieces))

    @named_options
    def align(
        self, sources: Document | Sequence[str] | Documents, targets: Document | Sequence[str] | Documents
    ) -> list[list[AlignedPiece]] | list[list[list[AlignedPiece]]]:
        """Align each subword of given translations with its source subword, by the first model's cross attention.

        Args:
            sources, targets: of one shape, as in `score`.

        Returns:
            For each sentence, in that shape, a list of `AlignedPiece`s: begin and end in the source and in the
            translation, in the order of the translation. It is empty for models without cross attention.
        """
        texts, translations = ModelTexts.with_targets(self.models, sources, targets)
        asked, corpus = texts.asked, texts.corpus(translations)
        lines = [[side[n] for n in asked.kept] for side in (asked.sentences, translations)]
        pairs = read(self.models.models[0], self.models.task, corpus, *lines)
        found = dict(zip(asked.kept, aligned(pairs), strict=True))
        return asked.shaped([found.get(n, []) for n in range(len(translations))])


def _translate_options() -> list[str]:
    """The options that `Translator.translate` has by name."""
    named = signature(Translator.translate).parameters.values()
    return [each.name for each in named if each.kind == Parameter.KEYWORD_ONLY]
