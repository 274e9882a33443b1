"""Dropout on a CPU: shares, scale, gradients, independence of the four numbers that share a draw."""

from __future__ import annotations

import pytest
import torch

from docnmt.modules.layers import Dropout


def dropped(p: float, *shape: int, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return Dropout(p)(torch.ones(shape))


@pytest.mark.parametrize("p", [0.05, 0.1, 0.5, 0.9])
def test_the_share_is_p_and_the_mean_stays(p: float) -> None:
    y = dropped(p, 1000, 1001)
    deviation = (p * (1 - p) / y.numel()) ** 0.5
    assert float((y == 0).double().mean()) == pytest.approx(p, abs=5 * deviation + 2**-16)
    assert float(y.double().mean()) == pytest.approx(1, abs=5 * deviation / (1 - p) + 2**-16)
    assert len(y.unique()) == 2


def test_numbers_of_one_draw_are_independent() -> None:
    four = (dropped(0.5, 100_000, 4) > 0).double() - 0.5
    assert ((four.T @ four) / len(four) - 0.25 * torch.eye(4)).abs().max() < 5 * 0.25 / len(four) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (0, 4), (2, 3, 3)])
def test_gradients_are_dropped_where_numbers_are(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    y = Dropout(0.5)(x)
    assert (y.shape, y.dtype) == (x.shape, dtype)
    (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y))
    torch.testing.assert_close(y, x * gradient)
    assert set(gradient.unique().tolist()) <= {0.0, 2.0}


def test_a_transposed_input_is_no_special_case() -> None:
    torch.manual_seed(0)
    x = torch.arange(1.0, 13).view(3, 4).T
    y = Dropout(0.5)(x)
    assert set((y / x).unique().tolist()) <= {0.0, 2.0}


def test_the_seed_decides_and_evaluation_drops_nothing() -> None:
    assert torch.equal(dropped(0.3, 50, 50), dropped(0.3, 50, 50))
    assert not torch.equal(dropped(0.3, 50, 50), dropped(0.3, 50, 50, seed=1))
    x = torch.randn(5, 5)
    assert Dropout(0.3).eval()(x) is x


@pytest.mark.parametrize(("p", "left"), [(0.0, 1.0), (1.0, 0.0), (1e-9, 1.0)])
def test_nothing_or_everything_is_dropped(p: float, left: float) -> None:
    assert torch.equal(dropped(p, 20), torch.full((20,), left))
