"""kNN-MT of recipes/studies/manual: what is looked up, and the probability that results."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import knn


def test_all_clusters_give_the_nearest_states() -> None:
    draw = torch.Generator().manual_seed(0)
    keys, q = torch.randn(200, 8, generator=draw), torch.randn(70, 8, generator=draw)
    followed = torch.arange(200)
    store = knn.Store.of(keys, followed)
    assert len(store.centres) == 14
    distances, neighbours = store.look_up(q, 5, 14)
    exact, indices = torch.cdist(q, keys).square().topk(5, largest=False)
    torch.testing.assert_close(distances, exact, rtol=1e-4, atol=1e-4)
    assert torch.equal(neighbours, indices)
    few, _ = store.look_up(q, 1, 2)
    assert (few[:, 0] >= exact[:, 0] - 1e-4).all()


def test_the_mixture_is_a_distribution_that_moves_to_the_neighbours() -> None:
    logits = torch.randn(3, 10, generator=torch.Generator().manual_seed(0))
    distances, followed = torch.tensor([[0.0, 1.0]] * 3), torch.tensor([[4, 4], [1, 2], [0, 9]])
    mixture = knn.mixed(logits, distances, followed, 1.0, 0.25).exp()
    torch.testing.assert_close(mixture.sum(1), torch.ones(3))
    near = torch.tensor([0.0, -1.0]).softmax(0)
    torch.testing.assert_close(mixture[1, 2], 0.75 * logits[1].softmax(0)[2] + 0.25 * near[1])
    torch.testing.assert_close(mixture[0, 4], 0.75 * logits[0].softmax(0)[4] + 0.25)
    torch.testing.assert_close(knn.mixed(logits, distances, followed, 1.0, 0.0), logits.log_softmax(1))
