"""Context attention as sublayers: of encoder layers, of decoder layers to the source, and to earlier translations."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from docnmt.modules.context import ContextAttention
from docnmt.modules.document_store import ContextKeys, DocumentStore
from docnmt.modules.sublayer import CacheT, DocumentPart, NoCache, Reads, RememberedT, Slots, Step, Sublayer
from docnmt.modules.target_context import Earlier


class ContextSublayer(Sublayer[RememberedT, CacheT], DocumentPart):
    """A context attention in a layer. It begins without an effect where its last projection is 0."""

    def __init__(self, attention: ContextAttention) -> None:
        super().__init__()
        self.attention = attention

    def attend(self, x: Tensor, store: DocumentStore, reads: Reads) -> Tensor:
        """Queries x (T, d) of the row to the store's document → (T, d)."""
        mixed: Tensor = self.attention(x, self.attention.project(store), reads.layout)
        return mixed

    def start_closed(self) -> None:
        """The last projection is 0."""
        with torch.no_grad():
            for parameter in self.attention.output.parameters():
                parameter.zero_()


class EncoderContext(ContextSublayer[None, NoCache]):
    """Attention of a source word to its document.

    Args:
        summarise: makes the store from this layer's own input (Trankova and Rykunov, eq. 5); None: summaries were made
            once of the embeddings (figure 1).
        hide: what is done to words before they are context.
    """

    summarise: nn.Module | None

    def __init__(self, attention: ContextAttention, *, summarise: nn.Module | None, hide: nn.Module) -> None:
        super().__init__(attention)
        self.summarise, self.hide = summarise, hide

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (T, d) → (T, d)."""
        words = self.hide(x)
        if self.summarise is not None:
            return self.attend(x, self.summarise(words, reads.layout), reads)
        if reads.store is None:
            raise ValueError("context attention without summaries of its own needs those of the embeddings")
        return self.attend(x, DocumentStore(words, reads.layout, reads.store.summaries, reads.store.tree), reads)

    def begin(self, remembered: None, slots: Slots) -> NoCache:
        """An encoder does not decode."""
        return NoCache()

    def step(self, x: Tensor, cache: NoCache, at: Step) -> Tensor:
        """An encoder does not decode.

        Raises:
            TypeError: always.
        """
        raise TypeError("an encoder's context attention has no decoding step")


class SourceKeys(NoCache):
    """The source documents as a decoder layer reads them: nothing of it belongs to rows or slots."""

    def __init__(self, keys: ContextKeys) -> None:
        self.keys = keys


class DecoderContext(ContextSublayer[SourceKeys, SourceKeys]):
    """Attention of a target word to the source document of the sentence that it translates."""

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (Tq, d) → (Tq, d)."""
        return self.attend(x, _store(reads.store), reads)

    def remember(self, reads: Reads) -> SourceKeys:
        """Keys, values and relevance keys of all source documents."""
        return SourceKeys(self.attention.project(_store(reads.store)).stored(self.attention.policy))

    def begin(self, remembered: SourceKeys, slots: Slots) -> SourceKeys:
        """All slots read the same."""
        return remembered

    def step(self, x: Tensor, cache: SourceKeys, at: Step) -> Tensor:
        """One query a row: x (R, d) → (R, d)."""
        return self.attention.step(x, cache.keys, at.sentences)


class EarlierText:
    """What the slots have of the translations before their sentences, as one layer reads them."""

    def __init__(self, earlier: Earlier) -> None:
        self.earlier = earlier

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        """Only these slots stay."""
        if slots is not None:
            self.earlier = self.earlier.select(slots)

    def append(self, other: EarlierText) -> None:
        """Put the other slots behind."""
        self.earlier = self.earlier.append(other.earlier)


class EarlierContext(ContextSublayer[None, EarlierText]):
    """Attention of a target word to the translations before its sentence: the reference's in training, the model's own
    in decoding."""

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (Tq, d) → (Tq, d)."""
        return self.attend(x, _store(reads.written), reads)

    def begin(self, remembered: None, slots: Slots) -> EarlierText:
        """What was kept of the sentences before those of the slots."""
        return EarlierText(Earlier([list(slot) for slot in slots.earlier] or [[] for _ in slots.sentences]))

    def step(self, x: Tensor, cache: EarlierText, at: Step) -> Tensor:
        """One query a row: x (R, d) → (R, d); 0 where no slot has earlier sentences."""
        keys = cache.earlier.keys
        if keys is None:
            return torch.zeros_like(x)
        return self.attention.step(x, keys, cache.earlier.slot_of_row(len(x), x.device))


def _store(store: DocumentStore | None) -> DocumentStore:
    if store is None:
        raise ValueError("context attention needs the summaries of a document, and none were made")
    return store
