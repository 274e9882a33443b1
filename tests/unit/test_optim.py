"""Learning-rate schedules as functions of the update, and which parameters decay."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attention_reference import assert_same_passes
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from docnmt.core.batch import IGNORE
from docnmt.core.training.config import FormChoiceConfig, OptimizationConfig
from docnmt.core.training.criterions import FormChoice, LabelSmoothedCrossEntropy
from docnmt.core.training.run import build_optimizer, learning_rate
from docnmt.functional import loss as costs
from docnmt.functional.loss import chunked_cross_entropy
from docnmt.registry import CRITERIA

ALL: dict[str, dict[str, Any]] = {
    "inverse_sqrt": {}, "cosine": {"lr_period_updates": 100}, "plateau": {}, "constant": {},
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
@given(warmup=st.integers(0, 50), update=st.integers(1, 500))
def test_every_schedule_rises_to_the_peak_and_never_above(name: Any, warmup: int, update: int) -> None:
    config = OptimizationConfig(lr=0.5, lr_scheduler=name, warmup_updates=warmup, **ALL[name])
    rate = learning_rate(config, update)
    assert 0 <= rate <= 0.5
    if update <= warmup:
        assert rate == pytest.approx(0.5 * update / warmup)
    else:
        assert rate <= learning_rate(config, max(update - 1, max(warmup, 1)))


def test_inverse_sqrt_is_the_papers() -> None:
    """Vaswani et al., eq. 3: d^-0.5 · min(step^-0.5, step · warmup^-1.5), for the lr that makes the peaks equal."""
    config = OptimizationConfig(lr=512**-0.5 * 4000**-0.5, warmup_updates=4000)
    for step in (1, 100, 4000, 4001, 100_000):
        assert learning_rate(config, step) == pytest.approx(512**-0.5 * min(step**-0.5, step * 4000**-1.5))


def test_cosine_agrees_with_torch() -> None:
    config = OptimizationConfig(lr=0.3, lr_scheduler="cosine", warmup_updates=0, lr_period_updates=40, min_lr=0.01)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40, eta_min=0.01)
    for update in range(1, 41):
        optimizer.step()
        schedule.step()
        assert learning_rate(config, update) == pytest.approx(schedule.get_last_lr()[0])
    assert learning_rate(config, 1000) == pytest.approx(0.01)


@given(st.lists(st.floats(0, 1), max_size=30))
def test_plateau_agrees_with_torch(scores: list[float]) -> None:
    config = OptimizationConfig(lr=0.8, lr_scheduler="plateau", warmup_updates=0)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.8)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode="max", factor=0.5, patience=1, threshold=0.0, eps=0.0
    )
    for done in range(len(scores)):
        schedule.step(scores[done])
        rate = learning_rate(config, 1, scores[: done + 1])
        assert rate == pytest.approx(optimizer.param_groups[0]["lr"])


def test_only_matrices_decay() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    groups = build_optimizer(OptimizationConfig(weight_decay=0.1), model).param_groups
    assert {group["weight_decay"]: [p.dim() for p in group["params"]] for group in groups} == {0.1: [2], 0.0: [1, 1, 1]}


# Cross-entropy from features and output layer, against torch on the full tokens × vocabulary tensor.


class Features(nn.Module):
    """A model whose features are a parameter."""

    def __init__(self, tokens: int, vocabulary: int, *, bias: bool) -> None:
        super().__init__()
        self.features = nn.Parameter(torch.randn(tokens, 6, dtype=torch.float64))
        self.output = nn.Linear(6, vocabulary, bias=bias, dtype=torch.float64)

    def forward(self, batch: object) -> Tensor:
        return self.features


@pytest.mark.parametrize("chunk", [1, 7, 1024])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("name", "smoothing"), [("cross_entropy", 0.0), ("label_smoothed_cross_entropy", 0.2)])
def test_agrees_with_torch(
    name: str, smoothing: float, bias: bool, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "_CHUNK", chunk)
    torch.manual_seed(0)
    model = Features(9, 13, bias=bias)
    labels = torch.randint(13, (9,))
    labels[3] = IGNORE
    batch = SimpleNamespace(labels=labels, num_tokens=8)
    config = CRITERIA.config(name)(**({"label_smoothing": 0.2} if smoothing else {}))
    loss, size, logs = CRITERIA.get(name).build(config, None)(model, batch)
    scores = model.output(model.features)
    expected = F.cross_entropy(scores, labels, reduction="sum", label_smoothing=smoothing, ignore_index=IGNORE)
    nll = F.cross_entropy(scores, labels, reduction="sum", ignore_index=IGNORE)
    assert size == 8
    assert logs == {"nll": pytest.approx(float(nll.detach()))}
    assert_same_passes(loss, expected, [*model.parameters()])


def test_nothing_to_count_is_zero() -> None:
    x = torch.randn(4, 3, requires_grad=True)
    loss, _ = chunked_cross_entropy(x, torch.randn(5, 3), torch.full((4,), -100))
    loss.backward()
    assert loss == 0
    assert x.grad is not None
    assert not x.grad.any()


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


# The criterion of forms of address, against the whole distribution.


WORDS = ["▁tu", "▁te", "▁vous", "▁il", "tu", "▁t", "▁votre"]
LABELS = torch.tensor([0, 3, 2, IGNORE, 5, 4])
BATCH: Any = SimpleNamespace(labels=LABELS, num_tokens=5)


@pytest.mark.parametrize("bias", [True, False])
def test_the_choice_of_a_form_is_that_of_the_whole_distribution(bias: bool) -> None:
    torch.manual_seed(0)
    task: Any = SimpleNamespace(target_lang="fr", target_tokenizer=SimpleNamespace(vocabulary=lambda: WORDS))
    criterion = FormChoice.build(FormChoiceConfig(form_choice=3.0), task)
    assert [numbers.tolist() for numbers in criterion.words] == [[2, 6], [0, 1, 5]]
    model = Features(len(LABELS), len(WORDS), bias=bias)
    plain, _, logs = LabelSmoothedCrossEntropy(label_smoothing=0.1)(model, BATCH)
    loss, count, logged = criterion(model, BATCH)
    p = model.output(model.features).softmax(1)
    formal, informal = p[:, [2, 6]].sum(1), p[:, [0, 1, 5]].sum(1)
    asked = -(informal / (formal + informal))[[0, 4]].log().sum() - (formal / (formal + informal))[2].log()
    assert count == 5
    assert logged == logs
    assert_same_passes(loss, plain + 3 * asked, [*model.parameters()])
    torch.testing.assert_close(criterion(model.eval(), BATCH)[0], plain)  # validation is that of the plain loss
