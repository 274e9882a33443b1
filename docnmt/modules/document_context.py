"""Everything that reads a document: source2token summaries, summary and conditional attention, and their sublayers.

After Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT":

    words → Source2Token → summaries → (merges → tree) → DocumentStore → project → keys ─┐
    words of a layer's row → queries → SummaryAttention | ConditionalAttention ←─────────┘
    as sublayers: SourceContext (of encoder and decoder), EarlierContext (the target's earlier sentences)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from docnmt.functional import build_tree, source2token
from docnmt.functional.conditional import document_groups, selective_attention, selective_attention_step
from docnmt.functional.decoding import PackedKeys, Shelf
from docnmt.functional.packed import packed_attention, weighted_means
from docnmt.functional.selection import Keys, Queries, SelectionPolicy, in_float32
from docnmt.functional.tree import TreeIndex, cumulative_keys
from docnmt.layout import DocumentLayout, Spans
from docnmt.modules.layers import (
    CacheT,
    DocumentPart,
    DocumentStore,
    Heads,
    OfMemories,
    OwnStart,
    Reads,
    RememberedT,
    Slots,
    Step,
    Sublayer,
    attended,
)
from docnmt.registry import MERGES

# Sentence summaries by source2token self-attention, and the Merge functions of ConstructBT.


class Source2Token(nn.Module, OwnStart):
    """s_j = Attention(q, S_j W^K, S_j W^V) W^O: one learned query reads the words of each sentence (eq. 2).

    W^V and W^O have biases here, as all projections of values and outputs have; equation 2 has none. They count where
    summaries are read (`SummaryAttention`) or merged. In eq. 7 without a tree both add the same to the relevance of
    every sentence, which the softmax does not see.

    Args:
        d_model: width of words and summaries.
        heads: independent queries; their results are concatenated before W^O.
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
        words = torch.stack([left, right], dim=1)  # (P, 2, d)
        weights = self._scores(words).softmax(1, dtype=torch.promote_types(words.dtype, torch.float32))  # (P, 2, h)
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
        return cast(Tensor, self.output(values.flatten(0, 1).T + self.value.bias))


class MeanMerge(nn.Module):
    """The mean of both children."""

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__()

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return (left + right) / 2  # (P, d), as all merges of two (P, d)


class PlainSource2TokenMerge(nn.Module):
    """Source2token over the two children, its weights shared by the whole tree (section 3.3.1).

    It is applied to its own results, ten times over for a thousand sentences: a W^O W^V that stretches by three
    stretches the root by 3^10, and training on documents of 400 sentences ended in infinite gradients.
    """

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__()
        self.summarise = Source2Token(d_model=d_model, heads=heads)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.summarise.of_pairs(left, right)


class Source2TokenMerge(PlainSource2TokenMerge):
    """Source2token merge with a layer norm, which the paper does not have: nodes do not grow with the tree's depth."""

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__(d_model=d_model, heads=heads)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return cast(Tensor, self.norm(super().forward(left, right)))


class MultiDimSource2TokenMerge(nn.Module):
    """Multi-dimensional source2token (DiSAN) over the two children, shared by the whole tree: scores
    W2·ELU(W1 x + b1) + b2, softmax over words feature by feature."""

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__()
        self.summarise = nn.ModuleDict({name: nn.Linear(d_model, d_model) for name in ("inner", "scores")})

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        words = torch.stack([left, right], dim=1).flatten(0, 1)  # (2P, d), sentences of two words
        scores = self.summarise["scores"](F.elu(self.summarise["inner"](words)))  # (2P, d)
        query = scores.new_ones(scores.shape[1], 1)  # every feature is a head of width 1 whose key is the score itself
        offsets = torch.arange(0, len(words) + 1, 2, device=words.device)
        return source2token(query, scores[..., None], words[..., None], offsets)[..., 0]


def build_merge(name: str, *, d_model: int, heads: int) -> nn.Module:
    return MERGES.get(name)(d_model=d_model, heads=heads)


# Attention of a word to its document: to the summaries of its sentences, or to the words of those that it selects.


def tell_update(model: nn.Module, update: int) -> None:
    """Set `update` in every conditional attention, before each update. Nothing is stored, so a run resumes as if it had
    never stopped."""
    for module in model.modules():
        if isinstance(module, ConditionalAttention):
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

    def forward(self, words: Tensor, layout: DocumentLayout) -> DocumentStore:
        summaries, tree = self.summarise(words, layout.sentences), None  # (S, d)
        if self.merge is not None:
            index = TreeIndex.of(layout.document_sentences)
            tree = build_tree(summaries, layout.document_offsets, self.merge, index=index)
        return DocumentStore(words, layout, summaries, tree)


class ContextAttention(Heads, OwnStart, ABC):
    """Attention of words to a document; subclasses say what of it is read. `output` is the last projection.

    Args:
        earlier: a word reads the sentences before its own only; with none before it, it reads exactly 0.
        equal_start: queries and keys start with the same projections, W^Q = W^K, so that similar words are relevant to
            each other from the start.
    """

    chooses: ClassVar[bool] = False  # a word's head has a second query, for sentences, which have keys W^Ks
    policy: SelectionPolicy | None = None  # by which sentences are selected; None if all are read

    def __init__(
        self, *, d_model: int, heads: int, d_head: int, earlier: bool = False, equal_start: bool = True
    ) -> None:
        super().__init__(heads, d_head)
        self.earlier, self.equal_start = earlier, equal_start
        self.query = nn.Linear(d_model, (1 + self.chooses) * heads * d_head)  # heads × d_head need not be d_model
        self.key_value = nn.Linear(d_model, 2 * heads * d_head)
        if self.chooses:
            self.relevance_key = nn.Linear(d_model, heads * d_head, bias=False)  # for sentences and nodes alike
        self.output = nn.Linear(heads * d_head, d_model)
        if earlier:
            self.output = nn.Linear(heads * d_head, d_model, bias=False)  # nothing read, nothing added

    def reset_parameters(self) -> None:
        """With `equal_start`, copy the projection of the queries to the keys that they are compared with."""
        if self.equal_start:
            with torch.no_grad():
                self.key_value.weight[: self.heads * self.d_head] = self.query.weight[: self.heads * self.d_head]

    @abstractmethod
    def forward(self, x: Tensor, store: DocumentStore, layout: DocumentLayout) -> Tensor:
        """Attend from queries x (Tq, d), which follow `layout`, to the store's document → (Tq, d)."""

    @abstractmethod
    def packed(self, store: DocumentStore) -> PackedKeys:
        """Return what decoding keeps of a store without a tree."""

    @abstractmethod
    def step(self, x: Tensor, shelf: Shelf, at: Step) -> Tensor:
        """Attend from one query a row to all that its slot has on the shelf, x (R, d) → (R, d)."""


class SummaryAttention(ContextAttention):
    """Multi-head attention whose keys and values are the summaries of the document's sentences (section 2)."""

    def forward(self, x: Tensor, store: DocumentStore, layout: DocumentLayout) -> Tensor:
        k, v = self.split(self.key_value(store.summaries), 2)  # (S, h, d_h) each
        q = self.as_heads(self.query(x))

        def read(values: Tensor) -> Tensor:
            if self.earlier:
                return attend_earlier(q, k, values, layout)
            return packed_attention(q, k, values, layout.documents, store.layout.document_sentences)

        return self.join(attended(self, read, v, sentences=True))

    def packed(self, store: DocumentStore) -> PackedKeys:
        k, v = self.split(self.key_value(store.summaries), 2)
        return PackedKeys(k.contiguous(), v.contiguous(), store.layout.document_sentences)  # a span is a document

    def step(self, x: Tensor, shelf: Shelf, at: Step) -> Tensor:
        return self.join(shelf.attend(self.as_heads(self.query(x)), at.plans))


class ConditionalAttention(ContextAttention):
    """ConditionalAttention (eq. 7): each word and head reads the words of its `top_t` most relevant sentences.

    With a tree in the store it is HierarchicalCondAtt: the sentences are found by TraverseTree, and what is added to a
    word's score is the cumulative relevance of its sentence's path, copied nodes' with `count_copies`. `by_blocks`: in
    training, those of a long document are found through blocks of neighbours. `always_own`: a word's own sentence (a
    target word's: the one it translates) is among the `top_t`. In the first `read_all_updates` updates every sentence
    is read, so that all relevances get a gradient.
    """

    chooses = True  # W^Qx, W^Qs; W^Kx, W^Vx; W^Ks
    policy: SelectionPolicy
    update = 0  # the number of updates made, on which training depends; see `tell_update`

    def __init__(
        self, *, d_model: int, heads: int, d_head: int, top_t: int, earlier: bool = False,
        select_on: str = "cumulative", count_copies: bool = True, by_blocks: bool = False, always_own: bool = False,
        read_all_updates: int = 0, equal_start: bool = True,
    ) -> None:  # fmt: skip
        sizes = {"d_model": d_model, "heads": heads, "d_head": d_head}
        super().__init__(**sizes, earlier=earlier, equal_start=equal_start)
        visible = "earlier" if earlier else "document"
        self.policy = SelectionPolicy(top_t, visible, always_own, select_on, by_blocks)
        self.read_all_updates, self.count_copies = read_all_updates, count_copies

    def reset_parameters(self) -> None:
        """With `equal_start` W^Kx = W^Qx and W^Ks = W^Qs at the start.

        A word then first selects the sentences that repeat it, on which consistency within a document depends. Only
        selected sentences get a gradient, so from a random start training finds them by chance.
        """
        super().reset_parameters()
        if self.equal_start:
            with torch.no_grad():
                self.relevance_key.weight.copy_(self.query.weight[self.heads * self.d_head :])

    def project(self, store: DocumentStore) -> Keys:
        """Keys and values of the words (T, h, d_h), and relevance keys of sentences or nodes."""
        k, v = self.split(self.key_value(store.words), 2)
        if store.tree is None:
            return Keys(k, v, self.as_heads(self.relevance_key(store.summaries)), store.layout)
        relevance, index = self.as_heads(self.relevance_key(store.tree.nodes)), store.tree.index
        cumulative = cumulative_keys(in_float32(relevance), index, count_copies=self.count_copies)
        return Keys(k, v, relevance, store.layout, index, cumulative)

    def forward(self, x: Tensor, store: DocumentStore, layout: DocumentLayout) -> Tensor:
        policy, keys = self.policy, self.project(store)
        if self.training and self.update < self.read_all_updates:
            policy = replace(policy, top_t=max(policy.top_t, keys.layout.document_sentences.max_length))
        q, sentence_q = self.split(self.query(x), 2)
        queries = Queries(q, sentence_q, layout)

        def read(values: Tensor) -> Tensor:
            return selective_attention(queries, replace(keys, values=values), policy)

        return self.join(attended(self, read, keys.values, tree=keys.tree is not None))

    def packed(self, store: DocumentStore) -> PackedKeys:
        keys = self.project(store)
        words = keys.words.contiguous(), keys.values.contiguous(), store.layout.sentences
        return PackedKeys(*words, in_float32(keys.relevance).contiguous(), store.layout.document_sentences)

    def step(self, x: Tensor, shelf: Shelf, at: Step) -> Tensor:
        q, sentence_q = self.split(self.query(x), 2)
        own_sentence = at.sentences[:: max(len(x) // max(len(shelf.slots), 1), 1)]
        return self.join(shelf.attend_chosen(q, sentence_q, self.policy, at.plans, own_sentence))

    def step_of_tree(self, keys: Keys, x: Tensor, sentence_of_row: Tensor) -> Tensor:
        """The same for keys with a tree; row r translates sentence `sentence_of_row[r]` of theirs."""
        q, sentence_q = self.split(self.query(x), 2)
        of_rows = {"document_of_row": keys.layout.document_of_sentence[sentence_of_row], "own": sentence_of_row}
        return self.join(selective_attention_step(q, sentence_q, keys, self.policy, **of_rows))


def attend_earlier(q: Tensor, k: Tensor, v: Tensor, layout: DocumentLayout) -> Tensor:
    """Softmax attention of each word to one key for each earlier sentence of its document; 0 in the first sentence.

    q (T, h, d) follows the layout's words, k and v (S, h, d) its sentences → (T, h, d).
    """
    precise = torch.promote_types(q.dtype, torch.float32)
    mixed = q.new_zeros(*q.shape[:2], 1) + v[:0].sum(0)  # an empty sum is 0 and has a gradient
    for words, sentences in document_groups(layout.documents, layout.document_sentences):
        own_sentence = layout.sentence_of_token[words.rows]  # (n, L)
        earlier = (sentences.rows[:, None] < own_sentence[..., None]) & sentences.real[:, None]  # (n, L, S)
        scores = torch.matmul(words.gather(q), sentences.gather(k).mT).to(precise) * q.shape[-1] ** -0.5
        nothing = ~earlier.any(-1)[:, None, :, None]
        scores = scores.masked_fill(~earlier[:, None], -torch.inf).masked_fill(nothing, 0)
        weights = scores.softmax(-1).masked_fill(nothing, 0).to(v.dtype)  # (n, h, L, S)
        of_group = torch.matmul(weights, sentences.gather(v)).transpose(1, 2)  # (n, L, h, d)
        shown = of_group.flatten(0, 1).index_select(0, words.shown)
        mixed = mixed.index_put((words.own,), shown.to(mixed.dtype))
    return mixed


# The sublayers that read a document: the source's, or the target's earlier sentences.


class _ContextSublayer(Sublayer[RememberedT, CacheT], DocumentPart):
    """A context attention as a sublayer. It has no effect while its last projection is 0."""

    def __init__(self, attention: ContextAttention) -> None:
        super().__init__()
        self.attention = attention

    def start_closed(self) -> None:
        with torch.no_grad():
            for parameter in self.attention.output.parameters():
                parameter.zero_()


class SourceContext(_ContextSublayer[PackedKeys | Keys, Shelf | OfMemories[Keys]]):
    """Attention of a source word to its document, or of a target word to that of the sentence that it translates.

    Args:
        summarise: in an encoder, makes the store from this layer's own input (Trankova and Rykunov, eq. 5); None:
            summaries are made once, of an encoder's embeddings (figure 1) or of its states.
        hide: in an encoder, applied to the words before they become context, for example `WordDropout`.
    """

    summarise: nn.Module | None

    def __init__(
        self, attention: ContextAttention, *, summarise: nn.Module | None = None, hide: nn.Module | None = None
    ) -> None:
        super().__init__(attention)
        self.summarise, self.hide = summarise, hide or nn.Identity()

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        if self.summarise is not None:
            store = self.summarise(self.hide(x), reads.layout)
        else:
            store = _needed(reads.store)
            if reads.source is None:  # in an encoder, whose words are this layer's
                store = replace(store, words=self.hide(x))
        return cast(Tensor, self.attention(x, store, reads.layout))

    def remember(self, reads: Reads) -> PackedKeys | Keys:
        """What is read of all source documents; `Keys` where sentences are found through a tree."""
        store = _needed(reads.store)
        if store.tree is None or not isinstance(self.attention, ConditionalAttention):
            return self.attention.packed(store)
        keys = self.attention.project(store)
        return replace(keys, words=keys.words.contiguous(), values=keys.values.contiguous())

    def begin(self, remembered: PackedKeys | Keys, slots: Slots) -> Shelf | OfMemories[Keys]:
        if isinstance(remembered, Keys):
            return OfMemories.all_of(remembered, slots.sentences)
        return Shelf([(remembered.document_of(sentence),) for sentence in slots.sentences.tolist()])

    def step(self, x: Tensor, cache: Shelf | OfMemories[Keys], at: Step) -> Tensor:
        if isinstance(cache, Shelf):
            return self.attention.step(x, cache, at)
        assert isinstance(self.attention, ConditionalAttention), "only it chooses by a tree"
        return cache.read(x, [at.sentences], self.attention.step_of_tree)


class EarlierContext(_ContextSublayer[None, Shelf]):
    """Attention of a target word to earlier sentences: of the reference in training, of the output in decoding.

    Both read the decoder's input embeddings of earlier sentences, so a finished sentence is projected once and never
    computed again. There is no tree: its inner nodes would hold later sentences.
    """

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        return cast(Tensor, self.attention(x, _needed(reads.written), reads.layout))

    def begin(self, remembered: None, slots: Slots) -> Shelf:
        return Shelf([tuple((keys, 0, 1) for keys in slot) for slot in slots.earlier or [()] * len(slots.sentences)])

    def step(self, x: Tensor, cache: Shelf, at: Step) -> Tensor:
        return torch.zeros_like(x) if cache.empty else self.attention.step(x, cache, at)


def _needed(store: DocumentStore | None) -> DocumentStore:
    if store is None:
        raise ValueError("context attention needs the summaries of a document, and none were made")
    return store
