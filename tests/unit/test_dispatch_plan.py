"""The plan of a dispatch: every assignment once, and little of a batch is padding."""

from __future__ import annotations

import pytest
import torch

from docnmt.functional.dispatch import TILE_SPREAD, Plan, by_sentence
from docnmt.functional.selection import Selection
from docnmt.layout import DocumentLayout


def plans(lengths: list[int], chosen: torch.Tensor) -> list[Plan]:
    """Plans of a choice (h, Tq, t) among sentences of these lengths."""
    layout = DocumentLayout.from_lengths([lengths])
    return list(by_sentence(Selection(chosen, torch.zeros(chosen.shape)), layout.sentences))


@pytest.mark.parametrize("queries", [1, 40, 3000])
@pytest.mark.parametrize("skewed", [False, True])
def test_every_assignment_has_one_row_of_its_own_sentence(queries: int, skewed: bool) -> None:
    lengths = [1, 3, 4, 9, 25, 30, 60, 61, 200, 700] * 6
    random = torch.Generator().manual_seed(queries)
    scores = torch.rand(2, queries, len(lengths), generator=random)
    if skewed:
        scores[:, :, 7] += 1
    chosen = scores.topk(4).indices
    for plan in plans(lengths, chosen):
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


def test_a_popular_sentence_does_not_pad_the_tiles_of_others() -> None:
    """As in decoding: a few queries for each sentence, but one that all have chosen."""
    queries, sentences, words = 100, 400, 20
    others = torch.randperm(sentences - 1)[: queries * 3].view(queries, 3) + 1
    chosen = torch.cat([torch.zeros(queries, 1, dtype=torch.int64), others], 1)[None]
    (plan,) = plans([words] * sentences, chosen)
    computed = sum((b.tiles.stop - b.tiles.start) * b.width * b.longest for b in plan.batches)
    assert computed <= TILE_SPREAD * chosen.numel() * words
    assert len(plan.batches) <= 3


def test_the_drawing_of_the_chapter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docnmt.functional.dispatch.TILE", 2)
    chosen = torch.tensor([[2, 0, 2, 2], [1, 1, 0, 0]])[..., None]
    relevance = torch.zeros(2, 4, 1)
    relevance[1, 3] = -torch.inf
    (plan,) = by_sentence(Selection(chosen, relevance), DocumentLayout.from_lengths([[5, 4, 3]]).sentences)
    assert plan.order.tolist() == [1, 0, 2, 3, 6, 4, 5, 7]
    assert plan.begin.tolist() == [0, 1, 1, 4, 5, 7, 7]
    assert plan.slot.tolist() == [2, 3, 0, 8, 4, 5, 1, 6]
    assert plan.row.flatten().tolist() == [2, 6, 0, 1, 4, 5, 7, 8]
