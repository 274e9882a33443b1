"""Learning-rate schedules as functions of the update, and which parameters decay."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from docnmt.core.training.config import OptimizationConfig
from docnmt.core.training.run import build_optimizer, learning_rate, stalls
from docnmt.options import contradictions

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


def test_stalls_count_afresh() -> None:
    assert stalls([1, 1, 1, 1, 1], patience=1) == 2
    assert stalls([1, 2, 3, 4], patience=0) == 0
    assert stalls([math.nan, 1, 0.5], patience=0) == 2


def test_only_matrices_decay() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    groups = build_optimizer(OptimizationConfig(weight_decay=0.1), model).param_groups
    assert {group["weight_decay"]: [p.dim() for p in group["params"]] for group in groups} == {0.1: [2], 0.0: [1, 1, 1]}


def test_problems_are_found() -> None:
    assert not contradictions(OptimizationConfig())
    wrong = OptimizationConfig(lr=0, adam_betas=(0.9, 1.0), min_lr=1.0, lr_period_updates=5, clip_norm=-1)
    named = ["--lr:", "--adam-betas:", "--clip-norm:", "--lr-period-updates", "--min-lr"]
    assert [problem.split()[0] for problem in contradictions(wrong)] == named
    wrong = OptimizationConfig(adam_betas=(0.9,), min_lr=1.0, lr_scheduler="cosine")
    assert [problem.split()[0] for problem in contradictions(wrong)] == ["--adam-betas:", "--min-lr", "--lr-scheduler"]
