"""Fusion operators: equations written a second way, packed against padded rows, gradients, nothing leaks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from docnmt.modules.fusion import Fusion, Gate, build_fusion
from docnmt.registry import FUSIONS

D = 6
OFFSETS = torch.tensor([0, 3, 4, 4, 9])
VARIANTS = [
    *((name, {}) for name in FUSIONS.names()),
    ("gate_conv", {"scalar": True}),
    ("gate_conv", {"radius": 3}),
    ("gate_conv", {"radius": 0}),
    ("add", {"norm_after": True}),
    ("gate_conv", {"norm_after": True}),
]


def build(name: str, options: dict[str, object]) -> Fusion:
    torch.manual_seed(3)
    fusion = build_fusion(name, D, **options).double()
    for parameter in fusion.parameters():  # away from 0 and 1, where wrong terms would hide
        parameter.data += 0.3 * torch.randn_like(parameter)
    return fusion


def rows(count: int = 9) -> tuple[Tensor, Tensor]:
    torch.manual_seed(4)
    return torch.randn(2, count, D, dtype=torch.float64, requires_grad=True).unbind(0)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_packed_equals_each_sequence_alone_and_padded(name: str, options: dict[str, object]) -> None:
    fusion = build(name, options)
    e, p = rows()
    packed = fusion(e, p, OFFSETS)
    for begin, end in pairwise(OFFSETS.tolist()):
        alone = fusion(e[None, begin:end], p[None, begin:end])[0]
        torch.testing.assert_close(packed[begin:end], alone)
    assert packed.shape == e.shape
    same_length = fusion(e[:8].view(2, 4, D), p[:8].view(2, 4, D))
    torch.testing.assert_close(same_length.flatten(0, 1), fusion(e[:8], p[:8], torch.tensor([0, 4, 8])))


def first_way(name: str, w: dict[str, Tensor], e: Tensor, p: Tensor) -> Tensor:
    """One token, feature by feature, from the papers' equations."""
    both = torch.cat([e, p])
    mix: Callable[[Tensor], Tensor] = lambda g: g * e + (1 - g) * p  # noqa: E731
    linear = lambda n, x: w[f"{n}.weight"] @ x + w[f"{n}.bias"]  # noqa: E731
    network = lambda: linear("network.2", linear("network.0", both).relu())  # noqa: E731
    equations: dict[str, Callable[[], Tensor]] = {
        "add": lambda: e + p,
        "mul": lambda: e * p,
        "none": lambda: e,
        "scale": lambda: w["scales"][0] * e + w["scales"][1] * p,
        "concat": lambda: linear("projection", both),
        "mlp": network,
        "gate_scalar": lambda: mix(1 / (1 + torch.exp(-linear("projection", both)))),
        "gate_vector": lambda: mix(1 / (1 + torch.exp(-linear("projection", both)))),
        "gate_mlp": lambda: mix(1 / (1 + torch.exp(-network()))),
        "gate_constant": lambda: mix(1 / (1 + torch.exp(-w["logit"]))),
        "gate_content": lambda: e / (1 + torch.exp(-linear("projection", e))),
    }
    return equations[name]()


@pytest.mark.parametrize("name", [name for name in FUSIONS.names() if name != "gate_conv"])
def test_equation(name: str) -> None:
    fusion, (e, p) = build(name, {}), rows()
    weights = dict(fusion.named_parameters())
    expected = torch.stack([first_way(name, weights, e[i], p[i]) for i in range(len(e))])
    torch.testing.assert_close(fusion(e, p, OFFSETS), expected)


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("radius", [0, 1, 2])
def test_gate_conv_is_torchs_depthwise_convolution(radius: int, scalar: bool) -> None:
    fusion, (e, p) = build("gate_conv", {"radius": radius, "scalar": scalar}), rows()
    kernel = fusion.weight.t()[:, None]  # (d, 1, 2K+1)
    score = torch.nn.functional.conv1d(p.t()[None], kernel, padding=radius, groups=D)[0].t()
    gate = torch.sigmoid(score.sum(1, keepdim=True) if scalar else score)
    torch.testing.assert_close(fusion(e, p), gate * e + (1 - gate) * p)


def test_gate_conv_sees_its_radius_and_no_other_sequence() -> None:
    fusion, (e, p) = build("gate_conv", {"radius": 2}), rows()
    changed = p.detach().clone()
    changed[3] += 1.0  # the sequence of one token, between two others
    changed[4] += 1.0  # the first token of the last
    differs = (fusion.gate(e, p, OFFSETS) != fusion.gate(e, changed, OFFSETS)).any(1)
    assert differs.tolist() == [False, False, False, True, True, True, True, False, False]


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_gradients(name: str, options: dict[str, object]) -> None:
    fusion = build(name, options)
    e, p = (x.detach().requires_grad_() for x in rows())
    assert torch.autograd.gradcheck(lambda a, b: fusion(a, b, OFFSETS), (e, p))
    fusion(e, p, OFFSETS).pow(2).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in fusion.parameters())


def test_gates_are_readable() -> None:
    e, p = rows()
    for name in FUSIONS.names():
        fusion = build(name, {})
        if isinstance(fusion, Gate):
            gate = fusion.gate(e, p, OFFSETS)
            assert gate.shape in {(9, 1), (9, D)}
            assert ((gate > 0) & (gate < 1)).all()


def test_wrong_arguments_are_named() -> None:
    e, p = rows()
    with pytest.raises(ValueError, match=r"'gate_scaler'.*'gate_scalar'"):
        build_fusion("gate_scaler", D)
    with pytest.raises(ValueError, match="'add'"):
        build_fusion("add", D, radius=2)
    with pytest.raises(ValueError, match="radius"):
        build_fusion("gate_conv", D, radius=-1)
    with pytest.raises(ValueError, match=r"\(9, 6\).*\(8, 6\)"):
        build_fusion("add", D)(e, p[:8])
    with pytest.raises(ValueError, match="9"):
        build_fusion("add", D)(e[:8], p[:8], OFFSETS)
