"""What the service's threads tell each other of a request: what is asked for, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.formats.address import Form
from docnmt.core.models.translation_model import TranslationTask
from docnmt.core.search.group import Encoding
from docnmt.core.search.job import Job
from docnmt.core.search.terms import TermFinder
from docnmt.core.search.translate_corpus import Translation

#: How a request ended: its sentences are all there, or it failed.
Ending = Literal["done", "failed", "late"]
#: What a request is told: a sentence's number and its best translation, or how it ended.
RequestEvent = tuple[int, Translation] | Ending


class KeptEncoding:
    """What the models read of a document that stays open, until its source changes."""

    def __init__(self) -> None:
        self._source: tuple[bytes, ...] = ()
        self._ranges: dict[tuple[int, int], Encoding] = {}

    def of(self, corpus: ParallelCorpus) -> dict[tuple[int, int], Encoding]:
        """What is kept of this source, by ranges of sentences."""
        source = corpus.source
        key = tuple(np.asarray(part).tobytes() for part in (source.tokens, source.offsets, corpus.document_offsets))
        if key != self._source:
            self._source, self._ranges = key, {}
        return self._ranges


@dataclass(frozen=True, eq=False)
class Wishes:
    """How a request wants its text to be translated; what is None is as the service does it.

    Attributes:
        task: between the languages that were asked for. terms: finds those that it wants, in place of `--glossary`.
        formality: the form of address that is wanted.
    """

    task: TranslationTask | None = None
    terms: TermFinder | None = None
    formality: Form | None = None


#: Translate it as the service does.
NO_WISHES = Wishes()


@dataclass(eq=False)
class Order:
    """A request as its client knows it.

    Attributes:
        tell: called in the worker's thread, of each event. deadline: by `time.monotonic`.
        explain: what each sentence is called in its document, where what was read is wanted, too: when all is
            translated, each sentence is told once more with it.
        kept: what was encoded of the same document, if it is asked for again and again.
        found: what was told. job: its sentences on their way. entered: they are in the search, or were.
    """

    corpus: ParallelCorpus
    given: Sequence[str | None] | None
    tell: Callable[[RequestEvent], None]
    deadline: float
    explain: Sequence[int] | None = None
    wishes: Wishes = NO_WISHES
    kept: KeptEncoding | None = None
    found: dict[int, Translation] = field(default_factory=dict, init=False)
    job: Job | None = field(default=None, init=False)
    entered: bool = field(default=False, init=False)
    cancelled: bool = field(default=False, init=False)
