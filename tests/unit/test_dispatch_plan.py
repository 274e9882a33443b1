"""The plan of a dispatch: every assignment once, and little of a batch is padding."""

from __future__ import annotations

import pytest
import torch

from docnmt.functional import packed as costs
from docnmt.functional.dispatch import DispatchPlan, plan_dispatch
from docnmt.functional.selection import Selection
from docnmt.layout import DocumentLayout


def plans(lengths: list[int], chosen: torch.Tensor) -> list[DispatchPlan]:
    """Plans of a choice (h, Tq, t) among sentences of these lengths."""
    layout = DocumentLayout.from_lengths([lengths])
    return list(plan_dispatch(Selection(chosen, torch.zeros(chosen.shape)), layout))


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
    assert computed <= 2 * chosen.numel() * words + costs.TILE_BATCH_BEGIN * len(plan.batches)
    assert len(plan.batches) <= 3
