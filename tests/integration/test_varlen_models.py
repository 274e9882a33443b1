"""A training step of every architecture as on a card under `--bf16`: the CPU emulates flash attention's calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import plugins  # noqa: F401  registers them
import pytest
import small_system
import torch
from torch import Tensor
from varlen_emulation import CASES, pretend

from docnmt.core.batch import collate, planned_units
from docnmt.core.training.criterions import CrossEntropy
from docnmt.registry import MODELS


def step(name: str, options: dict[str, Any]) -> tuple[float, Tensor]:
    """The loss a token of a batch of documents and the gradient of all parameters, in bfloat16 where it is safe."""
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "embed_dim": 32, "heads": 2, "ffn_dim": 48, "dropout": 0.0}
    model = small_system.task().build_model(MODELS.get(name), MODELS.config(name)(**sizes, **options))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    corpus = small_system.corpus(small_system.text(3, 6))
    corpus = type(corpus)(**{**vars(corpus), "target": corpus.source})
    units = planned_units(model.reading, corpus)
    data = collate(corpus, units, np.arange(len(units)), model.reading)
    with torch.autocast("cpu", torch.bfloat16):
        total, count, _ = CrossEntropy(label_smoothing=0.0)(model, data)
    total.backward()
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return float(total.detach()) / count, torch.cat([g.flatten() for g in gradients]) / count


@pytest.mark.parametrize("case", CASES)
def test_a_step_takes_the_way_of_a_card_and_gives_the_same(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, options, packed, conditional = CASES[case]
    loss, gradient = step(name, options)
    used = pretend(monkeypatch)
    card_loss, card_gradient = step(name, options)
    assert (used.count("packed"), used.count("conditional")) == (packed, conditional)
    assert card_loss == pytest.approx(loss, rel=0.01)
    assert float((card_gradient - gradient).norm() / gradient.norm()) < 0.05
