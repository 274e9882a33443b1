"""What the sublayers of encoder and decoder layers have in common: a full pass, and one token a row in decoding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol

import torch
from torch import Tensor, nn
from typing_extensions import Self, TypeVar

from docnmt.functional.decoding import ContextKeys, DocumentStore, TokenTable
from docnmt.layout import DocumentLayout
from docnmt.runtime.tuning import INVARIANT_ROWS

ReadT = TypeVar("ReadT")


@dataclass(frozen=True, eq=False)
class Reads:
    """The tensors that the sublayers of a layer may read besides their input row.

    Attributes:
        layout: of the row itself.
        source, source_layout: in a decoder, the encoder's states (Tk, d) and how they are divided.
        store: in a decoder, the source document with its summaries; in an encoder, summaries made once of the
            embeddings for all layers (figure 1 of Trankova and Rykunov), where there are such.
        written: in a decoder, the target side with its summaries, for sublayers that read earlier target sentences.
    """

    layout: DocumentLayout
    source: Tensor | None = None
    source_layout: DocumentLayout | None = None
    store: DocumentStore | None = None
    written: DocumentStore | None = None

    @property
    def of_source(self) -> tuple[Tensor, DocumentLayout]:
        """The encoder's states and their layout.

        Raises:
            ValueError: there are none, as in an encoder.
        """
        if self.source is None or self.source_layout is None:
            raise ValueError("this sublayer reads a source, and here is none: it belongs into a decoder")
        return self.source, self.source_layout


@dataclass(frozen=True, eq=False)
class Slots:
    """The slots that begin to be decoded, `beam` rows each.

    Attributes:
        sentences: (N,) the sentence of the memory that each slot translates.
        earlier: for each slot, the keys of the translations before its sentence; empty if no sublayer reads them.
        like: a tensor with the type and device of the model.
    """

    sentences: Tensor
    beam: int
    earlier: Sequence[Sequence[ContextKeys]]
    like: Tensor

    @property
    def rows(self) -> int:
        """The number of rows of all slots."""
        return len(self.sentences) * self.beam


@dataclass(frozen=True, eq=False)
class Step:
    """The positions of the rows of a decoding step: row r reads token number `lengths[r]` of its text.

    Attributes:
        lengths: (R,). sentences: (R,) the sentence of the memory that each row translates.
        table: where the tokens of the rows are stored, these included.
    """

    lengths: Tensor
    sentences: Tensor
    table: TokenTable


class Cache(Protocol):
    """The state of a sublayer for live rows and slots. It changes in place.

    A class that itself sets `any_memory = True` can also append slots that read another memory of source documents.
    """

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        """Keep only these rows, in that order, and these slots; None: all slots stay in place."""

    def append(self, other: Self) -> None:
        """Append the rows and slots of another cache."""


class NoCache:
    """The cache of a sublayer that keeps nothing, or nothing that depends on rows."""

    any_memory = True

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        """Nothing changes."""

    def append(self, other: Self) -> None:
        """Nothing changes."""


@dataclass
class OfMemories(Generic[ReadT]):
    """The projections that slots read, one for each memory of source documents; mostly there is one memory.

    Attributes:
        parts: one for each memory. of: (N,) the part that each slot reads.
    """

    parts: list[ReadT]
    of: Tensor

    @classmethod
    def all_of(cls, part: ReadT, slots: Tensor) -> OfMemories[ReadT]:
        """Slots (N,) that read the same part."""
        return cls([part], torch.zeros_like(slots))

    def keep(self, slots: Tensor | None) -> None:
        """Only these slots stay, and the parts that they read."""
        if slots is None:
            return
        self.of = self.of.index_select(0, slots)
        if len(self.parts) > 1:
            read, self.of = self.of.unique(return_inverse=True)
            self.parts = [self.parts[number] for number in read.tolist()]

    def append(self, other: OfMemories[ReadT]) -> None:
        """Append the slots of `other` and the parts that they read."""
        new = [part for part in other.parts if all(part is not own for own in self.parts)]
        self.parts = [*self.parts, *new]
        place = {id(part): number for number, part in enumerate(self.parts)}
        renamed = torch.tensor([place[id(part)] for part in other.parts], device=self.of.device)
        self.of = torch.cat([self.of, renamed[other.of]])

    def read(self, x: Tensor, rows: Sequence[Tensor], read: Callable[..., Tensor]) -> Tensor:
        """`read(part, x, *rows)` → (R, ...) of each part's own rows: x (R, d) and `rows`, each (R,)."""
        if len(self.parts) == 1:
            return read(self.parts[0], x, *rows)
        of = self.of.repeat_interleave(len(x) // len(self.of))
        order, mixed = [], []
        for number, part in enumerate(self.parts):
            own = (of == number).nonzero()[:, 0]
            enough = own.repeat(-(-INVARIANT_ROWS // len(own)))  # fewer rows take other kernels
            mixed.append(read(part, x[enough], *(each[enough] for each in rows))[: len(own)])
            order.append(own)
        return torch.cat(mixed)[torch.cat(order).argsort()]


RememberedT = TypeVar("RememberedT", default=Any)
CacheT = TypeVar("CacheT", bound=Cache, default=Any)


class Sublayer(nn.Module, ABC, Generic[RememberedT, CacheT]):
    """One part of a layer. An encoder calls `forward` only.

    `RememberedT` is what the sublayer keeps of source documents, `CacheT` what it keeps of live rows and slots. Its
    layer hands both back unread.
    """

    @abstractmethod
    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (T, d), all tokens of a packed row → (T, d)."""

    def remember(self, reads: Reads) -> RememberedT | None:
        """Return the projections of source documents for decoding, made once. `reads.layout` is the source's."""
        return None

    @abstractmethod
    def begin(self, remembered: RememberedT, slots: Slots) -> CacheT:
        """The cache of new slots, whose rows have no tokens yet."""

    @abstractmethod
    def step(self, x: Tensor, cache: CacheT, at: Step) -> Tensor:
        """One new token a row: x (R, d) → (R, d), the same numbers as the full pass gives."""


class OwnStart(ABC):
    """A module with its own initialisation of some weights, after `docnmt.core.models.encoder_decoder.initialise`."""

    @abstractmethod
    def reset_parameters(self) -> None:
        """Set the weights that start otherwise; the others have been initialised."""


class DocumentPart(ABC):
    """A module that a sentence model lacks and that can begin without an effect on the rest."""

    @abstractmethod
    def start_closed(self) -> None:
        """Set the weights such that it adds nothing, and that its gradients are not 0."""
