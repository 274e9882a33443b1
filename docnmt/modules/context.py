"""Attention of a word to its whole document: over sentence summaries, or over the words of chosen sentences (002).

`SummaryEncoder` makes a `DocumentStore` once (a layer of the encoder from its own input, the decoder from the encoder's
output); a context attention projects it to `ContextKeys`; queries then attend, all at once or one a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from docnmt.functional import (
    SentenceTree,
    build_tree,
    conditional_attention,
    conditional_attention_step,
    hierarchical_conditional_attention,
    packed_attention,
)
from docnmt.functional.tree import TreeIndex, cumulative_keys
from docnmt.layout import DocumentLayout
from docnmt.modules.attention import CrossKeys, attend
from docnmt.modules.document_part import DocumentPart
from docnmt.modules.own_sentence import own_sentence_attention, own_sentence_step
from docnmt.modules.scheduled import Scheduled
from docnmt.modules.source2token import Source2Token


@dataclass(frozen=True, eq=False)
class DocumentStore:
    """What can be attended to: words (T, d), one summary a sentence (S, d), and the tree over them, if there is one."""

    words: Tensor
    layout: DocumentLayout
    summaries: Tensor
    tree: SentenceTree | None


@dataclass(frozen=True, eq=False)
class ContextKeys:
    """A store as one attention block sees it: keys and values (T, h, d_h), relevance keys of sentences or nodes."""

    layout: DocumentLayout
    keys: Tensor
    values: Tensor
    relevance: Tensor | None = None
    tree: SentenceTree | None = None

    def stored(self) -> ContextKeys:
        """The same, laid out for decoding, which gathers words again at every step."""
        return replace(self, keys=self.keys.contiguous(), values=self.values.contiguous())

    @cached_property
    def cumulative(self) -> Tensor | None:
        """The sums of relevance keys along the tree's paths: what a decoding step reads, made once a document."""
        if self.tree is None or self.relevance is None:
            return None
        precise = self.relevance.to(torch.promote_types(self.relevance.dtype, torch.float32))
        return cumulative_keys(precise, self.tree.index)


class SummaryEncoder(nn.Module, DocumentPart):
    """Source2token over every sentence (eq. 2, 5); with a `merge` ConstructBT over the summaries (section 3.3.1)."""

    merge: nn.Module | None

    def __init__(self, *, d_model: int, heads: int, merge: nn.Module | None = None) -> None:
        super().__init__()
        self.summarise = Source2Token(d_model=d_model, heads=heads)
        self.merge = merge

    def start_closed(self) -> None:
        """Nothing reads the summaries where context attention is closed."""

    def forward(self, words: Tensor, layout: DocumentLayout, read: Tensor | None = None) -> DocumentStore:
        """words (T, d); summaries are made of `read` (T, d) where that differs from `words`."""
        summaries = self.summarise(words if read is None else read, layout.sentences)
        tree = None
        if self.merge is not None:
            index = TreeIndex.of(layout.document_sentences)
            tree = build_tree(summaries, layout.document_offsets, self.merge, index=index)
        return DocumentStore(words, layout, summaries, tree)


class ContextAttention(nn.Module, ABC):
    """What an encoder or decoder layer asks of its context attention; `output` is its last projection."""

    output: nn.Linear

    @abstractmethod
    def project(self, store: DocumentStore) -> ContextKeys:
        """The store's keys and values in this block: once a document."""

    @abstractmethod
    def forward(self, x: Tensor, keys: ContextKeys, layout: DocumentLayout) -> Tensor:
        """Queries x (Tq, d) that follow `layout` → (Tq, d)."""

    @abstractmethod
    def step(self, x: Tensor, keys: ContextKeys, sentence_of_row: Tensor) -> Tensor:
        """One query a row, x (R, d), which translates sentence `sentence_of_row[r]` of the keys' layout → (R, d)."""


class SummaryAttention(ContextAttention):
    """Multi-head attention whose keys and values are the summaries of the document's sentences (002, section 2)."""

    def __init__(self, *, d_model: int, heads: int, d_head: int) -> None:
        super().__init__()
        self.heads, self.d_head = heads, d_head
        self.query = nn.Linear(d_model, heads * d_head)
        self.key_value = nn.Linear(d_model, 2 * heads * d_head)
        self.output = nn.Linear(heads * d_head, d_model)

    def project(self, store: DocumentStore) -> ContextKeys:
        k, v = self.key_value(store.summaries).view(-1, 2, self.heads, self.d_head).unbind(1)
        return ContextKeys(store.layout, k, v)

    def forward(self, x: Tensor, keys: ContextKeys, layout: DocumentLayout) -> Tensor:
        q = self.query(x).view(len(x), self.heads, self.d_head)
        mixed = packed_attention(q, keys.keys, keys.values, layout.documents, keys.layout.document_sentences)
        output: Tensor = self.output(mixed.flatten(1))
        return output

    def step(self, x: Tensor, keys: ContextKeys, sentence_of_row: Tensor) -> Tensor:
        q = self.query(x).view(len(x), self.heads, self.d_head)
        mixed = attend_documents(q, keys, keys.layout.document_of_sentence[sentence_of_row])
        output: Tensor = self.output(mixed.flatten(1))
        return output


def attend_documents(q: Tensor, keys: ContextKeys, document_of_row: Tensor) -> Tensor:
    """One query a row q (R, h, d_h) over the summaries of the row's document → (R, h, d_h)."""
    padded = CrossKeys.gather(keys.keys, keys.values, keys.layout.document_sentences, document_of_row)
    return attend(q[:, :, None], padded.keys, padded.values, padded.allowed)[:, :, 0]


class ConditionalAttention(ContextAttention, Scheduled):
    """ConditionalAttention (eq. 7): each word and head reads the words of its `top_t` most relevant sentences.

    With a tree in the store it is HierarchicalCondAtt: the sentences are found by TraverseTree, and what is added to a
    word's score is the cumulative relevance of its sentence's path. With `always_own` a word's own sentence (a target
    word's: the one it translates) is always among the `top_t`. For the first `read_all_updates` updates of training
    every sentence is read: all relevances get a gradient then, not only those of the sentences that luck has chosen.
    """

    def __init__(
        self,
        *,
        d_model: int,
        heads: int,
        d_head: int,
        top_t: int,
        select_on: str = "cumulative",
        always_own: bool = False,
        read_all_updates: int = 0,
    ) -> None:
        super().__init__()
        self.heads, self.d_head, self.top_t, self.select_on = heads, d_head, top_t, select_on
        self.always_own, self.read_all_updates = always_own, read_all_updates
        self.query = nn.Linear(d_model, 2 * heads * d_head)  # W^Qx and W^Qs
        self.key_value = nn.Linear(d_model, 2 * heads * d_head)  # W^Kx and W^Vx
        self.relevance_key = nn.Linear(d_model, heads * d_head, bias=False)  # W^Ks, for sentences and nodes alike
        self.output = nn.Linear(heads * d_head, d_model)

    def reset_parameters(self) -> None:
        """Queries and keys start with the same projections: what is alike is relevant until more is learned.

        A word then begins with the sentences that repeat it, which is where a document's consistency comes from; and
        the choice, which gets a gradient only where it fell, need not be found by luck.
        """
        words, sentences = self.query.weight.detach().chunk(2)
        with torch.no_grad():
            self.key_value.weight[: len(words)] = words
            self.relevance_key.weight.copy_(sentences)

    def project(self, store: DocumentStore) -> ContextKeys:
        k, v = self.key_value(store.words).view(-1, 2, self.heads, self.d_head).unbind(1)
        read = store.summaries if store.tree is None else store.tree.nodes
        relevance = self.relevance_key(read).view(-1, self.heads, self.d_head)  # (S or N, h, d_h)
        return ContextKeys(store.layout, k, v, relevance, store.tree)

    def _queries(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, sentence_q = self.query(x).view(len(x), 2, self.heads, self.d_head).unbind(1)
        return q, sentence_q

    def _sentences_to_read(self, layout: DocumentLayout) -> int:
        if self.training and self.update < self.read_all_updates:
            return max(self.top_t, int(layout.document_sentences.lengths.max(initial=1)))
        return self.top_t

    def forward(self, x: Tensor, keys: ContextKeys, layout: DocumentLayout) -> Tensor:
        q, sentence_q = self._queries(x)
        assert keys.relevance is not None
        top_t = self._sentences_to_read(keys.layout)
        if self.always_own:
            mixed = own_sentence_attention(
                q, keys.keys, keys.values, sentence_q, keys.relevance, keys.tree,
                query_layout=layout, key_layout=keys.layout, top_t=top_t, select_on=self.select_on,
            )  # fmt: skip
        elif keys.tree is None:
            mixed = conditional_attention(
                q, keys.keys, keys.values, sentence_q, keys.relevance,
                query_layout=layout, key_layout=keys.layout, top_t=top_t,
            )  # fmt: skip
        else:
            mixed = hierarchical_conditional_attention(
                q, keys.keys, keys.values, sentence_q, keys.relevance, keys.tree,
                query_layout=layout, key_layout=keys.layout, top_t=top_t, select_on=self.select_on,
            )  # fmt: skip
        output: Tensor = self.output(mixed.flatten(1))
        return output

    def step(self, x: Tensor, keys: ContextKeys, sentence_of_row: Tensor) -> Tensor:
        q, sentence_q = self._queries(x)
        assert keys.relevance is not None
        if self.always_own:
            mixed = own_sentence_step(
                q, keys.keys, keys.values, sentence_q, keys.relevance, keys.cumulative, keys.tree,
                key_layout=keys.layout, sentence_of_row=sentence_of_row, top_t=self.top_t, select_on=self.select_on,
            )  # fmt: skip
        else:
            mixed = conditional_attention_step(
                q, keys.keys, keys.values, sentence_q, keys.relevance,
                key_layout=keys.layout, document_of_row=keys.layout.document_of_sentence[sentence_of_row],
                top_t=self.top_t, tree=keys.tree, cumulative_k=keys.cumulative, select_on=self.select_on,
            )  # fmt: skip
        output: Tensor = self.output(mixed.flatten(1))
        return output
