"""The chunked loss against torch's on the whole tokens × vocabulary tensor."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from docnmt.functional.loss import chunked_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_equals_the_dense_loss(smoothing: float, with_bias: bool, chunk: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(23, 6, dtype=torch.float64, requires_grad=True)
    w = torch.randn(11, 6, dtype=torch.float64, requires_grad=True)
    b = torch.randn(11, dtype=torch.float64, requires_grad=True) if with_bias else None
    labels = torch.randint(0, 11, (23,))
    labels[3:6] = -100
    loss, nll = chunked_cross_entropy(x, w, labels, bias=b, label_smoothing=smoothing, chunk_tokens=chunk)
    dense = F.cross_entropy(F.linear(x, w, b), labels, reduction="sum", label_smoothing=smoothing)
    assert torch.allclose(loss, dense, atol=1e-12)
    assert torch.allclose(nll, F.cross_entropy(F.linear(x, w, b), labels, reduction="sum"), atol=1e-12)
    inputs = [t for t in (x, w, b) if t is not None]
    grads = (torch.autograd.grad(3 * value, inputs) for value in (loss, dense))
    for one, other in zip(*grads, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_nothing_to_count_is_zero() -> None:
    x = torch.randn(4, 3, requires_grad=True)
    loss, _ = chunked_cross_entropy(x, torch.randn(5, 3), torch.full((4,), -100))
    loss.backward()
    assert loss == 0
    assert x.grad is not None
    assert not x.grad.any()


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(4, 3\)"):
        chunked_cross_entropy(torch.randn(4, 3), torch.randn(5, 2), torch.zeros(4, dtype=torch.int64))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_scores_far_apart_lose_nothing(smoothing: float) -> None:
    """Probabilities of the label that no float32 can hold still have their logarithm."""
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    w = torch.tensor([[1000.0, -1000.0], [-1000.0, 1000.0], [0.0, 0.0]])
    labels = torch.tensor([1, 2])
    loss, nll = chunked_cross_entropy(x, w, labels, label_smoothing=smoothing)
    dense = F.cross_entropy(x @ w.t(), labels, reduction="sum", label_smoothing=smoothing)
    assert nll == 3000
    assert loss.item() == pytest.approx(dense.item())
    assert torch.allclose(torch.autograd.grad(loss, x)[0], torch.autograd.grad(dense, x)[0])


def test_half_precision_products_are_near_the_dense_loss() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(200, 64, requires_grad=True), (torch.randn(500, 64) / 8).requires_grad_()
    labels = torch.randint(500, (200,))
    dense = F.cross_entropy(x @ w.t(), labels, reduction="sum", label_smoothing=0.1)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = chunked_cross_entropy(x, w, labels, label_smoothing=0.1, chunk_tokens=64)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(dense.item(), rel=1e-3)
    for one, other in zip(torch.autograd.grad(loss, (x, w)), torch.autograd.grad(dense, (x, w)), strict=True):
        assert (one - other).norm() < 0.01 * other.norm()
