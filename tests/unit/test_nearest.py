"""Sentences of long documents that are found through blocks, against loops over the definition."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from docnmt.functional import selection as nearest
from docnmt.functional.conditional import select, selective_attention, selective_attention_step
from docnmt.functional.decoding import FEW, PackedKeys, RowLists, Shelf, attend_listed
from docnmt.functional.dispatch import by_sentence
from docnmt.functional.selection import (
    Keys,
    Queries,
    Selection,
    SelectionPolicy,
    find_sentences,
    top_sentences,
)
from docnmt.layout import DocumentLayout
from docnmt.runtime.device import row_invariant

HEADS, WIDTH = 2, 8
POLICY = SelectionPolicy(4, by_blocks=True)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents of 257 sentences are long already, with t = 4."""
    monkeypatch.setattr(nearest, "_FEW", 256)
    monkeypatch.setattr(nearest, "_LEAST", 64)


def inputs(lengths: list[list[int]], asked: list[list[int]], seed: int = 0) -> tuple[Queries, Keys]:
    torch.manual_seed(seed)
    queries, keys = DocumentLayout.from_lengths(asked), DocumentLayout.from_lengths(lengths)
    q, sentence_q = torch.randn(2, queries.num_tokens, HEADS, WIDTH, dtype=torch.float64)
    k, v = torch.randn(2, keys.num_tokens, HEADS, WIDTH, dtype=torch.float64)
    relevance = torch.randn(keys.num_sentences, HEADS, WIDTH, dtype=torch.float64)
    return Queries(q, sentence_q, queries), Keys(k, v, relevance, keys)


def sets(selection: Selection) -> list[list[set[int]]]:
    """For each head and query what it keeps."""
    kept = selection.relevance > -torch.inf
    return [
        [set(row[keep].tolist()) for row, keep in zip(*head, strict=True)]
        for head in zip(selection.sentences, kept, strict=True)
    ]


def by_definition(queries: Queries, keys: Keys, t: int, size: int) -> list[list[set[int]]]:
    """One document: the t best sentences of the 2t blocks with the largest bound of their sentences' relevances."""
    filled = (keys.layout.sentence_offsets.diff() > 0).tolist()
    blocks = [[s for s in range(b, min(b + size, len(filled))) if filled[s]] for b in range(0, len(filled), size)]
    products = torch.einsum("qhd,shd->hqsd", queries.sentences, keys.relevance)

    def keep(product: Tensor) -> set[int]:  # (S, d)
        scores = product.sum(-1)
        judged = {b: float(product[members].amax(0).sum()) for b, members in enumerate(blocks) if members}
        best = sorted(judged, key=lambda b: -judged[b])[: 2 * t]
        candidates = [s for b in best for s in blocks[b]]
        return set(sorted(candidates, key=lambda s: -float(scores[s]))[:t])

    return [[keep(product) for product in head] for head in products]


@pytest.mark.parametrize(("sentences", "size"), [(257, 8), (300, 8), (1025, 16)])
def test_the_choice_is_the_one_described(sentences: int, size: int) -> None:
    """Blocks have m for up to 16 m² sentences; some sentences and one whole block have no word."""
    lengths = [1 if n % 5 else 0 for n in range(sentences)]
    lengths[size : 2 * size] = [0] * size
    queries, keys = inputs([lengths], [[6]])
    chosen = select(queries, keys, POLICY)
    assert sets(chosen) == by_definition(queries, keys, 4, size)
    scores = torch.einsum("qhd,hqtd->hqt", queries.sentences, keys.relevance[chosen.sentences, [[[0]], [[1]]]])
    torch.testing.assert_close(chosen.relevance, scores / WIDTH**0.5)


def test_all_blocks_hold_what_all_sentences_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are no more than 2t blocks, nothing can be missed."""
    queries, keys = inputs([[2, 0, 1, 3, 0, 1, 1], [], [1], [1] * 13], [[3, 1], [], [2], [4]])
    expected = sets(top_sentences(queries, keys, SelectionPolicy(7)))
    monkeypatch.setattr(nearest, "_FEW", 0)
    monkeypatch.setattr(nearest, "_LEAST", 0)
    assert sets(find_sentences(queries, keys, SelectionPolicy(7, by_blocks=True))) == expected


def test_a_document_keeps_the_same_beside_others() -> None:
    """Documents searched through blocks, with blocks of other sizes, and documents searched throughout."""
    sizes = [300, 20, 700, 1]
    queries, keys = inputs([[1] * n for n in sizes], [[3]] * 4)
    together, first = sets(select(queries, keys, POLICY)), 0
    for number, size in enumerate(sizes):
        rows, own = slice(3 * number, 3 * number + 3), slice(first, first + size)
        alone = Queries(queries.words[rows], queries.sentences[rows], DocumentLayout.from_lengths([[3]]))
        part = Keys(keys.words[own], keys.values[own], keys.relevance[own], DocumentLayout.from_lengths([[1] * size]))
        for head, kept in zip(together, sets(select(alone, part, POLICY)), strict=True):
            assert head[rows] == [{first + s for s in row} for row in kept]
        first += size


def test_steps_are_the_whole_pass() -> None:
    queries, keys = inputs([[2] * 280, [1] * 5], [[3, 2], [4]])
    expected = selective_attention(queries, keys, POLICY)
    some = torch.randperm(len(expected))
    document = queries.layout.document_of_token[some]
    rows = selective_attention_step(
        queries.words[some], queries.sentences[some], keys, POLICY, document_of_row=document
    )
    torch.testing.assert_close(rows, expected[some])


# Rows of decoding slots: the numbers of the general step, whatever stands beside a row and wherever its words are.


HEADS_OF_ATTEND, WIDTH_OF_ATTEND = 2, 32
POLICIES = [SelectionPolicy(1), SelectionPolicy(3), SelectionPolicy(3, always_own=True), SelectionPolicy(50)]
SHORT = [[5, 3, 0, 7, 2, 1, 1], [4], [2] * 19, [0, 0], [30, 1, 12]]
#: One document whose sentences are compared by lists, two that are too long for it, with an empty sentence.
LONG = [[3, 1, 2], [1, 4, 2] * (FEW // 3) + [0, 5, 1, 1, 2], [2] * (FEW + 1)]


def keys_of(lengths: list[list[int]], dtype: torch.dtype = torch.float64) -> Keys:
    random, layout = torch.Generator().manual_seed(3), DocumentLayout.from_lengths(lengths)
    words, values = torch.randn(2, layout.num_tokens, HEADS_OF_ATTEND, WIDTH_OF_ATTEND, generator=random, dtype=dtype)
    relevance = torch.randn(layout.num_sentences, HEADS_OF_ATTEND, WIDTH_OF_ATTEND, generator=random, dtype=dtype)
    relevance[layout.sentences.lengths == 0] = torch.nan  # a mean of nothing
    return Keys(words, values, relevance, layout)


def queries(rows: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    q, sentence_q = torch.randn(2, rows, HEADS_OF_ATTEND, WIDTH_OF_ATTEND, generator=random, dtype=dtype)
    return q, sentence_q


def shelf_of(keys: Keys, documents: list[int]) -> Shelf:
    bounds = keys.layout.document_sentences.host
    source = PackedKeys(keys.words, keys.values, keys.layout.sentences, keys.relevance)
    return Shelf([((source, int(bounds[n]), int(bounds[n + 1])),) for n in documents])


@pytest.mark.parametrize(
    ("lengths", "documents", "own"),
    [(SHORT, [2, 0, 4, 0, 1, 3], [22, 2, 30, 0, 7, 27]), (LONG, [1, 0, 2, 1], [FEW + 3, 1, FEW + 20, 5])],
    ids=["short", "long"],
)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("beam", [1, 3])
def test_they_are_the_general_step(
    lengths: list[list[int]], documents: list[int], own: list[int], policy: SelectionPolicy, beam: int
) -> None:
    keys = keys_of(lengths)
    q, sentence_q = queries(len(documents) * beam)
    rows = torch.tensor(documents).repeat_interleave(beam)
    expected = selective_attention_step(
        q, sentence_q, keys, policy, document_of_row=rows, own=torch.tensor(own).repeat_interleave(beam)
    )
    attended = shelf_of(keys, documents).attend_chosen(q, sentence_q, policy, {}, torch.tensor(own))
    torch.testing.assert_close(attended, expected, rtol=0, atol=1e-12)
    if lengths is SHORT:
        assert (attended[-beam:] == 0).all()  # a document without a word


@torch.inference_mode()
@pytest.mark.skipif(not row_invariant(), reason="products depend on the batch here")
def test_a_row_of_a_long_text_has_the_same_bits_in_every_company() -> None:
    keys, (q, sentence_q) = keys_of(LONG, torch.float32), queries(8, torch.float32)
    policy, documents = SelectionPolicy(3), [0, 1, 1, 2, 1, 0, 2, 1]
    whole = shelf_of(keys, documents).attend_chosen(q, sentence_q, policy, {})
    for some in ([1], [3, 6], [0, 1, 2, 3], [7, 0, 6, 1, 5, 2, 4]):
        shelf = shelf_of(keys, [documents[n] for n in some])
        assert torch.equal(shelf.attend_chosen(q[some], sentence_q[some], policy, {}), whole[some])


# Attention of single queries to lists of rows: against the equation, and independent of other queries.


HEADS_OF_ROW, WIDTH_OF_ROW, ROWS = 3, 20, 40
DRAW = torch.Generator().manual_seed(0)
#: Spans of the table for each of two heads of a row: two, one, none, and one of many rows.
BEGINS = torch.tensor([[0, 30], [7, 0], [3, 9], [0, 0]])
LENGTHS_OF_ROW = torch.tensor([[3, 5], [1, 0], [0, 0], [37, 2]])


def lists(rows: list[int]) -> RowLists:
    """Every head of a row reads the same places of the table, in the row of its own head."""
    return RowLists.of_spans(*(spans[rows][:, None].expand(-1, HEADS_OF_ROW, -1) for spans in (BEGINS, LENGTHS_OF_ROW)))


def inputs_of_row(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    q = torch.randn(len(BEGINS), HEADS_OF_ROW, WIDTH_OF_ROW, generator=draw, dtype=torch.float64)
    keys, values = torch.randn(2, ROWS, HEADS_OF_ROW, WIDTH_OF_ROW, generator=draw, dtype=torch.float64)
    return q.to(dtype), keys.to(dtype), values.to(dtype)


def equation(q: Tensor, keys: Tensor, values: Tensor, added: list[Tensor]) -> Tensor:
    """Row by row and head by head, in float64."""
    mixed = torch.zeros(q.shape, dtype=torch.float64)
    q, keys, values = (x.double() for x in (q, keys, values))
    for row, spans in enumerate(zip(BEGINS.tolist(), LENGTHS_OF_ROW.tolist(), strict=True)):
        places = [begin + n for begin, length in zip(*spans, strict=True) for n in range(length)]
        for head in range(HEADS_OF_ROW):
            scores = keys[places, head] @ q[row, head] * WIDTH_OF_ROW**-0.5 + added[row * HEADS_OF_ROW + head].double()
            mixed[row, head] = scores.softmax(0) @ values[places, head] if places else 0
    return mixed


@pytest.mark.parametrize(
    ("dtype", "error"), [(torch.float64, 1e-13), (torch.float32, 1e-6), (torch.bfloat16, 3e-2), (torch.float16, 3e-3)]
)
def test_it_is_softmax_attention_over_the_rows_of_each_list(dtype: torch.dtype, error: float) -> None:
    q, keys, values = inputs_of_row(dtype)
    own = lists([0, 1, 2, 3])
    added = [torch.randn(int(n), generator=DRAW) for n in own.offsets.diff()]
    attended = attend_listed(q, keys, values, own, torch.cat(added))
    assert attended.dtype == dtype
    torch.testing.assert_close(attended.double(), equation(q, keys, values, added), rtol=0, atol=error)
    assert (attended[2] == 0).all()


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf])
def test_an_overflow_stays_in_its_own_call(poison: float) -> None:
    """The lists' buffer is used again by other layers and later steps: what they compute is as with new lists."""
    q, keys, values = inputs_of_row(torch.float32)
    used = lists([0, 1, 2, 3])
    expected = attend_listed(q, keys, values, lists([0, 1, 2, 3]))
    assert not attend_listed(torch.full_like(q, poison), keys, values, used).isfinite().all()
    assert torch.equal(attend_listed(q, keys, values, used), expected)


# The plan of a dispatch: every assignment once, and little of a batch is padding.


@pytest.mark.parametrize("queries", [1, 40, 3000])
@pytest.mark.parametrize("skewed", [False, True])
def test_every_assignment_has_one_row_of_its_own_sentence(queries: int, skewed: bool) -> None:
    lengths = [1, 3, 4, 9, 25, 30, 60, 61, 200, 700] * 6
    random = torch.Generator().manual_seed(queries)
    scores = torch.rand(2, queries, len(lengths), generator=random)
    if skewed:
        scores[:, :, 7] += 1
    chosen = scores.topk(4).indices
    selection = Selection(chosen, torch.zeros(chosen.shape))
    for plan in by_sentence(selection, DocumentLayout.from_lengths([lengths]).sentences):
        heads = chosen[plan.heads]
        assert sorted(plan.row.flatten().tolist()) == sorted(set(plan.row.flatten().tolist()))
        tile = torch.full((len(plan.slot),), -1)
        for batch in plan.batches:
            count = batch.tiles.stop - batch.tiles.start
            tile[batch.rows] = torch.arange(batch.tiles.start, batch.tiles.stop).repeat_interleave(batch.width)
            assert batch.rows.stop - batch.rows.start == count * batch.width
            assert int(plan.length[batch.tiles].max()) == batch.longest
        words = plan.length[tile[plan.row.view(heads.shape)]]
        assert torch.equal(words, torch.tensor(lengths)[heads])
