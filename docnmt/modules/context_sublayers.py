"""Context attention as sublayers: of encoder layers, of decoder layers to the source, and to earlier translations."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from docnmt.functional.decoding import FEW, Choices, ContextKeys, Document, DocumentStore, Shelf
from docnmt.functional.selection import SelectionPolicy
from docnmt.modules.context_attention import ConditionalAttention, ContextAttention
from docnmt.modules.sublayer import (
    CacheT,
    DocumentPart,
    NoCache,
    OfMemories,
    Reads,
    RememberedT,
    Slots,
    Step,
    Sublayer,
)
from docnmt.modules.target_attention import EarlierText

#: Words of several memories up to which decoding joins them: this bounds what is copied, and how far documents beside
#: the longest are padded.
_JOINED = 1 << 13
#: Words and values of documents, what slots choose from there, and the place among it of each slot's own sentence (N,).
SourceChoices = tuple[Tensor, Tensor, Choices, Tensor]


class ContextSublayer(Sublayer[RememberedT, CacheT], DocumentPart):
    """A context attention as a sublayer. It has no effect while its last projection is 0."""

    def __init__(self, attention: ContextAttention) -> None:
        super().__init__()
        self.attention = attention

    def attend(self, x: Tensor, store: DocumentStore, reads: Reads) -> Tensor:
        """Queries x (T, d) of the row to the store's document → (T, d)."""
        mixed: Tensor = self.attention(x, self.attention.project(store), reads.layout)
        return mixed

    def start_closed(self) -> None:
        """Set the last projection to 0."""
        with torch.no_grad():
            for parameter in self.attention.output.parameters():
                parameter.zero_()


class EncoderContext(ContextSublayer[None, NoCache]):
    """Attention of a source word to its document.

    Args:
        summarise: makes the store from this layer's own input (Trankova and Rykunov, eq. 5); None: summaries were made
            once of the embeddings (figure 1).
        hide: applied to the words before they become context, for example `WordDropout`.
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


class SourceKeys:
    """The keys of the source documents for a decoder layer.

    Several small memories are joined, since each separate read has a fixed cost.
    """

    any_memory = True

    def __init__(self, keys: OfMemories[ContextKeys]) -> None:
        self.keys = keys
        self._joined: tuple[list[ContextKeys], ContextKeys, Tensor] | None = None
        self._shelf = Shelf()
        self._choices: SourceChoices | None = None
        self._chosen = False

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        """As `Cache.keep`."""
        self.keys.keep(slots)
        self._chosen = self._chosen and slots is None

    def append(self, other: SourceKeys) -> None:
        """As `Cache.append`."""
        self.keys.append(other.keys)
        self._chosen = False

    def joined(self, policy: SelectionPolicy | None) -> tuple[ContextKeys, Tensor] | None:
        """Return all parts in one, and the number of each part's first sentence in it; None if they stay separate."""
        parts = self.keys.parts
        words, trees = sum(part.layout.num_tokens for part in parts), [part.tree for part in parts]
        if len(parts) < 2 or words > _JOINED or any(tree is not None for tree in trees):
            self._joined = None
        elif self._joined is None or list(map(id, self._joined[0])) != list(map(id, parts)):
            sentences = torch.tensor([0, *(part.layout.num_sentences for part in parts)], device=self.keys.of.device)
            self._joined = parts, ContextKeys.joined(parts, policy), sentences.cumsum(0)
        return None if self._joined is None else self._joined[1:]

    def choices(self, policy: SelectionPolicy, at: Step) -> SourceChoices | None:
        """Return the sentences that the slots choose from, cached until the slots change.

        None where a document is too long for it, or is searched through a tree.
        """
        if not self._chosen:
            sentences = at.sentences[:: len(at.sentences) // len(self.keys.of)]
            self._choices, self._chosen = self._choose(policy, sentences), True
        return self._choices

    def _choose(self, policy: SelectionPolicy, sentences: Tensor) -> SourceChoices | None:
        documents: list[Document] = []
        places = []
        for part, sentence in zip(self.keys.of.tolist(), sentences.tolist(), strict=True):
            keys = self.keys.parts[part]
            bounds = keys.layout.document_sentences.host
            number = int(np.searchsorted(bounds, sentence, side="right")) - 1
            count = int(bounds[number + 1] - bounds[number])
            if count > FEW or (keys.tree is not None and count > policy.top_t):
                return None
            documents.append((keys, number))
            places.append(sentence - int(bounds[number]))
        own, parts = torch.tensor(places, device=sentences.device), self.keys.parts
        if len(parts) == 1:  # as it stands
            layout, bounds = parts[0].layout.sentences, parts[0].layout.document_sentences.host
            slots = [np.arange(bounds[number], bounds[number + 1]) for _, number in documents]
            choices = Choices.of(slots, parts[0].selectable().sentences, layout.host[:-1], layout.lengths)
            return None if choices is None else (parts[0].keys, parts[0].values, choices, own)
        numbers = [self._shelf.put([document]) for document in documents]
        if self._shelf.mostly_left(len(set(np.concatenate(numbers).tolist()))):
            self._shelf = Shelf()
            numbers = [self._shelf.put([document]) for document in documents]
        choices = self._shelf.choices(numbers)
        return None if choices is None else (self._shelf.words, self._shelf.values, choices, own)


class DecoderContext(ContextSublayer[ContextKeys, SourceKeys]):
    """Attention of a target word to the source document of the sentence that it translates."""

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (Tq, d) → (Tq, d)."""
        return self.attend(x, _store(reads.store), reads)

    def remember(self, reads: Reads) -> ContextKeys:
        """Keys, values and relevance keys of all source documents."""
        return self.attention.project(_store(reads.store)).stored(self.attention.policy)

    def begin(self, remembered: ContextKeys, slots: Slots) -> SourceKeys:
        """Return a cache in which all slots read the same memory."""
        return SourceKeys(OfMemories.all_of(remembered, slots.sentences))

    def step(self, x: Tensor, cache: SourceKeys, at: Step) -> Tensor:
        """One query a row: x (R, d) → (R, d)."""
        if isinstance(self.attention, ConditionalAttention):
            chosen = cache.choices(self.attention.policy, at)
            if chosen is not None:
                return self.attention.step_among(x, *chosen)
        joined = cache.joined(self.attention.policy)
        if joined is None:
            return cache.keys.read(x, [at.sentences], self._of)
        keys, begins = joined
        begin = begins[cache.keys.of].repeat_interleave(len(x) // len(cache.keys.of))
        return self.attention.step(x, keys, at.sentences + begin)

    def _of(self, keys: ContextKeys, x: Tensor, sentences: Tensor) -> Tensor:
        return self.attention.step(x, keys, sentences)


class EarlierContext(ContextSublayer[None, EarlierText]):
    """Attention of a target word to earlier translated sentences: the reference in training, the output in decoding."""

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (Tq, d) → (Tq, d)."""
        return self.attend(x, _store(reads.written), reads)

    def begin(self, remembered: None, slots: Slots) -> EarlierText:
        """Return the kept keys of the translations before each slot's sentence."""
        return EarlierText([list(slot) for slot in slots.earlier] or [[] for _ in slots.sentences])

    def step(self, x: Tensor, cache: EarlierText, at: Step) -> Tensor:
        """One query a row: x (R, d) → (R, d); 0 where no slot has earlier sentences."""
        if isinstance(self.attention, ConditionalAttention) and cache.longest <= FEW:
            chosen = cache.choices()
            if chosen is None:
                return torch.zeros_like(x)
            shelf, choices = chosen
            return self.attention.step_among(x, shelf.words, shelf.values, choices)
        keys = cache.keys()
        if keys is None:
            return torch.zeros_like(x)
        return self.attention.step(x, keys, cache.document_of_row(len(x), x.device))


def _store(store: DocumentStore | None) -> DocumentStore:
    if store is None:
        raise ValueError("context attention needs the summaries of a document, and none were made")
    return store
