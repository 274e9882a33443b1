"""Layouts of packed batches: the division of tokens into sentences and of sentences into documents.

All tokens of all sentences of all documents of a batch form one row, without padding. A layout says where each
sentence and each document begins. Embeddings, projections, feed-forward layers and losses never look at it; attention
kernels do, through `Spans`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from docnmt.runtime.device import Uncapturable, to_device

Derived = TypeVar("Derived")


@dataclass(frozen=True, eq=False)
class Spans:
    """Consecutive spans of one packed row, as attention kernels need them."""

    offsets: Tensor  # (B+1,) int64, the index where each span begins; the last entry is the length of the row
    copied: np.ndarray | None = field(default=None, kw_only=True)  # on the host, so that nothing waits for the device
    plans: dict[Any, Any] = field(default_factory=dict, kw_only=True, repr=False)  # what kernels derived, by their keys

    @cached_property
    def host(self) -> np.ndarray:
        """The offsets as a NumPy array: read once, so that kernels plan without waiting for the device."""
        return self.offsets.cpu().numpy() if self.copied is None else self.copied

    @cached_property
    def lengths(self) -> np.ndarray:
        """The lengths (B,) of the spans, int64, on the host."""
        return np.diff(self.host)

    @cached_property
    def max_length(self) -> int:
        """The length of the longest span; 0 without spans."""
        return int(self.lengths.max(initial=0))

    @cached_property
    def span_of_token(self) -> Tensor:
        """The span (T,) of each token, int64, on the device of `offsets`: [0, 2, 2, 5] → [0, 0, 2, 2, 2]."""
        spans = torch.arange(len(self), device=self.offsets.device)
        return torch.repeat_interleave(spans, self.offsets.diff(), output_size=self.num_tokens)

    def derive(self, key: Hashable, make: Callable[[], Derived]) -> Derived:
        """The result of `make`, such as index arrays from these offsets; it is kept for the next layer."""
        if key not in self.plans:
            self.plans[key] = make()
        return cast(Derived, self.plans[key])

    @cached_property
    def num_tokens(self) -> int:
        return int(self.host[-1])

    @cached_property
    def empty(self) -> Tensor | None:
        """(B,) bool on the device of `offsets`, True for spans without tokens; None if there are none."""
        empty = self.lengths == 0
        return to_device([empty], self.offsets.device)[0] if empty.any() else None

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, eq=False)
class BoundedSpans(Spans):
    """Spans of which the host knows bounds only: what is captured in a graph reads other offsets at each replay."""

    rows: int  # the last offset
    longest: int  # no span is longer

    @cached_property
    def host(self) -> np.ndarray:
        raise Uncapturable("the lengths of sentences are read on the host")

    @cached_property
    def max_length(self) -> int:
        return self.longest

    @cached_property
    def num_tokens(self) -> int:
        return self.rows

    @cached_property
    def empty(self) -> Tensor:
        return self.offsets.diff() == 0


@dataclass(frozen=True, eq=False)
class DocumentLayout:
    """Tokens in sentences in documents."""

    sentence_offsets: Tensor  # (S+1,) int64, the token index where each sentence begins; the last entry is T
    document_offsets: Tensor  # (D+1,) int64, the sentence index where each document begins; the last entry is S
    copied: tuple[np.ndarray, np.ndarray] | None = field(default=None, kw_only=True)  # on the host, if it has them

    def __post_init__(self) -> None:
        for name in ("sentence_offsets", "document_offsets"):
            offsets = getattr(self, name)
            if offsets.dtype != torch.int64 or offsets.dim() != 1 or len(offsets) == 0:
                raise ValueError(
                    f"{name}: expected a non-empty int64 vector, got {offsets.dtype} of shape {tuple(offsets.shape)}"
                )
            if offsets.device.type == "cpu" and (offsets[0] != 0 or (offsets.diff() < 0).any()):  # a GPU would wait
                got = f"{len(offsets)} from {int(offsets[0])} to {int(offsets[-1])}"
                raise ValueError(f"{name}: expected to begin with 0 and never to fall, got {got}")
        last, sentences = self.document_offsets[-1], len(self.sentence_offsets) - 1
        if last.device.type == "cpu" and last != sentences:
            raise ValueError(
                f"document_offsets: expected to end with the number of sentences, {sentences}, got {int(last)}"
            )

    @classmethod
    def from_lengths(cls, lengths: Sequence[Sequence[int]]) -> DocumentLayout:
        """The layout of documents given as lists of sentence lengths: `[[5, 3], [7]]` is two documents."""
        sentences = [int(length) for document in lengths for length in document]
        if any(length < 0 for length in sentences):
            raise ValueError(f"sentence lengths must not be negative, got {min(sentences)}")
        documents = [len(document) for document in lengths]
        return cls(
            torch.from_numpy(np.concatenate([[0], np.cumsum(sentences, dtype=np.int64)]).astype(np.int64)),
            torch.from_numpy(np.concatenate([[0], np.cumsum(documents, dtype=np.int64)]).astype(np.int64)),
        )

    @classmethod
    def joined(cls, layouts: Sequence[DocumentLayout]) -> DocumentLayout:
        """Join the documents of all layouts, in order."""
        both = [[layout.sentence_offsets for layout in layouts], [layout.document_offsets for layout in layouts]]
        # [0, 2, 3] and [0, 4] become [0, 2, 3, 7]
        return cls(*(torch.cat([parts[0][:1], torch.cat([p.diff() for p in parts]).cumsum(0)]) for parts in both))

    @cached_property
    def sentences(self) -> Spans:
        """The token spans of the sentences."""
        return Spans(self.sentence_offsets, copied=self.copied and self.copied[0])

    @cached_property
    def documents(self) -> Spans:
        """The token spans of the documents."""
        copied = self.copied and self.copied[0][self.copied[1]]
        return Spans(self.sentence_offsets[self.document_offsets], copied=copied)

    @cached_property
    def document_sentences(self) -> Spans:
        """The sentence spans of the documents."""
        return Spans(self.document_offsets, copied=self.copied and self.copied[1])

    @cached_property
    def num_tokens(self) -> int:
        return self.sentences.num_tokens

    @cached_property
    def num_sentences(self) -> int:
        return len(self.sentence_offsets) - 1

    @cached_property
    def num_documents(self) -> int:
        return len(self.document_offsets) - 1

    @cached_property
    def sentence_of_token(self) -> Tensor:
        """The sentence (T,) of each token, int64."""
        return self.sentences.span_of_token

    @cached_property
    def document_of_sentence(self) -> Tensor:
        """The document (S,) of each sentence, int64."""
        return self.document_sentences.span_of_token

    @cached_property
    def document_of_token(self) -> Tensor:
        """The document (T,) of each token, int64."""
        return self.documents.span_of_token

    def to(self, device: torch.device | str) -> DocumentLayout:
        """Return the layout on `device`; the host's copy of the offsets is kept, so that no kernel waits for it."""
        if torch.device(device) == self.sentence_offsets.device:
            return self
        return self.moved(*to_device([self.sentence_offsets, self.document_offsets], device))

    def moved(self, sentence_offsets: Tensor, document_offsets: Tensor) -> DocumentLayout:
        """Return the layout with these copies of its offsets on another device."""
        copied = (self.sentences.host, self.document_sentences.host)
        return DocumentLayout(sentence_offsets, document_offsets, copied=copied)


@dataclass(frozen=True, eq=False)
class BoundedLayout(DocumentLayout):
    """A layout of which the host knows bounds only."""

    rows: int  # the number of tokens
    longest: int  # no sentence has more tokens
    longest_document: int  # nor a document
    most: int  # no document has more sentences

    @cached_property
    def sentences(self) -> Spans:
        return BoundedSpans(self.sentence_offsets, self.rows, self.longest)

    @cached_property
    def documents(self) -> Spans:
        offsets = self.sentence_offsets.index_select(0, self.document_offsets)
        return BoundedSpans(offsets, self.rows, self.longest_document)

    @cached_property
    def document_sentences(self) -> Spans:
        return BoundedSpans(self.document_offsets, self.num_sentences, self.most)
