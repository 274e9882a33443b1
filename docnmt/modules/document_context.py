"""Everything that reads a document: source2token summaries, summary and conditional attention, encoder and decoder."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from docnmt.functional import build_tree, source2token
from docnmt.functional.conditional import document_groups, selective_attention, selective_attention_step
from docnmt.functional.decoding import (
    FEW,
    Choices,
    ContextKeys,
    Document,
    DocumentStore,
    RowLists,
    Shelf,
    attend_listed,
    attend_rows,
)
from docnmt.functional.packed import packed_attention, weighted_means
from docnmt.functional.selection import Queries, SelectionPolicy, in_float32
from docnmt.functional.tree import TreeIndex, cumulative_keys
from docnmt.layout import DocumentLayout, Spans
from docnmt.modules.layers import (
    CacheT,
    DocumentPart,
    NoCache,
    OfMemories,
    OwnStart,
    Reads,
    RememberedT,
    Slots,
    Step,
    Sublayer,
    attended,
    check_at_least,
)
from docnmt.registry import MERGES

# Sentence summaries by source2token self-attention, and the Merge functions of ConstructBT.
#
# Equations and sections are those of Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT".


class Source2Token(nn.Module, OwnStart):
    """s_j = Attention(q, S_j W^K, S_j W^V) W^O: one learned query reads the words of each sentence (eq. 2).

    W^V and W^O have biases here, as all projections of values and outputs have; equation 2 has none. They count where
    summaries are read (`SummaryAttention`) or merged. Where the summaries of sentences are only compared with one query
    (eq. 7 without a tree) both add the same to the relevance of every sentence, which the softmax does not see: they
    get no gradient but rounding, and what they are changes nothing.

    Args:
        d_model: width of words and summaries.
        heads: independent queries; their results are concatenated before W^O.

    Raises:
        ValueError: the heads do not divide the width.
    """

    #: Layers that are never called: their weights are multiplied by the query, and by means of words.
    folded = ("key", "value")

    def __init__(self, *, d_model: int, heads: int) -> None:
        if heads < 1 or d_model < 1 or d_model % heads:
            raise ValueError(f"heads: expected a divisor of d_model = {d_model}, got {heads}")
        super().__init__()
        self.heads = heads
        self.query = nn.Parameter(torch.randn(heads, d_model // heads))
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)

    def reset_parameters(self) -> None:
        """Start with W^O as the inverse of an orthogonal W^V, so that a summary is a weighted mean of its words."""
        nn.init.orthogonal_(self.value.weight)
        with torch.no_grad():
            self.output.weight.copy_(self.value.weight.t())

    def forward(self, words: Tensor, sentences: Spans) -> Tensor:
        """words (T, d) → summaries (S, d)."""
        return self._project(weighted_means(self._scores(words), words, sentences))

    def of_pairs(self, left: Tensor, right: Tensor) -> Tensor:
        """left, right (P, d), the words of P sentences of two → summaries (P, d)."""
        return self.of_padded(torch.stack([left, right], dim=1))

    def of_padded(self, words: Tensor, real: Tensor | None = None) -> Tensor:
        """words (S, L, d), of which those are padding that are not `real` (S, L) → summaries (S, d)."""
        scores = self._scores(words)  # (S, L, h)
        if real is not None:
            scores = scores.masked_fill(~real[..., None], -torch.inf)
        weights = scores.softmax(1, dtype=torch.promote_types(words.dtype, torch.float32))
        return self._project((weights.to(words.dtype).mT @ words).transpose(0, 1))

    def _scores(self, words: Tensor) -> Tensor:
        """q·(W^K x)/√d_k of words x (..., d) → (..., h)."""
        # As (W^Kᵀ q/√d_k)·x: the query is the same for all words, whose keys are then not needed
        query = self.query.unsqueeze(1) / math.sqrt(self.query.shape[1])
        return F.linear(words, (query @ self.key.weight.unflatten(0, (self.heads, -1))).squeeze(1))

    def _project(self, means: Tensor) -> Tensor:
        """Weighted means of words, (h, S, d) → W^O of W^V of them, (S, d)."""
        # Weights add up to 1: W^V of the mean is the mean of W^V, and costs one product a sentence, not one a word
        values = self.value.weight.unflatten(0, (self.heads, -1)) @ means.mT  # (h, d_k, S)
        summaries: Tensor = self.output(values.flatten(0, 1).T + self.value.bias)
        return summaries


class MultiDimSource2Token(nn.Module):
    """Multi-dimensional source2token (DiSAN): f = W2·ELU(W1 x + b1) + b2, softmax over words feature by feature.

    Raises:
        ValueError: the width is below 1.
    """

    def __init__(self, *, d_model: int) -> None:
        check_at_least(1, d_model=d_model)
        super().__init__()
        self.inner = nn.Linear(d_model, d_model)
        self.scores = nn.Linear(d_model, d_model)

    def forward(self, words: Tensor, sentence_offsets: Tensor) -> Tensor:
        """words (T, d) → summaries (S, d)."""
        scores = self.scores(F.elu(self.inner(words)))  # (T, d)
        query = torch.ones(scores.shape[1], 1, dtype=scores.dtype, device=scores.device)
        # Every feature is a head of width 1 whose key is the score itself.
        summaries: Tensor = source2token(query, scores[..., None], words[..., None], sentence_offsets)[..., 0]
        return summaries


def _pairs(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """P pairs as P sentences of two words: (2P, d) and their offsets (P+1,)."""
    words = torch.stack([left, right], dim=1).flatten(0, 1)
    return words, torch.arange(0, len(words) + 1, 2, device=words.device)


class MeanMerge(nn.Module):
    """The mean of both children."""

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__()

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """left, right (P, d) → (P, d)."""
        return (left + right) / 2


class PlainSource2TokenMerge(nn.Module):
    """Source2token over the two children, its weights shared by the whole tree (section 3.3.1).

    It is applied to its own results, ten times over for a thousand sentences: a W^O W^V that stretches by three
    stretches the root by 3^10, and training on documents of 400 sentences ended in infinite gradients.
    """

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__()
        self.summarise = Source2Token(d_model=d_model, heads=heads)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """left, right (P, d) → (P, d)."""
        return self.summarise.of_pairs(left, right)


class Source2TokenMerge(PlainSource2TokenMerge):
    """Source2token merge with a layer norm, which the paper does not have: nodes do not grow with the tree's depth."""

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__(d_model=d_model, heads=heads)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """left, right (P, d) → (P, d)."""
        merged: Tensor = self.norm(super().forward(left, right))
        return merged


class MultiDimSource2TokenMerge(nn.Module):
    """Multi-dimensional source2token over the two children, shared by the whole tree."""

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__()
        self.summarise = MultiDimSource2Token(d_model=d_model)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """left, right (P, d) → (P, d)."""
        merged: Tensor = self.summarise(*_pairs(left, right))
        return merged


def build_merge(name: str, *, d_model: int, heads: int) -> nn.Module:
    """The merge registered under `name` (`--merge`)."""
    merge: nn.Module = MERGES.get(name)(d_model=d_model, heads=heads)
    return merge


# Attention of a word to its whole document: over sentence summaries, or over the words of selected sentences.
#
# `SummaryEncoder` makes a `DocumentStore` once (a layer of the encoder from its own input, the decoder from the
# encoder's
# output); a context attention projects it to `ContextKeys`; queries then attend, all at once or one a row. Equations
# and
# sections are those of Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT".


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


# Attention of a target word to the earlier sentences of its translation: the model's own text.
#
# Training reads the reference, decoding what has been written; in both it is the decoder's input embeddings of earlier
# sentences, so that a finished sentence is projected once and never computed again. With nothing before it a word
# reads
# exactly 0. There is no tree here: its inner nodes would hold later sentences.


class EarlierSummaries(SummaryAttention):
    """Multi-head attention to the summaries of the earlier sentences."""

    def __init__(self, *, d_model: int, heads: int, d_head: int, equal_start: bool = True) -> None:
        super().__init__(d_model=d_model, heads=heads, d_head=d_head, equal_start=equal_start)
        self.output = nn.Linear(heads * d_head, d_model, bias=False)  # nothing read, nothing added

    def forward(self, x: Tensor, keys: ContextKeys, layout: DocumentLayout) -> Tensor:
        """x (T, d) → (T, d), attention to the summaries before the word's own sentence."""
        q = self._heads(self.query(x))
        return self._join(
            attended(self, lambda values: attend_earlier(q, keys.keys, values, layout), keys.values, sentences=True)
        )

    def step(self, x: Tensor, keys: ContextKeys, slot_of_row: Tensor) -> Tensor:
        """One query a row, x (R, d), over all that `keys` hold for its slot, a document there → (R, d)."""
        nothing = (keys.layout.document_offsets.diff() == 0)[slot_of_row]
        return self._join(self._read_documents(x, keys, slot_of_row).masked_fill(nothing[:, None, None], 0))


class EarlierSentences(ConditionalAttention):
    """Conditional attention (eq. 7) to the words of the `top_t` most relevant earlier sentences."""

    def __init__(self, *, d_model: int, heads: int, d_head: int, top_t: int, equal_start: bool = True) -> None:
        super().__init__(d_model=d_model, heads=heads, d_head=d_head, top_t=top_t, equal_start=equal_start)
        self.policy = SelectionPolicy(top_t, visible="earlier")
        self.output = nn.Linear(heads * d_head, d_model, bias=False)  # nothing read, nothing added

    def step(self, x: Tensor, keys: ContextKeys, slot_of_row: Tensor) -> Tensor:
        """One query a row, x (R, d), over all that `keys` hold for its slot, a document there → (R, d)."""
        return self._step(x, keys, slot_of_row, None)


def attend_earlier(q: Tensor, k: Tensor, v: Tensor, layout: DocumentLayout) -> Tensor:
    """Softmax attention of each word to one key for each earlier sentence of its document; 0 in the first sentence.

    q (T, h, d) follows the layout's words, k and v (S, h, d) its sentences → (T, h, d).
    """
    precise = torch.promote_types(q.dtype, torch.float32)
    mixed = q.new_zeros(*q.shape[:2], 1) + v[:0].sum(0)  # an empty sum is 0 and has a gradient
    for words, sentences in document_groups(layout.documents, layout.document_sentences):
        own = layout.sentence_of_token[words.rows]  # (n, L)
        earlier = (sentences.rows[:, None] < own[..., None]) & sentences.real[:, None]  # (n, L, S)
        scores = torch.matmul(words.gather(q), sentences.gather(k).mT).to(precise) * q.shape[-1] ** -0.5
        nothing = ~earlier.any(-1)[:, None, :, None]
        scores = scores.masked_fill(~earlier[:, None], -torch.inf).masked_fill(nothing, 0)
        weights = scores.softmax(-1).masked_fill(nothing, 0).to(v.dtype)  # (n, h, L, S)
        read = torch.matmul(weights, sentences.gather(v)).transpose(1, 2)  # (n, L, h, d)
        own = read.flatten(0, 1).index_select(0, words.shown)
        mixed = mixed.index_put((words.own,), own.to(mixed.dtype))
    return mixed


class EarlierText:
    """The translations before each slot's sentence, as keys of one layer.

    Args:
        slots: for each slot, the keys of each of its earlier sentences in order, every one a document of its own.
    """

    any_memory = True

    def __init__(self, slots: Sequence[Sequence[ContextKeys]]) -> None:
        self._texts = list(slots)
        self._numbers: list[np.ndarray | None] = [None] * len(slots)  # on the shelf
        self._shelf = Shelf()
        self._changed()

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        """Only these slots stay, in that order."""
        if slots is not None:
            stay = slots.tolist()
            self._texts, self._numbers = [self._texts[n] for n in stay], [self._numbers[n] for n in stay]
            self._changed()

    def append(self, other: EarlierText) -> None:
        """Put the other slots behind."""
        self._texts, self._numbers = [*self._texts, *other._texts], [*self._numbers, *[None] * len(other._texts)]
        self._changed()

    def _changed(self) -> None:
        self.longest = max(map(len, self._texts), default=0)  # sentences of the slot that has most
        self._packed: ContextKeys | None = None
        self._choices: Choices | None = None

    def keys(self) -> ContextKeys | None:
        """Return the keys packed, each slot's text as a document; None if no slot has any text."""
        if self._packed is None and (parts := [part for text in self._texts for part in text]):
            self._packed = _packed(self._texts, parts)
        return self._packed

    def choices(self) -> tuple[Shelf, Choices] | None:
        """Return the shelf that holds the texts and the slots' choices there; None if no slot has any text."""
        if self._choices is None and self.longest:
            if self._shelf.mostly_left(sum(map(len, self._texts))):
                self._shelf, self._numbers = Shelf(), [None] * len(self._texts)
            texts = zip(self._texts, self._numbers, strict=True)
            numbers = [self._shelf.put([(part, 0) for part in text]) if n is None else n for text, n in texts]
            self._numbers, self._choices = [*numbers], self._shelf.choices(numbers)
        return None if self._choices is None else (self._shelf, self._choices)

    def document_of_row(self, rows: int, device: torch.device) -> Tensor:
        """(R,) the document of `keys` that each row reads, for as many rows a slot."""
        return torch.arange(len(self._texts), device=device).repeat_interleave(rows // max(len(self._texts), 1))


def _packed(texts: Sequence[Sequence[ContextKeys]], parts: Sequence[ContextKeys]) -> ContextKeys:
    """`parts`, all of all texts, with a text a document."""
    layout = DocumentLayout.from_lengths([[part.layout.num_tokens for part in text] for text in texts])
    relevance = [part.relevance for part in parts if part.relevance is not None]
    return ContextKeys(
        layout.to(parts[0].keys.device),
        torch.cat([part.keys for part in parts]),
        torch.cat([part.values for part in parts]),
        torch.cat(relevance) if relevance else None,
    )


# Context attention as sublayers: of encoder layers, of decoder layers to the source, and to earlier translations.


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
