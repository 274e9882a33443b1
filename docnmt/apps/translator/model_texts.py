"""Texts in memory as loaded models read them: as a corpus, with what is read beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

import numpy as np
from typing_extensions import Unpack

from docnmt.apps.commands.config import MemoryConfig, check_memory_window
from docnmt.apps.commands.models import LoadedModels, open_memory
from docnmt.apps.explain.explain import explain_translations
from docnmt.apps.explain.explanation import Explanation
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.store import TokenArray
from docnmt.core.formats.in_memory import InMemory
from docnmt.core.search.translation_memory import TranslationMemory
from docnmt.runtime.errors import UserError


class ReadBeside(TypedDict, total=False):
    """What is read beside the text; arguments of `translate_corpus` and of `explain_translations`."""

    given: list[str | None] | None
    memory: TranslationMemory | None
    context_window: int | None


@dataclass(frozen=True)
class ModelTexts:
    """Texts in memory, and the models that read them. Models read only the sentences that have text."""

    models: LoadedModels
    asked: InMemory

    @classmethod
    def with_targets(cls, models: LoadedModels, sources: object, targets: object) -> tuple[ModelTexts, list[str]]:
        """Return the sources, and a translation for each sentence.

        Raises:
            UserError: the shapes differ, or there is a translation of a sentence without text.
        """
        asked = InMemory.of(sources, "sources")
        texts = asked.partners(targets, "targets")
        if None in texts:
            raise UserError(f"targets: sentence {texts.index(None)} is None; expected a text")
        return cls(models, asked), [text or "" for text in texts]

    def corpus(self, translations: Sequence[str] | None = None) -> ParallelCorpus:
        """Return a corpus of the sentences that have text, with the translations of all sentences if given."""
        corpus = ParallelCorpus.from_documents(self.asked.read, self.models.task.source_tokenizer)
        if translations is None:
            return corpus
        tokenizer = self.models.task.target_tokenizer
        tokens = tokenizer.encode([translations[n] for n in self.asked.kept])
        return replace(corpus, target=TokenArray.from_lists(tokens, tokenizer.vocab_size))

    def explanations(
        self, corpus: ParallelCorpus, pieces: Sequence[Sequence[str]], **beside: Unpack[ReadBeside]
    ) -> list[Explanation]:
        """Return explanations of all sentences; those without text, or with given translations, are empty.

        Args:
            corpus: what `corpus` gives. pieces: subwords of the translation of each of its sentences.
        """
        asked = self.asked
        numbers = np.array([asked.places[n] for n in asked.kept], dtype=np.int64)
        found = explain_translations(self.models.models, self.models.task, corpus, pieces, numbers=numbers, **beside)
        whole = dict(zip(asked.kept, found, strict=True))
        return [whole.get(n) or Explanation(place, (), ()) for n, place in enumerate(asked.places)]


def checked_window(models: LoadedModels, context_window: int | None) -> int | None:
    """Check and return a context window.

    Raises:
        UserError: it is no number of sentences, or no model reads others than the one that it translates.
    """
    whole = isinstance(context_window, int) and not isinstance(context_window, bool)
    if context_window is not None and not (whole and context_window >= 0):
        raise UserError(f"context_window: must be a whole number of at least 0, got {context_window!r}")
    if context_window and not models.reads_context:
        raise UserError("context_window: has no effect: the model reads every sentence by itself")
    return context_window


def opened_memory(
    models: LoadedModels, memory: TranslationMemory | str | Path | None, context_window: int | None
) -> TranslationMemory | None:
    """Open a memory for these models, if it is a folder.

    Raises:
        UserError: it is no folder of the models' languages and vocabulary, or models with this window read none.
    """
    check_memory_window(memory, context_window)
    if memory is None or isinstance(memory, TranslationMemory):
        return memory
    return open_memory(MemoryConfig(memory=str(memory)), models)
