"""What `attention.py` times: the inputs of one document, and the ways to attend to it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docnmt.functional import (
    build_tree,
    conditional_attention,
    hierarchical_conditional_attention,
    keep_top_t,
    source2token,
)
from docnmt.functional.conditional import choose_backend, select, selective_attention_step
from docnmt.functional.dispatch import dispatch_attention
from docnmt.functional.packed import packed_attention
from docnmt.functional.selection import Keys, Queries, SelectionPolicy
from docnmt.functional.tree import SentenceTree
from docnmt.layout import DocumentLayout
from docnmt.modules.attention import SelfAttention
from docnmt.modules.document_context import ConditionalAttention, SourceContext, SummaryEncoder, build_merge
from docnmt.modules.layers import FeedForward, Reads, Residual, plain_layer

sys.path.append(str(Path(__file__).parents[1] / "speed"))
from measuring import Way, forward_backward

HEADS, WIDTH, WORDS, TOP_T = 8, 64, 25, 4
LONGEST_DENSE = 3_200  # words at which (heads × words × words) tensors are still small enough to hold many
Timed = Callable[..., Way]  # `forward` or `forward_backward` of `measuring`
QUERIES = 1024  # words that select, where only selection is measured


class Document(NamedTuple):
    """Random inputs of documents of one size."""

    layout: DocumentLayout
    tree: SentenceTree
    q: Tensor
    k: Tensor
    v: Tensor
    sentence_q: Tensor
    sentence_k: Tensor
    node_k: Tensor

    @classmethod
    def of(cls, sentences: int, words: int = WORDS, documents: int = 1) -> Document:
        layout = DocumentLayout.from_lengths([[words] * sentences] * documents)
        random = torch.Generator().manual_seed(sentences)
        tree = build_tree(torch.zeros(layout.num_sentences, 1), layout.document_offsets, lambda left, right: left)

        def draw(rows: int) -> Tensor:
            return torch.randn(rows, HEADS, WIDTH, generator=random, requires_grad=True)

        q, k, v, sentence_q = (draw(layout.num_tokens) for _ in range(4))
        return cls(layout, tree, q, k, v, sentence_q, draw(layout.num_sentences), draw(len(tree.nodes)))


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(T, h, d) → (T, h, d) over the whole document."""
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1)


def masked_sdpa(document: Document, timed: Timed) -> Way:
    """Equation 7 as a user would write it around `scaled_dot_product_attention`: kept relevances as additive mask."""

    def attend(q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor) -> Tensor:
        relevance = torch.einsum("qhd,shd->hqs", sentence_q, sentence_k) / WIDTH**0.5
        mask = keep_top_t(relevance, TOP_T).index_select(-1, document.layout.sentence_of_token)  # (h, T, T)
        q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.unsqueeze(0))[0].transpose(0, 1)

    return timed(attend, [*document[2:6], document.sentence_k])


def conditional(document: Document, backend: str, timed: Timed = forward_backward, top_t: int = TOP_T) -> Way:
    def attend(*x: Tensor) -> Tensor:
        layout = document.layout
        return conditional_attention(*x, query_layout=layout, key_layout=layout, top_t=top_t, backend=backend)

    return timed(attend, [*document[2:6], document.sentence_k])


def selected_before(document: Document, timed: Timed) -> Way:
    """Conditional attention without the search: what follows the choice of sentences."""
    layout = document.layout
    with torch.no_grad():
        selection = select(
            Queries(document.q, document.sentence_q, layout),
            Keys(document.k, document.v, document.sentence_k, layout),
            SelectionPolicy(TOP_T),
        )

    def attend(q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor) -> Tensor:
        return dispatch_attention(Queries(q, sentence_q, layout), Keys(k, v, sentence_k, layout), selection)

    return timed(attend, [*document[2:6], document.sentence_k])


def hierarchical(document: Document, backend: str, timed: Timed = forward_backward, top_t: int = TOP_T) -> Way:
    def attend(q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, node_k: Tensor) -> Tensor:
        tree, layout = document.tree, document.layout
        return hierarchical_conditional_attention(
            q, k, v, sentence_q, node_k, tree, query_layout=layout, key_layout=layout, top_t=top_t, backend=backend
        )

    return timed(attend, [*document[2:6], document.node_k])


def table1_ways(sentences: int, timed: Timed, *, words: int = WORDS, top_t: int = TOP_T) -> dict[str, Way]:
    """The layer types of table 1 in its order."""
    document = Document.of(sentences, words)
    layout, (q, k, v) = document.layout, document[2:5]
    query = torch.randn(HEADS, WIDTH, requires_grad=True)
    summaries = [document.sentence_k, torch.randn_like(document.sentence_k).requires_grad_()]
    return {
        "sentence by sentence": timed(
            lambda q, k, v: packed_attention(q, k, v, layout.sentences, layout.sentences), [q, k, v]
        ),
        "whole document": timed(sdpa, [q, k, v]),
        "sentence encodings": timed(
            lambda q, k, v: packed_attention(q, k, v, layout.documents, layout.document_sentences), [q, *summaries]
        ),
        "conditional": conditional(document, "auto", timed, top_t),
        "hierarchical conditional": hierarchical(document, "auto", timed, top_t),
        "source2token": timed(lambda q, k, v: source2token(q, k, v, layout.sentence_offsets), [query, k, v]),
    }


def table1_pairs(sentences: int, *, words: int = WORDS, top_t: int = TOP_T) -> dict[str, int]:
    """Pairs of a query and a key that ours compares in one head, for each layer type of table 1.

    A query is compared with all words of its sentence, all words, all sentences; in conditional attention with all
    sentences, or the nodes that the descent looks at, and the words of t sentences, or all where `auto` prefers that.
    """
    layout = DocumentLayout.from_lengths([[words] * sentences])
    queries, kept = layout.num_tokens, min(top_t, sentences)
    way = choose_backend("auto", layout, layout, kept)
    read = queries * (queries if way == "dense" else kept * words)
    levels = [-(-sentences // 2**level) for level in range(sentences.bit_length() + 1)]
    looked_at = 2 << (kept - 1).bit_length()  # children of the kept nodes, whose number is rounded up to a power of two
    nodes = sum(size if size <= 128 else looked_at for size in levels if size > kept) if kept < sentences else sentences
    return {
        "sentence by sentence": queries * words,
        "whole document": queries**2,
        "sentence encodings": queries * sentences,
        "conditional": queries * sentences + read,
        "hierarchical conditional": queries * nodes + read,
        "source2token": queries,
    }


def conditional_ways(sentences: int, timed: Timed) -> dict[str, Way]:
    document = Document.of(sentences)
    backends = ["dispatch", "auto"]
    if sentences * WORDS <= LONGEST_DENSE:
        backends.append("dense")
    ways = {"SDPA": timed(sdpa, document[2:5]), **{b: conditional(document, b, timed) for b in backends}}
    ways["sentences given"] = selected_before(document, timed)
    ways["tree"] = hierarchical(document, "dispatch", timed)
    return {**ways, "masked SDPA": masked_sdpa(document, timed)} if "dense" in ways else ways


def tree_ways(sentences: int, timed: Timed) -> dict[str, Way]:
    """Selection alone, for as many words at every size; it has no backward pass."""
    del timed
    document = Document.of(sentences)
    queries = DocumentLayout.from_lengths([[QUERIES]])
    keys = DocumentLayout.from_lengths([[1] * sentences])
    sentence_q = torch.randn(QUERIES, HEADS, WIDTH)
    asked, policy = Queries(sentence_q, sentence_q, queries), SelectionPolicy(TOP_T)
    by_blocks = SelectionPolicy(TOP_T, by_blocks=True)
    words, sentence_k, node_k = (x.detach() for x in (document.k, document.sentence_k, document.node_k))
    flat = Keys(words, words, sentence_k, keys)
    tree = Keys(words, words, node_k, keys, document.tree.index).choosing()
    return {
        "flat": lambda: select(asked, flat, policy),
        "blocks": lambda: select(asked, flat, by_blocks),
        "tree": lambda: select(asked, tree, policy),
    }


def step_ways(sentences: int, timed: Timed) -> dict[str, Way]:
    """One token of a beam of 4 that reads one document, as a decoder layer does it; without gradient."""
    del timed
    document = Document.of(sentences)
    q, sentence_q = torch.randn(2, 4, HEADS, WIDTH)
    k, v, sentence_k, node_k = (x.detach() for x in (document.k, document.v, document.sentence_k, document.node_k))
    flat = Keys(k, v, sentence_k, document.layout)
    tree = Keys(k, v, node_k, document.layout, document.tree.index).choosing()
    row = torch.zeros(len(q), dtype=torch.int64)

    def step(keys: Keys, policy: SelectionPolicy) -> Way:
        return lambda: selective_attention_step(q, sentence_q, keys, policy, document_of_row=row)

    return {
        "flat": step(flat, SelectionPolicy(TOP_T)),
        "blocks": step(flat, SelectionPolicy(TOP_T, by_blocks=True)),
        "tree": step(tree, SelectionPolicy(TOP_T)),
    }


def document_heads(width: int, merge: str | None, *, by_blocks: bool = False) -> SourceContext:
    """Attention heads that read the whole document, in place of self-attention: conditional or hierarchical."""
    made = build_merge(merge, d_model=width, heads=HEADS) if merge else None
    attention = ConditionalAttention(d_model=width, heads=HEADS, d_head=WIDTH, top_t=TOP_T, by_blocks=by_blocks)
    summarise = SummaryEncoder(d_model=width, heads=HEADS, merge=made)
    return SourceContext(attention, summarise=summarise, hide=nn.Identity())


class WholeDocument(SelfAttention):
    """Self-attention over the document instead of the sentence."""

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        return self.within(x, reads.layout.documents)


def layer_ways(sentences: int, timed: Timed) -> dict[str, Way]:
    """A layer of width 512 and 2,048 with each attention, parameters' gradients included."""
    layout = DocumentLayout.from_lengths([[WORDS] * sentences])
    width = HEADS * WIDTH
    x = torch.randn(layout.num_tokens, width, requires_grad=True)
    attentions = {
        "sentence by sentence": SelfAttention(d_model=width, heads=HEADS, d_head=WIDTH),
        "whole document": WholeDocument(d_model=width, heads=HEADS, d_head=WIDTH),
        "conditional": document_heads(width, None),
        "by blocks": document_heads(width, None, by_blocks=True),
        "hierarchical conditional": document_heads(width, "source2token"),
    }
    ways = {}
    for name, attention in attentions.items():
        layer = plain_layer(
            attention=attention,
            feed_forward=FeedForward(d_model=width, d_inner=4 * width, activation="relu"),
            residual=lambda: Residual(d_model=width, dropout=0.0, norm="pre"),
        )
        inputs = [x, *layer.parameters()]
        ways[name] = timed(lambda x, *_, layer=layer: layer(x, Reads(layout)), inputs)
    return ways
