"""Sentences of long documents that are found through blocks, against loops over the definition."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from docnmt.functional import selection as nearest
from docnmt.functional.conditional import select, selective_attention, selective_attention_step
from docnmt.functional.selection import (
    Keys,
    Queries,
    Selection,
    SelectionPolicy,
    find_sentences,
    many_sentences,
    top_sentences,
)
from docnmt.layout import DocumentLayout

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

    def keep(each: Tensor) -> set[int]:  # (S, d)
        scores = each.sum(-1)
        judged = {b: float(each[members].amax(0).sum()) for b, members in enumerate(blocks) if members}
        best = sorted(judged, key=lambda b: -judged[b])[: 2 * t]
        found = [s for b in best for s in blocks[b]]
        return set(sorted(found, key=lambda s: -float(scores[s]))[:t])

    return [[keep(each) for each in head] for head in products]


@pytest.mark.parametrize(("sentences", "size"), [(257, 8), (300, 8), (1025, 16)])
def test_the_choice_is_the_one_described(sentences: int, size: int) -> None:
    """Blocks have m for up to 16 m² sentences; some sentences and one whole block have no word."""
    lengths = [1 if n % 5 else 0 for n in range(sentences)]
    lengths[size : 2 * size] = [0] * size
    queries, keys = inputs([lengths], [[6]])
    found = select(queries, keys, POLICY)
    assert sets(found) == by_definition(queries, keys, 4, size)
    scores = torch.einsum("qhd,hqtd->hqt", queries.sentences, keys.relevance[found.sentences, [[[0]], [[1]]]])
    torch.testing.assert_close(found.relevance, scores / WIDTH**0.5)


def test_few_sentences_are_all_compared() -> None:
    queries, keys = inputs([[1] * 256], [[9]])
    assert sets(select(queries, keys, POLICY)) == sets(top_sentences(queries, keys, POLICY))
    more = DocumentLayout.from_lengths([[1] * 257, [1] * 600])
    assert many_sentences(more, 4).tolist() == [True, True]
    assert many_sentences(more, 5).tolist() == [False, True]


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


def test_one_relevant_sentence_is_found_anywhere() -> None:
    """Among 2,048 sentences of eight kinds, one that is like no other and repeats the query."""
    torch.manual_seed(0)
    layout = DocumentLayout.from_lengths([[1] * 2048])
    relevance = torch.randn(8, 1, 64)[torch.randint(8, (2048,))] + 0.1 * torch.randn(2048, 1, 64)
    places = torch.arange(0, 2048, 31)
    relevance[places] = 1.5 * torch.randn(len(places), 1, 64)
    asked = DocumentLayout.from_lengths([[len(places)]])
    q = relevance[places]
    found = select(Queries(q, q, asked), Keys(relevance, relevance, relevance, layout), POLICY)
    assert (found.sentences[0] == places[:, None]).any(1).float().mean() > 0.95


def test_steps_are_the_whole_pass() -> None:
    queries, keys = inputs([[2] * 280, [1] * 5], [[3, 2], [4]])
    expected = selective_attention(queries, keys, POLICY)
    some = torch.randperm(len(expected))
    document = queries.layout.document_of_token[some]
    rows = selective_attention_step(
        queries.words[some], queries.sentences[some], keys, POLICY, document_of_row=document
    )
    torch.testing.assert_close(rows, expected[some])


def test_what_is_not_finite_counts_as_0_and_disturbs_no_other() -> None:
    queries, keys = inputs([[1] * 300], [[5]])
    keys.relevance[77] = 0
    expected = select(queries, keys, POLICY)
    keys.relevance[77] = torch.nan
    queries.sentences[2] = torch.nan
    found = select(queries, keys, POLICY)
    for mine, theirs in zip(sets(found), sets(expected), strict=True):
        assert all(mine[n] == theirs[n] for n in (0, 1, 3, 4))
    assert ((found.sentences >= 0) & (found.sentences < 300)).all()


def test_blocks_are_refused_for_earlier_sentences() -> None:
    with pytest.raises(ValueError, match="by_blocks"):
        SelectionPolicy(4, visible="earlier", by_blocks=True)
