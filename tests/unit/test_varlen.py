"""Attention by flash attention's two calls: the equations, with the calls emulated in float64, and a card's shapes.

What only a card can say is in tests/integration/test_gpu.py.
"""

from __future__ import annotations

from collections.abc import Callable

import attention_reference as reference
import pytest
import torch
from torch import Tensor
from varlen_emulation import EMULATED

from docnmt.functional import dispatch as varlen_plan
from docnmt.functional import packed as varlen
from docnmt.functional.conditional import select
from docnmt.functional.dispatch import suits_varlen, varlen_attention
from docnmt.functional.packed import Sequences, packed_attention, varlen_packed_attention
from docnmt.functional.selection import Keys, Queries, Selection, SelectionPolicy
from docnmt.layout import DocumentLayout

Attend = Callable[[Queries, Keys, Selection], Tensor]
#: Empty sentences and documents, a document of one sentence, more sentences than are kept.
LAYOUT = DocumentLayout.from_lengths([[3, 0, 5, 1, 2], [4], [0], [], [2, 2, 6, 1, 1, 1]])
OTHER = DocumentLayout.from_lengths([[2, 2, 1], [1, 7], [3], [], [9]])


def emulated(queries: Queries, keys: Keys, selection: Selection) -> Tensor:
    return varlen_attention(queries, keys, selection, EMULATED)


def read(
    way: Attend, policy: SelectionPolicy, queries: DocumentLayout, keys: DocumentLayout, *, tree: bool, seed: int = 0
) -> list[Tensor]:
    """The output and the gradients of the five inputs."""
    index = reference.tree_over(keys).index
    sizes = index.num_nodes if tree else keys.num_sentences
    inputs = reference.random_inputs(queries, keys, sizes, seed)
    inputs = inputs._replace(v=inputs.v.detach()[..., :-1].clone().requires_grad_())  # flash attention has one width

    def attend(q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor) -> Tensor:
        asked = Queries(q, sentence_q, queries)
        given = Keys(k, v, sentence_k, keys, index if tree else None).choosing()
        return way(asked, given, select(asked, given, policy))

    return reference.values_and_gradients(attend, inputs)


FORMS = [
    *((SelectionPolicy(t), keys, False) for t in (1, 2, 3, 9) for keys in (LAYOUT, OTHER)),
    (SelectionPolicy(2, "earlier"), LAYOUT, False),
    (SelectionPolicy(9, "earlier"), LAYOUT, False),
    (SelectionPolicy(2, always_own=True), LAYOUT, False),
    (SelectionPolicy(2), LAYOUT, True),
    (SelectionPolicy(2, select_on="node", always_own=True), LAYOUT, True),
]


@pytest.mark.parametrize("tile", [2, 512])
@pytest.mark.parametrize(("policy", "keys", "tree"), FORMS)
def test_the_two_calls_give_the_equation_and_all_its_gradients(
    policy: SelectionPolicy, keys: DocumentLayout, tree: bool, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(varlen_plan, "FLASH_TILE", tile)  # 2: sentences are read by several sequences
    expected = read(reference.attend_dense, policy, LAYOUT, keys, tree=tree)
    reference.assert_same(read(emulated, policy, LAYOUT, keys, tree=tree), expected)


def test_with_nothing_to_read_the_output_and_all_gradients_are_zero() -> None:
    empty = DocumentLayout.from_lengths([[0, 0], [0]])
    something = DocumentLayout.from_lengths([[2, 1], [0], [3]])
    queries, keys = DocumentLayout.from_lengths([[2], [3], []]), something
    out, *gradients = read(emulated, SelectionPolicy(2), queries, keys, tree=False)
    assert not out[2:].any()  # the second document has no words to read
    assert out[:2].any()
    assert not gradients[0][2:].any()
    assert not gradients[1][3:].any()  # nobody reads the third
    assert all(torch.isfinite(x).all() for x in (out, *gradients))
    asked = Queries(torch.zeros(5, 2, 8), torch.zeros(5, 2, 8), queries)
    nothing = Keys(torch.zeros(0, 2, 8), torch.zeros(0, 2, 8), torch.zeros(3, 2, 8), empty)
    assert not suits_varlen(asked, nothing, Selection.empty(asked.sentences, 1))


def test_heads_are_divided_where_a_call_takes_fewer_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = SelectionPolicy(3)
    whole = read(emulated, policy, LAYOUT, LAYOUT, tree=False)
    calls: list[int] = []

    def counting(q: Tensor, k: Tensor, v: Tensor, at: Sequences, causal: bool) -> varlen.VarlenOutput:
        calls.append(len(at.q) - 1)
        return EMULATED.forward(q, k, v, at, causal)

    monkeypatch.setattr(varlen_plan, "SEQUENCES", 20)
    counted = EMULATED._replace(forward=counting)
    parts = read(lambda q, k, s: varlen_attention(q, k, s, counted), policy, LAYOUT, LAYOUT, tree=False)
    assert len(calls) == 2  # two heads
    assert max(calls) <= 20
    reference.assert_same(parts, whole)


@pytest.mark.parametrize("causal", [False, True])
def test_sentences_by_the_two_calls_give_the_same_and_all_gradients(causal: bool) -> None:
    keys = LAYOUT if causal else OTHER
    queries = DocumentLayout.from_lengths([[1] * keys.num_sentences]) if not causal else keys
    random = torch.Generator().manual_seed(1)
    q, k, v = (
        torch.randn(n, 2, 8, generator=random, dtype=torch.float64).requires_grad_()
        for n in (queries.num_tokens, keys.num_tokens, keys.num_tokens)
    )
    spans = (queries.sentences, keys.sentences)
    expected = packed_attention(q, k, v, *spans, causal=causal)
    attended = varlen_packed_attention(q, k, v, *spans, causal=causal, calls=EMULATED)
    reference.assert_same_passes(attended, expected, (q, k, v))
