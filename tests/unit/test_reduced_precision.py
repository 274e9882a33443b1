"""Linear layers of whole numbers against the same sums by NumPy, and against the layers that they replace."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from docnmt.modules.document_context import Source2Token
from docnmt.modules.linear_layers import (
    BFloat16Linear,
    EightBitLinear,
    PackedLinear,
    multiplies_eight_bits,
    packs,
    replace_linear,
)

#: By what the processor has, too: a layer that computes wrongly must not skip its own test.
HERE = multiplies_eight_bits() or torch.cpu._is_vnni_supported()
whole_numbers = pytest.mark.skipif(not HERE, reason="no products of whole numbers here")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@whole_numbers
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("width", "outputs"), [(64, 48), (128, 512), (512, 100), (33, 40)])
def test_products_are_those_of_whole_numbers(width: int, outputs: int, bias: bool) -> None:
    layer = nn.Linear(width, outputs, bias=bias)
    x = torch.randn(17, width) * torch.logspace(-3, 3, 17)[:, None]
    weight, rows = layer.weight.detach().numpy(), x.numpy()
    weight_scale = (np.abs(weight).max(1) / np.float32(127)).astype(np.float32)
    row_scale = (np.abs(rows).max(1) / np.float32(127)).astype(np.float32)
    rounded = np.rint(weight / weight_scale[:, None]).astype(np.int64)
    whole = np.floor((rows / row_scale[:, None] + np.float32(128.5)).astype(np.float32)).astype(np.int64) - 128
    wanted = (whole @ rounded.T) * weight_scale.astype(np.float64) * row_scale[:, None].astype(np.float64)
    if bias:
        wanted += layer.bias.detach().numpy()
    with torch.inference_mode():
        found = EightBitLinear(layer)(x).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max(1, keepdims=True).max())


@whole_numbers
def test_a_row_depends_on_no_other_row() -> None:
    layer = EightBitLinear(nn.Linear(128, 96))
    x = torch.randn(70, 128)
    with torch.inference_mode():
        whole = layer(x)
        for count in (1, 2, 3, 4, 7, 16, 33, 64):
            assert torch.equal(layer(x[3 : 3 + count]), whole[3 : 3 + count])
        x[5] *= 1000
        assert torch.equal(layer(x)[6:], whole[6:])


@whole_numbers
def test_it_is_nearly_the_layer_that_it_replaces() -> None:
    layer = nn.Linear(256, 512)
    x = torch.randn(3, 5, 256)
    with torch.inference_mode():
        eight = EightBitLinear(layer)
        found, wanted = eight(x), layer(x)
    assert found.shape == wanted.shape
    assert (found - wanted).norm() < 0.02 * wanted.norm()
    with torch.inference_mode():
        torch.testing.assert_close(eight(torch.zeros(2, 256)), layer.bias.expand(2, -1))
        assert eight(torch.zeros(0, 256)).shape == (0, 512)


@whole_numbers
def test_all_but_small_layers_are_replaced() -> None:
    tied = nn.Embedding(50, 64)
    output = nn.Linear(64, 50, bias=False)
    output.weight = tied.weight
    inner = nn.Sequential(nn.Linear(64, 64))
    model = nn.ModuleDict({"tied": tied, "output": output, "gate": nn.Linear(64, 1), "inner": inner})
    before = tied.weight.clone()
    replace_linear(model, EightBitLinear)
    assert [type(module) for module in (model["output"], model["gate"], inner[0])] == [
        EightBitLinear, nn.Linear, EightBitLinear
    ]  # fmt: skip
    assert torch.equal(tied.weight, before)


@pytest.mark.parametrize("bias", [True, False])
def test_bfloat16_rounds_inputs_weights_and_results(bias: bool) -> None:
    layer, x = nn.Linear(96, 64, bias=bias), torch.randn(3, 5, 96)
    rounded = nn.Linear(96, 64, bias=bias).double()
    rounded.load_state_dict({name: value.bfloat16().double() for name, value in layer.state_dict().items()})
    with torch.inference_mode():
        found, wanted = BFloat16Linear(layer)(x), rounded(x.bfloat16().double())
    assert found.dtype == torch.float32
    assert torch.equal(found, found.bfloat16().float())
    torch.testing.assert_close(found.double(), wanted, rtol=2**-8, atol=1e-3)
    assert layer.weight.dtype == torch.float32


def test_layers_whose_weights_are_read_stay() -> None:
    layer = Source2Token(d_model=64, heads=2)
    replace_linear(layer, BFloat16Linear)
    kinds = [type(part) for part in (layer.key, layer.value, layer.output)]
    assert kinds == [nn.Linear, nn.Linear, BFloat16Linear]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("width", "outputs"), [(64, 48), (33, 40), (256, 1000)])
def test_packed_weights_give_the_same_bits(width: int, outputs: int, bias: bool) -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        if not packs():
            pytest.skip("other bits here, so it is not used")
        layer = nn.Linear(width, outputs, bias=bias)
        packed, x = PackedLinear(layer), torch.randn(70, 2 * width)[:, width:]
        with torch.inference_mode():
            for rows in (x, x[:4], x[:9], x[:3], x[:1], x[:0], x[:6].view(2, 3, width)):
                assert torch.equal(packed(rows), layer(rows))
    finally:
        torch.set_float32_matmul_precision(before)
