"""Linear layers in training: what `nn.Linear` computes, and its gradients, by another library."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from docnmt.modules.linear_layers import TrainedLinear
from docnmt.runtime import device as tuning


@pytest.fixture
def _tuned() -> None:
    with tuning.products_by("medium"):
        if tuning._product_error() > tuning.FLOAT32_ERROR:
            pytest.skip("oneDNN rounds to bfloat16 on this processor, and tune does not choose it")


@pytest.mark.usefixtures("_tuned")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(50, 24), (5, 7, 24), (1, 24), (0, 24), (24,)])
def test_the_layer_and_its_gradients_are_those_of_float64(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(24, 40, bias=bias)
    exact, trained = copy.deepcopy(layer).double(), TrainedLinear(layer)
    x = torch.randn(shape, requires_grad=True)
    given = torch.randn(*shape[:-1], 40)

    def passes(module: nn.Module, x: Tensor) -> list[Tensor]:
        inputs = [x, *module.parameters()]
        y = module(x)
        return [y, *torch.autograd.grad(y, inputs, given.to(y.dtype))]

    expected = passes(exact, x.detach().double().requires_grad_())
    for found, right in zip(passes(trained, x), expected, strict=True):
        assert found.shape == right.shape
        torch.testing.assert_close(found.double(), right, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("_tuned")
def test_what_is_frozen_gets_no_gradient_and_the_rest_does() -> None:
    layer = TrainedLinear(nn.Linear(8, 40))
    layer.weight.requires_grad_(False)
    x = torch.randn(3, 8)
    layer(x).sum().backward()
    assert layer.weight.grad is None
    assert layer.bias.grad is not None
    assert torch.equal(layer.bias.grad, torch.full((40,), 3.0))


def test_without_gradients_it_has_the_bits_of_the_layer_that_it_replaces() -> None:
    layer, x = nn.Linear(100, 300), torch.randn(77, 100)
    trained = TrainedLinear(layer)
    assert trained.weight is layer.weight
    assert [name for name, _ in trained.named_parameters()] == [name for name, _ in layer.named_parameters()]
    with torch.no_grad():
        assert torch.equal(trained(x), layer(x))


def test_the_precision_comes_back_after_both_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    linear = torch.nn.functional.linear
    monkeypatch.setattr(
        torch.nn.functional, "linear",
        lambda *given: seen.append(torch.get_float32_matmul_precision()) or linear(*given),
    )  # fmt: skip
    before = torch.get_float32_matmul_precision()
    y = TrainedLinear(nn.Linear(8, 40))(torch.randn(3, 8))
    assert seen == ["medium"]
    assert torch.get_float32_matmul_precision() == before
    y.sum().backward()
    assert torch.get_float32_matmul_precision() == before
