"""Conditional attention, flat, hierarchical and step by step.

Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT", equations 3 to 7 and section 3.3. Each
function here names the values of one form; `docnmt.functional.select_and_attend` computes all of them.
"""

from __future__ import annotations

from torch import Tensor

from docnmt.functional.select_and_attend import selective_attention, selective_attention_step
from docnmt.functional.selection import Keys, Queries, SelectionPolicy, in_float32
from docnmt.functional.tree import SentenceTree, cumulative_keys
from docnmt.layout import DocumentLayout


def conditional_attention(
    q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor, *,
    query_layout: DocumentLayout, key_layout: DocumentLayout,
    top_t: int, visible: str = "document", backend: str = "auto",
) -> Tensor:  # fmt: skip
    """Softmax[q·k/√d_k + KeepTopT(sentence_q·sentence_k/√d_k, t) M] v (equation 7), for every document.

    Each word and head keeps its own t most relevant non-empty sentences of its document; a sentence's relevance is
    added to the scores of its words. With nothing to select, the output and all gradients are exactly 0. The gradients
    themselves can be differentiated, but not with backend "dispatch", nor in half types on a CUDA card.

    Args:
        q, sentence_q: (Tq, h, d_k), following `query_layout`.
        k, v: (Tk, h, d_k), (Tk, h, d_v), following `key_layout`.
        sentence_k: (Sk, h, d_k), one for each sentence of `key_layout`.
        top_t: how many sentences a word keeps.
        visible: "document", or "earlier": a query of sentence i of its document sees the key sentences before i only.
        backend: "dense" (the plain equation), "padded" (all scores, documents side by side), "dispatch" (the kept
            sentences' scores alone, O(n·t·m²) behind the choice) or "auto" (the cheaper one of the last two; in half
            types on a CUDA card flash attention to the kept sentences).

    Returns:
        (Tq, h, d_v), in the type of `v`; half types compute in float32, but for the products of flash attention.

    Raises:
        ValueError: shapes, layouts or options do not fit.
    """
    queries, keys = Queries(q, sentence_q, query_layout), Keys(k, v, sentence_k, key_layout)
    return selective_attention(queries, keys, SelectionPolicy(top_t, visible), backend)


def hierarchical_conditional_attention(
    q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, node_k: Tensor, tree: SentenceTree, *,
    query_layout: DocumentLayout, key_layout: DocumentLayout,
    top_t: int, select_on: str = "cumulative", count_copies: bool = True, backend: str = "auto",
) -> Tensor:  # fmt: skip
    """Softmax[q·k/√d_k + TraverseTree(sentence_q, node_k, t) M] v (section 3.3.2), for every document.

    A node's relevance is sentence_q·node_k/√d_k, its cumulative relevance the sum over its path from the root, root
    and copied nodes included (`count_copies`). At each level the top t nodes stay; the cumulative relevances of the
    leaves that are left are added to the scores of their words. Nodes with no word below them are never kept.

    Args:
        node_k: (N, h, d_k), the keys of `tree.nodes`, row by row.
        tree: of the sentences of `key_layout`.
        top_t: how many nodes stay at each level.
        select_on: whether nodes stay by their "cumulative" relevance or by the "node"'s own.
        count_copies: whether a node without a sibling counts in the sum beside its parent, which is a copy of it (as in
            figure 3), or not.
        backend: as in `conditional_attention`, where all other arguments are described, too. A query takes all products
            with the nodes of levels of up to 128 nodes, at most 255, and 2t for each level below (t rounded up to a
            power of two).

    Returns:
        (Tq, h, d_v), in the type of `v`; half types compute in float32, but for the products of flash attention.

    Raises:
        ValueError: shapes, layouts or options do not fit.
    """
    cumulative = None if count_copies else cumulative_keys(in_float32(node_k), tree.index, count_copies=False)
    queries, keys = Queries(q, sentence_q, query_layout), Keys(k, v, node_k, key_layout, tree.index, cumulative)
    return selective_attention(queries, keys, SelectionPolicy(top_t, select_on=select_on), backend)


def conditional_attention_step(
    q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor, *,
    key_layout: DocumentLayout, document_of_row: Tensor, top_t: int,
    tree: SentenceTree | None = None, cumulative_k: Tensor | None = None, select_on: str = "cumulative",
) -> Tensor:  # fmt: skip
    """The same numbers as the parallel forms, for one query a row; without gradient.

    Args:
        q, sentence_q: (R, h, d_k), rows in any order.
        k, v: (Tk, h, d_k), (Tk, h, d_v), following `key_layout`.
        sentence_k: (Sk, h, d_k) without a tree; the node keys (N, h, d_k) with one.
        document_of_row: (R,) int64, the document of `key_layout` each row reads.
        top_t: how many sentences a row keeps.
        tree: choose as `hierarchical_conditional_attention` does.
        cumulative_k: (N, h, d_k), `cumulative_keys(sentence_k, tree.index)`, if the caller keeps it between steps or
            counts copies of nodes once; without it they count again.
        select_on: as in `hierarchical_conditional_attention`.

    Returns:
        (R, h, d_v), in the type of `v`.

    Raises:
        ValueError: shapes, layouts or options do not fit.
    """
    keys = Keys(k, v, sentence_k, key_layout, None if tree is None else tree.index, cumulative_k)
    policy = SelectionPolicy(top_t, select_on=select_on)
    return selective_attention_step(q, sentence_q, keys, policy, document_of_row=document_of_row)
