"""KeepTopT: exactly t stay, ties go to the lowest index, gradients to what stays."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from docnmt.functional import keep_top_t

INF = torch.inf


def test_mask_excludes_and_bounds_how_many_stay():
    mask = torch.tensor([False, True, False, True])
    assert keep_top_t(torch.tensor([9.0, 1.0, 8.0, 2.0]), 3, mask).tolist() == [-INF, 1, -INF, 2]
    assert keep_top_t(torch.ones(4), 2, torch.zeros(4, dtype=torch.bool)).tolist() == [-INF] * 4


def test_infinite_scores():
    assert keep_top_t(torch.tensor([1.0, INF, 5.0, INF]), 1).tolist() == [-INF, INF, -INF, -INF]
    assert keep_top_t(torch.tensor([-INF, 1.0, -INF]), 2).tolist() == [-INF, 1, -INF]
    largest = torch.finfo(torch.float32).max
    kept = keep_top_t(torch.tensor([[largest, INF, -INF], [2.0, 2.0, 1.0]]), 1)
    assert kept.tolist() == [[-INF, INF, -INF], [2, -INF, -INF]]


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (2, 0, 5)])
def test_empty(shape):
    assert keep_top_t(torch.zeros(shape), 2).shape == shape


def test_gradient_reaches_what_stays_and_nothing_else():
    scores = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    keep_top_t(scores, 2).exp().sum().backward()
    torch.testing.assert_close(scores.grad, torch.tensor([3.0, 0.0, 2.0]).exp() * torch.tensor([1.0, 0, 1.0]))


@pytest.mark.parametrize("t", [0, -1])
def test_t_below_one(t):
    with pytest.raises(ValueError, match=r"^t: "):
        keep_top_t(torch.ones(3), t)


def test_mask_that_does_not_fit():
    with pytest.raises(ValueError, match=r"\(2,\).*float32"):
        keep_top_t(torch.ones(2), 1, torch.ones(2))
    with pytest.raises(ValueError, match=r"\(5, 3\)"):
        keep_top_t(torch.ones(3), 1, torch.ones(5, 3, dtype=torch.bool))


@settings(max_examples=60)
@given(n=st.integers(1, 300), rows=st.integers(1, 5), t=st.integers(1, 6), seed=st.integers(0, 99), ties=st.booleans())
def test_same_choice_as_a_stable_sort(n, rows, t, seed, ties):
    """With and without equal and unselectable scores."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, rows, n, generator=generator)
    if ties:
        scores = (scores * 2).round()
        scores[torch.rand(scores.shape, generator=generator) < 0.2] = -INF
    ordered, order = scores.sort(descending=True, stable=True)
    expected = torch.full_like(scores, -INF).scatter_(-1, order[..., :t], ordered[..., :t])
    assert torch.equal(keep_top_t(scores, t), expected)
