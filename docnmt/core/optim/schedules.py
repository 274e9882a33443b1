"""The learning rate as a pure function of the update (and, for `plateau`, of the validations so far)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from docnmt.core.training.config import OptimizationConfig

#: Of `plateau`: the factor, and how many validations without a new best it lets pass.
SHRINK, PATIENCE = 0.5, 1


def learning_rate(config: OptimizationConfig, update: int, scores: Sequence[float] = ()) -> float:
    """Return the rate of the `update`-th update, counted from 1.

    Warm-up is linear from 0 for every schedule. After it, with w = warm-up updates:
    `inverse_sqrt` lr·√(w / update) (Vaswani et al. 2017, section 5.3, scaled to peak at lr; w = 0 counts as 1);
    `cosine` half a cosine from lr to min_lr over lr_period_updates, then min_lr (Loshchilov & Hutter 2017, eq. 5);
    `plateau` lr halved whenever two validations in a row give no new best; `constant` lr.

    Args:
        scores: the validation metric so far, oriented so that higher is better.
    """
    warmup, floor = config.warmup_updates, config.min_lr or 0.0
    if update < warmup:
        return config.lr * update / warmup
    if config.lr_scheduler == "inverse_sqrt":
        return config.lr * math.sqrt(max(warmup, 1) / update)
    if config.lr_scheduler == "cosine":
        fallen = min((update - warmup) / (config.lr_period_updates or 1), 1.0)
        return floor + (config.lr - floor) * 0.5 * (1 + math.cos(math.pi * fallen))
    if config.lr_scheduler == "plateau":
        return max(config.lr * SHRINK ** stalls(scores, PATIENCE), floor)
    return config.lr


def stalls(scores: Sequence[float], patience: int) -> int:
    """Count how often more than `patience` validations in a row brought no new best; each stall counts afresh."""
    best, waiting, count = -math.inf, 0, 0
    for score in scores:
        if score > best:
            best, waiting = score, 0
            continue
        waiting += 1
        if waiting > patience:
            count, waiting = count + 1, 0
    return count
