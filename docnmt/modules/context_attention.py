"""Attention of a word to its whole document: over sentence summaries, or over the words of selected sentences.

`SummaryEncoder` makes a `DocumentStore` once (a layer of the encoder from its own input, the decoder from the encoder's
output); a context attention projects it to `ContextKeys`; queries then attend, all at once or one a row. Equations and
sections are those of Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import torch
from torch import Tensor, nn

from docnmt.functional import build_tree, packed_attention
from docnmt.functional.conditional import selective_attention, selective_attention_step
from docnmt.functional.decoding import Choices, ContextKeys, DocumentStore, RowLists, attend_listed, attend_rows
from docnmt.functional.selection import Queries, SelectionPolicy, in_float32
from docnmt.functional.tree import TreeIndex, cumulative_keys
from docnmt.layout import DocumentLayout
from docnmt.modules.arguments import check_at_least
from docnmt.modules.record_reads import attended
from docnmt.modules.sentence_summary import Source2Token
from docnmt.modules.sublayer import DocumentPart, OwnStart

#: Scores of rows to the summaries of their documents that are held at a time: 16 MB in float32.
_SCORES = 1 << 22


class Scheduled(nn.Module):
    """A module whose behaviour in training depends on `update`, the number of updates made; see `tell_update`."""

    update = 0


def tell_update(model: nn.Module, update: int) -> None:
    """Set `update`, the number of updates made, in every `Scheduled` module of `model`, before each update.

    Nothing else is stored, so that a resumed run continues as if it had never stopped.
    """
    for module in model.modules():
        if isinstance(module, Scheduled):
            module.update = update


class SummaryEncoder(nn.Module, DocumentPart):
    """Source2token over every sentence (eq. 2, 5); with a `merge` ConstructBT over the summaries (section 3.3.1)."""

    merge: nn.Module | None

    def __init__(self, *, d_model: int, heads: int, merge: nn.Module | None = None) -> None:
        super().__init__()
        self.summarise = Source2Token(d_model=d_model, heads=heads)
        self.merge = merge

    def start_closed(self) -> None:
        """Do nothing: while context attention is closed, the summaries have no effect."""

    def forward(self, words: Tensor, layout: DocumentLayout, read: Tensor | None = None) -> DocumentStore:
        """Make the store of words (T, d); the summaries are made from `read` (T, d) instead if it is given."""
        summaries = self.summarise(words if read is None else read, layout.sentences)
        tree = None
        if self.merge is not None:
            index = TreeIndex.of(layout.document_sentences)
            tree = build_tree(summaries, layout.document_offsets, self.merge, index=index)
        return DocumentStore(words, layout, summaries, tree)


class ContextAttention(nn.Module, OwnStart, ABC):
    """The interface of context attention in an encoder or decoder layer; `output` is its last projection.

    `policy`: the policy by which it selects sentences; None if it selects none.

    Args:
        d_model: width of the rows. heads, d_head: heads × d_head need not be d_model.
        queries: the number of queries of a word for each head.
        equal_start: queries and keys start with the same projections, W^Q = W^K, so that similar words are relevant to
            each other from the start.

    Raises:
        ValueError: a size is below 1.
    """

    output: nn.Linear
    policy: SelectionPolicy | None = None

    def __init__(self, *, d_model: int, heads: int, d_head: int, queries: int = 1, equal_start: bool = True) -> None:
        check_at_least(1, d_model=d_model, heads=heads, d_head=d_head)
        super().__init__()
        self.heads, self.d_head, self.equal_start = heads, d_head, equal_start
        self.query = nn.Linear(d_model, queries * heads * d_head)
        self.key_value = nn.Linear(d_model, 2 * heads * d_head)

    def reset_parameters(self) -> None:
        """With `equal_start`, copy the projection of the queries to the keys that they are compared with."""
        if self.equal_start:
            with torch.no_grad():
                self.key_value.weight[: self.heads * self.d_head] = self.query.weight[: self.heads * self.d_head]

    @abstractmethod
    def project(self, store: DocumentStore) -> ContextKeys:
        """Return the store's keys and values in this block, computed once for each document."""

    @abstractmethod
    def forward(self, x: Tensor, keys: ContextKeys, layout: DocumentLayout) -> Tensor:
        """Attend from queries x (Tq, d), which follow `layout` → (Tq, d)."""

    @abstractmethod
    def step(self, x: Tensor, keys: ContextKeys, sentence_of_row: Tensor) -> Tensor:
        """Attend from one query in each row, x (R, d) → (R, d); row r translates key sentence `sentence_of_row[r]`."""

    def _heads(self, projected: Tensor) -> Tensor:
        """(T, h·d_h) → (T, h, d_h)."""
        return projected.view(len(projected), self.heads, self.d_head)

    def _pair(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        """(T, 2·h·d_h) → two of (T, h, d_h)."""
        first, second = projected.view(len(projected), 2, self.heads, self.d_head).unbind(1)
        return first, second

    def _join(self, mixed: Tensor) -> Tensor:
        """Project the heads' outputs (T, h, d_h) → (T, d)."""
        output: Tensor = self.output(mixed.flatten(1))
        return output


class SummaryAttention(ContextAttention):
    """Multi-head attention whose keys and values are the summaries of the document's sentences (section 2)."""

    def __init__(self, *, d_model: int, heads: int, d_head: int, equal_start: bool = True) -> None:
        super().__init__(d_model=d_model, heads=heads, d_head=d_head, equal_start=equal_start)
        self.output = nn.Linear(heads * d_head, d_model)

    def project(self, store: DocumentStore) -> ContextKeys:
        """Keys and values of the summaries (S, h, d_h)."""
        k, v = self._pair(self.key_value(store.summaries))
        return ContextKeys(store.layout, k, v)

    def forward(self, x: Tensor, keys: ContextKeys, layout: DocumentLayout) -> Tensor:
        """x (Tq, d) → (Tq, d), attention to the summaries of the query's document."""
        spans = layout.documents, keys.layout.document_sentences
        q = self._heads(self.query(x))
        return self._join(
            attended(self, lambda values: packed_attention(q, keys.keys, values, *spans), keys.values, sentences=True)
        )

    def step(self, x: Tensor, keys: ContextKeys, sentence_of_row: Tensor) -> Tensor:
        """As `forward`, one query a row, x (R, d) → (R, d)."""
        return self._join(self._read_documents(x, keys, keys.layout.document_of_sentence[sentence_of_row]))

    def _read_documents(self, x: Tensor, keys: ContextKeys, document_of_row: Tensor) -> Tensor:
        """One query a row, x (R, d), over the summaries of the row's document → (R, h, d_h)."""
        offsets = keys.layout.document_offsets
        spans = (each[document_of_row, None, None].expand(-1, self.heads, 1) for each in (offsets, offsets.diff()))
        some = max(_SCORES // (keys.layout.document_sentences.max_length * self.heads + 1), 1)  # rows
        parts = zip(*(each.split(some) for each in (self._heads(self.query(x)), *spans)), strict=True)
        mixed = [attend_listed(q, keys.keys, keys.values, RowLists.of_spans(*span)) for q, *span in parts]
        return torch.cat(mixed)


class ConditionalAttention(ContextAttention, Scheduled):
    """ConditionalAttention (eq. 7): each word and head reads the words of its `top_t` most relevant sentences.

    With a tree in the store it is HierarchicalCondAtt: the sentences are found by TraverseTree, and what is added to a
    word's score is the cumulative relevance of its sentence's path, copied nodes' with `count_copies`. Without a tree,
    and `by_blocks`, those of a long document are found through blocks of neighbours. With `always_own` a word's own
    sentence (a target word's: the one it translates) is always among the `top_t`. For the first `read_all_updates`
    updates of training every sentence is read, so that all relevances get a gradient, not only those of the first
    selection.

    Raises:
        ValueError: a number or name is none of those expected, or `always_own` leaves no other sentence.
    """

    policy: SelectionPolicy

    def __init__(
        self, *, d_model: int, heads: int, d_head: int, top_t: int,
        select_on: str = "cumulative", count_copies: bool = True, by_blocks: bool = False, always_own: bool = False,
        read_all_updates: int = 0, equal_start: bool = True,
    ) -> None:  # fmt: skip
        check_at_least(0, read_all_updates=read_all_updates)
        sizes = {"d_model": d_model, "heads": heads, "d_head": d_head}
        super().__init__(**sizes, queries=2, equal_start=equal_start)  # W^Qx, W^Qs; W^Kx, W^Vx
        self.policy = SelectionPolicy(top_t, always_own=always_own, select_on=select_on, by_blocks=by_blocks)
        self.read_all_updates, self.count_copies = read_all_updates, count_copies
        self.relevance_key = nn.Linear(d_model, heads * d_head, bias=False)  # W^Ks, for sentences and nodes alike
        self.output = nn.Linear(heads * d_head, d_model)

    def reset_parameters(self) -> None:
        """With `equal_start` W^Kx = W^Qx and W^Ks = W^Qs at the start.

        A word then first selects the sentences that repeat it, on which consistency within a document depends. Only
        selected sentences get a gradient, so from a random start training finds them by chance.
        """
        super().reset_parameters()
        if self.equal_start:
            with torch.no_grad():
                self.relevance_key.weight.copy_(self.query.weight[self.heads * self.d_head :])

    def project(self, store: DocumentStore) -> ContextKeys:
        """Keys and values of the words, and relevance keys of sentences or nodes."""
        k, v = self._pair(self.key_value(store.words))
        relevance = self._heads(self.relevance_key(store.summaries if store.tree is None else store.tree.nodes))
        cumulative = None
        if store.tree is not None:
            cumulative = cumulative_keys(in_float32(relevance), store.tree.index, count_copies=self.count_copies)
        return ContextKeys(store.layout, k, v, relevance, store.tree, cumulative)

    def forward(self, x: Tensor, keys: ContextKeys, layout: DocumentLayout) -> Tensor:
        """x (Tq, d) → (Tq, d), attention to the words of the selected sentences."""
        policy = self.policy
        if self.training and self.update < self.read_all_updates:
            policy = replace(policy, top_t=max(policy.top_t, keys.layout.document_sentences.max_length))
        q, sentence_q = self._pair(self.query(x))
        queries, own = Queries(q, sentence_q, layout), keys.selectable()
        return self._join(
            attended(
                self,
                lambda values: selective_attention(queries, replace(own, values=values), policy),
                own.values,
                tree=own.tree is not None,
            )
        )

    def step(self, x: Tensor, keys: ContextKeys, sentence_of_row: Tensor) -> Tensor:
        """As `forward`, one query a row, x (R, d) → (R, d)."""
        return self._step(x, keys, keys.layout.document_of_sentence[sentence_of_row], sentence_of_row)

    def step_among(
        self, x: Tensor, words: Tensor, values: Tensor, choices: Choices, own: Tensor | None = None
    ) -> Tensor:
        """Attend from x (R, d) to the sentences that each row's slot chooses from; arguments as in `attend_rows`."""
        q, sentence_q = self._pair(self.query(x))
        return self._join(attend_rows(q, sentence_q, words, values, choices, self.policy, own=own))

    def _step(self, x: Tensor, keys: ContextKeys, document_of_row: Tensor, own: Tensor | None) -> Tensor:
        q, sentence_q = self._pair(self.query(x))
        mixed = selective_attention_step(
            q, sentence_q, keys.selectable(), self.policy, document_of_row=document_of_row, own=own
        )
        return self._join(mixed)
