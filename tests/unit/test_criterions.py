"""Cross-entropy from features and output layer, against torch on the full tokens × vocabulary tensor."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from docnmt.core.batch import IGNORE
from docnmt.registry import CRITERIA


class Features(nn.Module):
    """A model whose features are a parameter."""

    def __init__(self, *, bias: bool) -> None:
        super().__init__()
        self.features = nn.Parameter(torch.randn(9, 6, dtype=torch.float64))
        self.output = nn.Linear(6, 13, bias=bias, dtype=torch.float64)

    def forward(self, batch: object) -> Tensor:
        return self.features


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("name", "smoothing"), [("cross_entropy", 0.0), ("label_smoothed_cross_entropy", 0.2)])
def test_agrees_with_torch(name: str, smoothing: float, bias: bool) -> None:
    torch.manual_seed(0)
    model = Features(bias=bias)
    labels = torch.randint(13, (9,))
    labels[3] = IGNORE
    batch = SimpleNamespace(labels=labels, num_tokens=8)
    config = CRITERIA.config(name)(**({"label_smoothing": 0.2} if smoothing else {}))
    loss, size, logs = CRITERIA.get(name).build(config, None)(model, batch)
    scores = model.output(model.features)
    expected = F.cross_entropy(scores, labels, reduction="sum", label_smoothing=smoothing, ignore_index=IGNORE)
    nll = F.cross_entropy(scores, labels, reduction="sum", ignore_index=IGNORE)
    assert size == 8
    torch.testing.assert_close(loss, expected)
    assert logs == {"nll": pytest.approx(float(nll.detach()))}
    for parameter, fast, plain in zip(
        model.parameters(),
        torch.autograd.grad(loss, list(model.parameters())),
        torch.autograd.grad(expected, list(model.parameters())),
        strict=True,
    ):
        assert fast.shape == parameter.shape
        torch.testing.assert_close(fast, plain)
