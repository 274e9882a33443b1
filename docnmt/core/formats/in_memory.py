"""Documents from a Python program: a text, a list of sentences, or lists of these; and results in the same shape."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, TypeAlias, TypeVar

from docnmt.core.formats.document import Document
from docnmt.core.formats.parallel_table import one_line, text_of
from docnmt.core.formats.text_lines import TextLines, is_blank
from docnmt.runtime.errors import UserError

#: One document: a text, its sentences, or a `Document` with structure.
OneDocument: TypeAlias = str | Document | Sequence[str]
#: Several documents: each a list of sentences or a `Document`.
Documents: TypeAlias = Sequence[Sequence[str] | Document]
T = TypeVar("T")


@dataclass(frozen=True)
class InMemory:
    """Documents with the shape in which they were given.

    Attributes:
        documents: the documents with all of their sentences, one line each. several: True if a list of documents was
            given.
    """

    documents: tuple[Document, ...]
    several: bool

    @classmethod
    def of(cls, documents: object, name: str, split: Callable[[str], list[str]] | None = None) -> InMemory:
        """Check and convert documents given by a caller.

        Args:
            name: their name in messages. split: divides a line into sentences; None: texts are rejected.

        Raises:
            UserError: the shape is wrong, or a sentence is no text; the message names its place.
        """
        if isinstance(documents, str):
            if split is None:
                raise UserError(f"{name}: expected a list of sentences, or of documents, got a text")
            lines = TextLines(io.BytesIO(text_of(documents, name).encode()), name=name)
            return cls((Document(tuple(sentence for line in lines for sentence in split(line))),), False)
        if isinstance(documents, Document):
            return cls((_checked(documents, name),), False)
        parts = _listed(documents, name)
        texts = [isinstance(part, str) for part in parts]
        if all(texts):
            return cls((_checked(Document(tuple(parts)), name),), False)
        if any(texts):
            raise UserError(
                f"{name}: entry {texts.index(True)} is a text, entry {texts.index(False)} is not; expected a list of "
                "sentences (one document) or a list of such lists"
            )
        return cls(tuple(_document(part, f"{name}: document {number}") for number, part in enumerate(parts)), True)

    @cached_property
    def sentences(self) -> list[str]:
        """All sentences, regardless of documents."""
        return [text for document in self.documents for text in document.sentences]

    @cached_property
    def sizes(self) -> list[int]:
        """The number of sentences of each document."""
        return [len(document.sentences) for document in self.documents]

    @cached_property
    def kept(self) -> list[int]:
        """The numbers of the sentences that are not blank."""
        return [n for n, text in enumerate(self.sentences) if not is_blank(text)]

    @cached_property
    def read(self) -> list[Document]:
        """The documents without blank sentences."""
        return [
            document.take([n for n, text in enumerate(document.sentences) if not is_blank(text)])
            for document in self.documents
        ]

    @cached_property
    def places(self) -> list[int]:
        """The number of each sentence in its document, from 0."""
        return [place for size in self.sizes for place in range(size)]

    def shaped(self, values: Sequence[T]) -> list[T] | list[list[T]]:
        """Return values, one per sentence, in the shape in which the documents were given."""
        bounds = pairwise(accumulate(self.sizes, initial=0))
        return [list(values[begin:end]) for begin, end in bounds] if self.several else list(values)

    def partners(self, given: object, name: str) -> list[str | None]:
        """Return for each sentence its translation in `given`, or None; `given` has the documents' shape, or is None.

        Raises:
            UserError: the shape differs, an entry is no text, or a blank sentence has a translation.
        """
        if given is None:
            return [None] * len(self.sentences)
        lists = _sentences(given, name)
        parts = [_sentences(part, f"{name}: document {n}") for n, part in enumerate(lists)] if self.several else [lists]
        if [len(part) for part in parts] != self.sizes:
            counts = f"{_shown(self.sizes)}, got {_shown([len(part) for part in parts])}"
            raise UserError(f"{name}: expected an entry for each sentence of documents of {counts} sentences")
        for number, (part, document) in enumerate(zip(parts, self.documents, strict=True)):
            for place, (text, source) in enumerate(zip(part, document.sentences, strict=True)):
                where = f"{name}: {f'document {number}, ' if self.several else ''}sentence {place}"
                if text is not None and text_of(text, where).strip() and is_blank(source):
                    raise UserError(f"{where}: '{text[:40]}' translates a sentence without text")
        return [text for part in parts for text in part]


def _listed(parts: object, name: str) -> list[Any]:
    if isinstance(parts, (str, bytes, Mapping, AbstractSet, Document)) or not isinstance(parts, Iterable):
        raise UserError(f"{name}: expected a list, got {type(parts).__name__}")
    return list(parts)


def _sentences(part: object, name: str) -> list[Any]:
    return list(part.sentences) if isinstance(part, Document) else _listed(part, name)


def _document(part: object, name: str) -> Document:
    return _checked(part if isinstance(part, Document) else Document(tuple(_listed(part, name))), name)


def _checked(document: Document, name: str) -> Document:
    """Return the document with line breaks replaced by spaces, after checking that all sentences are texts."""
    texts: list[str] = []
    for place, sentence in enumerate(document.sentences):
        if not isinstance(sentence, str):
            raise UserError(f"{name}, sentence {place}: expected a text, got {type(sentence).__name__}")
        texts.append(one_line(text_of(sentence, f"{name}, sentence {place}")))
    return replace(document, sentences=tuple(texts))


def _shown(sizes: Sequence[int]) -> str:
    return (", ".join(map(str, sizes[:5])) or "no") + (", …" if len(sizes) > 5 else "")
