"""The Python interface to trained models: texts in, translations out, the same as from the commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, TypedDict, get_args, overload

import numpy as np
from typing_extensions import Unpack

from docnmt.apps.commands.config import MemoryConfig, Precision, check_memory_window
from docnmt.apps.commands.memory_option import open_memory
from docnmt.apps.commands.models import LoadedModels, open_models
from docnmt.apps.explain.attention_alignment import AlignedPiece, aligned, read
from docnmt.apps.explain.explain import explain_translations
from docnmt.apps.explain.explanation import Explanation
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.store import TokenArray
from docnmt.core.formats.address import Formality
from docnmt.core.formats.document import Document
from docnmt.core.formats.glossary import Glossary
from docnmt.core.formats.in_memory import Documents, InMemory, OneDocument
from docnmt.core.formats.split_sentences import splitter as sentence_splitter
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.forced import token_log_probs
from docnmt.core.search.translate_corpus import Translation, translate_corpus
from docnmt.core.search.translation_memory import TranslationMemory
from docnmt.registry.options import Section, build
from docnmt.registry.options.keywords import named_options, unknown_options
from docnmt.registry.registry import GENERATORS
from docnmt.runtime.errors import UsageError, UserError
from docnmt.runtime.hub import address_of
from docnmt.runtime.tuning import pick_device, tune


class _Read(TypedDict, total=False):
    """What is read beside the text; arguments of `translate_corpus` and of `explain_translations`."""

    given: list[str | None] | None
    memory: TranslationMemory | None
    context_window: int | None


#: The translation of a sentence without text.
EMPTY = Translation("", (), 0.0, ())


@named_options
def load(
    path: str | Path | Sequence[str | Path], *, device: str = "cpu", precision: Precision = "float32"
) -> Translator:
    """Load a checkpoint or a folder of checkpoints (its best), or several, whose probabilities are then averaged.

    A path that does not exist can be a model's name on the Hugging Face hub, `org/name` or `hf://org/name`.

    Sets how this process computes (`docnmt.runtime.tune`), as the commands do; `DOCNMT_TUNE=off` in the environment
    prevents it.

    Args:
        device: cpu, cuda, cuda:1 …; auto takes cuda if available.
        precision: float32; int8, on a CPU; fp16, on a GPU; or bf16 (`--int8` … of docnmt-translate).

    Raises:
        UserError: a checkpoint is missing or damaged, the models cannot translate together, or device or models do not
            support the precision.
    """
    expected = "load: expected a checkpoint, a folder of checkpoints or a list of such, got"
    if not isinstance(path, (str, Path, Sequence)):
        raise UserError(f"{expected} {type(path).__name__}")
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    if not paths:
        raise UserError(f"{expected} none")
    if wrong := [each for each in paths if not isinstance(each, (str, Path))]:
        raise UserError(f"{expected} one with {type(wrong[0]).__name__} in it")
    if precision not in get_args(Precision):
        raise UserError(f"load: precision: expected {', '.join(get_args(Precision))}, got {precision!r}")
    tune()
    return Translator(open_models([address_of(str(each)) for each in paths], pick_device(device), precision=precision))


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
        splitter: str = "rules",
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
        splitter: str = "rules",
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
        splitter: str = "rules",
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
            splitter: the sentence splitter: `rules` or `sentencex`.
            source_lang, target_lang: source and target language, for models of several; None: the model's default.
            options: further options of docnmt-translate's groups generation and search, but for `--nbest`: `lenpen`,
                `max_len_a`, `batch_size`, `generator` and that generator's own.

        Raises:
            UserError: documents or options are invalid; the message names the sentence or the option.
        """
        chosen = self.between(source_lang, target_lang)
        generation, search = _search(beam, {"formality": formality, **options})
        task = chosen.models.task
        asked = InMemory.of(documents, "documents", sentence_splitter(splitter, task.source_lang))
        there = asked.partners(given, "given")
        read: _Read = {
            "given": None if given is None else [there[n] for n in asked.kept],
            "memory": chosen._memory(memory, context_window),
            "context_window": chosen._window(context_window),
        }
        if formality == "given" and given is None:
            raise UserError("formality: given: no translations are given; expected given=…, too")
        corpus = chosen.models.told(chosen._corpus(asked), formality, read["given"])
        results = translate_corpus(
            chosen.models.models, task, corpus, generation, search, glossary=Glossary.of(glossary), **read
        )
        found = {
            n: Translation.of_given(text, task.target_tokenizer) for n, text in enumerate(there) if text is not None
        }
        found |= {n: next(results).nbest[0] for n in asked.kept if there[n] is None}
        if explain:
            pieces = [found[n].pieces for n in asked.kept]
            explanations = chosen._explanations(asked, corpus, pieces, **read)
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
        chosen = self.between(source_lang, target_lang)
        generation, search = _search(1, {"lenpen": lenpen, "max_tokens": max_tokens})
        asked, texts = chosen._pairs(sources, targets)
        corpus = chosen._corpus(asked, [texts[n] for n in asked.kept])
        log_probs = token_log_probs(
            chosen.models.models,
            chosen.models.task,
            corpus,
            max_tokens=generation.max_tokens,
            context_window=chosen._window(context_window),
        )
        found = {
            n: float(each.sum() / len(each) ** search.lenpen) for n, each in zip(asked.kept, log_probs, strict=True)
        }
        return asked.shaped([found.get(n, 0.0) for n in range(len(texts))])

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
        asked, texts = self._pairs(sources, targets)
        tokenizer = self.models.task.target_tokenizer
        pieces = [tokenizer.pieces(tokens) for tokens in tokenizer.encode([texts[n] for n in asked.kept])]
        return asked.shaped(self._explanations(asked, self._corpus(asked), pieces))

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
        asked, texts = self._pairs(sources, targets)
        kept = [texts[n] for n in asked.kept]
        corpus = self._corpus(asked, kept)
        pairs = read(self.models.models[0], self.models.task, corpus, [asked.sentences[n] for n in asked.kept], kept)
        found = dict(zip(asked.kept, aligned(pairs), strict=True))
        return asked.shaped([found.get(n, []) for n in range(len(texts))])

    def _pairs(self, sources: object, targets: object) -> tuple[InMemory, list[str]]:
        """Return the sources, and a translation for each sentence.

        Raises:
            UserError: the shapes differ, or there is a translation of a sentence without text.
        """
        asked = InMemory.of(sources, "sources")
        texts = asked.partners(targets, "targets")
        if None in texts:
            raise UserError(f"targets: sentence {texts.index(None)} is None; expected a text")
        return asked, [text or "" for text in texts]

    def _explanations(
        self, asked: InMemory, corpus: ParallelCorpus, pieces: Sequence[Sequence[str]], **read: Unpack[_Read]
    ) -> list[Explanation]:
        """Return explanations of all sentences; those without text, or with given translations, are empty."""
        numbers = np.array([asked.places[n] for n in asked.kept], dtype=np.int64)
        found = explain_translations(self.models.models, self.models.task, corpus, pieces, numbers=numbers, **read)
        whole = dict(zip(asked.kept, found, strict=True))
        return [whole.get(n) or Explanation(place, (), ()) for n, place in enumerate(asked.places)]

    def _corpus(self, asked: InMemory, translations: Sequence[str] | None = None) -> ParallelCorpus:
        """Return a corpus of the sentences that have text, with their translations if given."""
        corpus = ParallelCorpus.from_documents(asked.read, self.models.task.source_tokenizer)
        if translations is None:
            return corpus
        tokenizer = self.models.task.target_tokenizer
        return replace(corpus, target=TokenArray.from_lists(tokenizer.encode(translations), tokenizer.vocab_size))

    def _window(self, context_window: int | None) -> int | None:
        """Check and return a context window.

        Raises:
            UserError: it is no number of sentences, or no model reads others than the one that it translates.
        """
        whole = isinstance(context_window, int) and not isinstance(context_window, bool)
        if context_window is not None and not (whole and context_window >= 0):
            raise UserError(f"context_window: must be a whole number of at least 0, got {context_window!r}")
        if context_window and not self.models.reads_context:
            raise UserError("context_window: has no effect: the model reads every sentence by itself")
        return context_window

    def _memory(
        self, memory: TranslationMemory | str | Path | None, context_window: int | None
    ) -> TranslationMemory | None:
        check_memory_window(memory, context_window)
        if memory is None or isinstance(memory, TranslationMemory):
            return memory
        return open_memory(MemoryConfig(memory=str(memory)), self.models)


def _search(beam: int, options: Mapping[str, object]) -> tuple[GenerationConfig, SearchConfig]:
    """Resolve the options of generation by the command line's configuration classes.

    Raises:
        UsageError: an option that is not known, or its value is wrong.
    """
    name = str(options.get("generator", GenerationConfig.generator))
    if name not in GENERATORS:
        raise UsageError(f"generator: no generator named '{name}'; there are {', '.join(GENERATORS.names())}")
    sections = [Section("generation", GenerationConfig), Section("search", GENERATORS.config(name))]
    known = {setting.name for section in sections for setting in section.settings} - {"nbest", "glossary"}
    if unknown := options.keys() - known:
        named = signature(Translator.translate).parameters.values()
        there = known | {each.name for each in named if each.kind == Parameter.KEYWORD_ONLY}
        raise unknown_options(unknown, there)
    resolved = build(sections, {}, {"beam": beam, **options}, lambda key: "")
    return resolved["generation"], resolved["search"]
