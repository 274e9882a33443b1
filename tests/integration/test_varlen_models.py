"""A training step of every architecture as on a card under `--bf16`: the CPU emulates flash attention's calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import plugins  # noqa: F401  registers them
import pytest
import small_system
import torch
from torch import Tensor
from varlen_emulation import pretend

from docnmt.core.batch import collate, planned_units
from docnmt.core.training.criterions import CrossEntropy
from docnmt.registry import MODELS

#: Options and, for one encoder and one decoder layer, how often each kind of attention takes the way of a card.
CASES: dict[str, tuple[str, dict[str, Any], int, int]] = {
    "transformer": ("transformer", {}, 3, 0),
    "copy": ("copy_transformer", {}, 3, 0),
    "concat": ("concat_transformer", {}, 3, 0),
    "document": ("doc_transformer", {}, 3, 0),
    "rope": ("transformer", {"position": "rope"}, 3, 0),
    "relative": ("transformer", {"position": "relative"}, 1, 0),  # self-attention adds scores, cross-attention none
    "hier": ("hier_transformer", {}, 5, 0),
    "cond": ("cond_transformer", {"top_t": 2}, 3, 2),
    "own": ("cond_transformer", {"top_t": 2, "always_own_sentence": True}, 3, 2),
    "hier_cond": ("hier_cond_transformer", {"top_t": 2}, 3, 2),
    "tree": ("hier_cond_transformer", {"top_t": 2, "merge": "source2token"}, 3, 2),
    "target": ("cond_transformer", {"top_t": 2, "target_context": "conditional"}, 3, 3),
    "linear": ("scaleformer", {}, 0, 0),
}


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
