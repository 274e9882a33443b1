"""`--always-own-sentence`: the word's own sentence is always among the sentences it keeps."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from attention_reference import Inputs, assert_same, clear_choice, random_inputs, values_and_gradients
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_models import batch, build, scores
from torch import Tensor

from docnmt.batch import PackedText, TranslationBatch
from docnmt.functional import SentenceTree, build_tree, conditional_attention
from docnmt.functional.tree import cumulative_keys
from docnmt.layout import DocumentLayout
from docnmt.modules.own_sentence import own_sentence_attention, own_sentence_step
from docnmt.registry import MODELS

DOCUMENTS = st.lists(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=7), min_size=1, max_size=3
)


def reference(
    inputs: Inputs, tree: SentenceTree | None, queries: DocumentLayout, keys: DocumentLayout, t: int, select_on: str
) -> Tensor:
    """Word by word: the sentences kept by eq. 7 or by walking down lists of children, the least giving way."""
    q, k, v, sentence_q, relevance_k = inputs
    begin, out = keys.sentence_offsets.tolist(), []
    for i in range(len(q)):
        own, document = int(queries.sentence_of_token[i]), int(queries.document_of_token[i])
        for head in range(q.shape[1]):
            relevance = relevance_k[:, head] @ sentence_q[i, head] / math.sqrt(q.shape[-1])
            if tree is None:
                sentences = range(*keys.document_offsets[document : document + 2].tolist())
                total = {s: relevance[s] for s in sentences}
                kept = top(total, t)
            else:
                total, kept = walk(tree, relevance, document, t, select_on)
            if own not in kept:
                kept.remove(min(kept, key=lambda s: float(total[s].detach())))
                kept.append(own)
            spans = [range(begin[s], begin[s + 1]) for s in kept]
            word_scores = [
                k[w, head] @ q[i, head] / math.sqrt(q.shape[-1]) + total[s]
                for s, span in zip(kept, spans, strict=True)
                for w in span
            ]
            words = [w for span in spans for w in span]
            out.append(torch.stack(word_scores).softmax(0) @ v[words, head])
    return torch.stack(out).view(len(q), q.shape[1], -1) if out else 0 * v[:0]


def top(ranks: dict[int, Tensor], t: int) -> list[int]:
    assume(clear_choice(list(ranks.values()), t) and clear_choice(list(ranks.values()), max(t - 1, 1)))
    return sorted(ranks, key=lambda s: -float(ranks[s].detach()))[:t]


def walk(
    tree: SentenceTree, relevance: Tensor, document: int, t: int, select_on: str
) -> tuple[dict[int, Tensor], list[int]]:
    """Cumulative relevance of every sentence of a document, and the sentences that TraverseTree keeps."""
    parents, leaves = tree.index.parents.tolist(), tree.index.leaves.tolist()
    nodes = [n for n, of in enumerate(tree.index.document_of_node.tolist()) if of == document]

    def total(node: int) -> Tensor:
        return relevance[node] + (total(parents[node]) if parents[node] >= 0 else 0)

    level = [n for n in nodes if parents[n] < 0]
    while level[0] not in leaves:
        level = [n for n in nodes if parents[n] in level]
        level = top({n: total(n) if select_on == "cumulative" else relevance[n] for n in level}, t)
    totals = {s: total(leaf) for s, leaf in enumerate(leaves) if leaf in nodes}
    return totals, [leaves.index(n) for n in level]


@pytest.mark.parametrize("kind", ["flat", "cumulative", "node"])
@settings(deadline=None, max_examples=25)
@given(documents=DOCUMENTS, t=st.integers(1, 4), seed=st.integers(0, 99))
def test_against_the_equations(kind: str, documents: list[list[tuple[int, int]]], t: int, seed: int) -> None:
    queries, keys = (DocumentLayout.from_lengths([[pair[side] for pair in d] for d in documents]) for side in (0, 1))
    tree, count, select_on = None, keys.num_sentences, "cumulative" if kind == "flat" else kind
    if kind != "flat":
        summaries = torch.randn(keys.num_sentences, 3, dtype=torch.float64)
        tree = build_tree(summaries, keys.document_offsets, lambda a, b: (a + b) / 2)
        count = len(tree.nodes)
    inputs = random_inputs(queries, keys, count, seed)
    expected = values_and_gradients(lambda *x: reference(Inputs(*x), tree, queries, keys, t, select_on), inputs)

    def ours(q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, relevance_k: Tensor) -> Tensor:
        return own_sentence_attention(
            q, k, v, sentence_q, relevance_k, tree, query_layout=queries, key_layout=keys, top_t=t, select_on=select_on
        )

    assert_same(values_and_gradients(ours, inputs), expected)
    q, k, v, sentence_q, relevance_k = (x.detach() for x in inputs)
    some = torch.randperm(len(q))
    rows = own_sentence_step(
        q[some], k, v, sentence_q[some], relevance_k,
        None if tree is None else cumulative_keys(relevance_k, tree.index), tree,
        key_layout=keys, sentence_of_row=queries.sentence_of_token[some], top_t=t, select_on=select_on,
    )  # fmt: skip
    assert_same([rows], [expected[0][some]])


def test_long_documents_take_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Organised by sentence and padded give the same values and gradients; with all sentences kept, plain eq. 7's."""
    layout = DocumentLayout.from_lengths([[4] * 9, [3] * 12])
    inputs = random_inputs(layout, layout, layout.num_sentences, 1)
    found = []
    for way in ("padded", "dispatch"):
        monkeypatch.setattr("docnmt.functional.conditional.choose_backend", lambda *_, way=way: way)
        for t in (3, 12):

            def attention(q: Tensor, k: Tensor, v: Tensor, sq: Tensor, sk: Tensor, t: int = t) -> Tensor:
                return own_sentence_attention(
                    q, k, v, sq, sk, None, query_layout=layout, key_layout=layout, top_t=t, select_on="cumulative"
                )

            found.append(values_and_gradients(attention, inputs))
    assert_same(found[0], found[2])
    assert_same(found[1], found[3])
    plain = values_and_gradients(
        lambda *x: conditional_attention(*x, query_layout=layout, key_layout=layout, top_t=12), inputs
    )
    assert_same(found[1], plain)
    assert not torch.allclose(found[0][0], plain[0])


@pytest.mark.parametrize("name", ["cond_transformer", "hier_cond_transformer"])
@pytest.mark.parametrize("more", [{}, {"context_placement": "heads"}, {"attention": "linear"}])
def test_step_by_step_equals_the_whole_row(name: str, more: dict[str, Any]) -> None:
    model, data = build(name, always_own_sentence=True, top_t=2, **more), batch()
    offsets, lengths = data.target.layout.sentence_offsets.tolist(), data.target.layout.sentences.lengths.tolist()
    with torch.no_grad():
        whole = scores(model, data)
        state = model.begin(model.encode(data.source), torch.arange(len(lengths)), 2)
        for i in range(max(lengths)):
            places = [begin + min(i, n - 1) for begin, n in zip(offsets[:-1], lengths, strict=True)]
            logits = model.step(data.target.tokens[places].repeat_interleave(2), state)
            for slot, (begin, n) in enumerate(zip(offsets[:-1], lengths, strict=True)):
                if i < n:
                    assert torch.allclose(logits[2 * slot + 1], whole[begin + i], atol=1e-10)


def test_the_own_sentence_is_read_where_it_is_least_relevant() -> None:
    """Relevance that points away from the own sentence: only with the option a change of its words is seen."""
    layout = DocumentLayout.from_lengths([[2, 2, 2]])
    torch.manual_seed(0)
    q, sentence_q, v = torch.randn(3, 6, 2, 4)
    sentence_k = torch.zeros(3, 2, 4)
    sentence_k[0] = -sentence_q[0]  # least relevant for its own first word
    changed = v.clone()
    changed[:2] += 1  # the words of the first sentence
    layouts: dict[str, Any] = {"query_layout": layout, "key_layout": layout, "top_t": 2}
    plain = [conditional_attention(q, q, x, sentence_q, sentence_k, **layouts)[0] for x in (v, changed)]
    always = [
        own_sentence_attention(q, q, x, sentence_q, sentence_k, None, **layouts, select_on="cumulative")[0]
        for x in (v, changed)
    ]
    assert torch.equal(*plain)
    assert not torch.allclose(*always)


def test_every_parameter_learns_and_the_future_changes_nothing() -> None:
    model, data = build("hier_cond_transformer", always_own_sentence=True, top_t=2), batch()
    scores(model, data).square().sum().backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []
    tokens = data.target.tokens.clone()
    tokens[3:] = 5 + (tokens[3:] + 2) % 35
    other = TranslationBatch(
        data.source, PackedText(tokens, data.target.layout, data.target.positions), tokens, data.units
    )
    assert torch.allclose(scores(model, data)[:3], scores(model, other)[:3], atol=1e-12)


def test_with_one_sentence_alone_it_is_refused() -> None:
    config = MODELS.config("cond_transformer")(always_own_sentence=True, top_t=1)
    assert any("leaves no other sentence" in problem for problem in config.problems())
