"""Orders: requests on their way from the service to the search's thread, and the events that come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.formats.address import Formality
from docnmt.core.models.translation_model import TranslationTask
from docnmt.core.search.group import Encoding
from docnmt.core.search.job import Job
from docnmt.core.search.terms import TermFinder
from docnmt.core.search.translate_corpus import Translation

#: The end of a request: all sentences are translated, the translation failed, or the deadline has passed.
Ending = Literal["done", "failed", "late"]
#: An event of a request: a sentence's number and its best translation, or the end of the request.
RequestEvent = tuple[int, Translation] | Ending


#: The number of states of one document's source whose encodings are kept: a segment that is confirmed by one sentence
#: is one sentence, too, and may be several when its confirmation is taken back.
_STATES = 2


class KeptEncoding:
    """The encodings of a document that stays open, of its source as it is and as it was before."""

    def __init__(self) -> None:
        self._states: dict[tuple[bytes, ...], dict[tuple[int, int], Encoding]] = {}

    def of(self, corpus: ParallelCorpus) -> dict[tuple[int, int], Encoding]:
        """Return the kept encodings of this source, by ranges of sentences; none if it is new."""
        source = corpus.source
        key = tuple(np.asarray(part).tobytes() for part in (source.tokens, source.offsets, corpus.document_offsets))
        found = self._states[key] = self._states.pop(key, {})
        if len(self._states) > _STATES:
            del self._states[next(iter(self._states))]
        return found


@dataclass(frozen=True, eq=False)
class Wishes:
    """The options of a request; None means the service's default.

    Attributes:
        task: the task with the request's languages. terms: finds the terms of the request's glossary, which replaces
            `--glossary`. formality: the form of address.
    """

    task: TranslationTask | None = None
    terms: TermFinder | None = None
    formality: Formality | None = None


#: No options: the service's defaults.
NO_WISHES = Wishes()


@dataclass(eq=False)
class Order:
    """A request for the search, with its state there.

    Attributes:
        given: known translations of sentences, or None. tell: called in the worker's thread with each event.
        deadline: by `time.monotonic`. explain: if explanations are wanted, each sentence's number in its document; when
            all sentences are translated, each is sent again with its explanation.
        kept: encodings of the same document from earlier requests. fixed: the parts of each sentence in which the
            glossary has no terms. found: the translations that were sent, by number of the sentence.
        job: the sentences in the search. entered: True once the job has entered the search.
    """

    corpus: ParallelCorpus
    given: Sequence[str | None] | None
    tell: Callable[[RequestEvent], None]
    deadline: float
    explain: Sequence[int] | None = None
    wishes: Wishes = NO_WISHES
    kept: KeptEncoding | None = None
    fixed: Sequence[Sequence[tuple[int, int]]] | None = None
    found: dict[int, Translation] = field(default_factory=dict, init=False)
    job: Job | None = field(default=None, init=False)
    entered: bool = field(default=False, init=False)
    cancelled: bool = field(default=False, init=False)
