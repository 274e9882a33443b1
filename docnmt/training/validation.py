"""How good the model is now, and what follows from it: the best checkpoint and patience."""

from __future__ import annotations

import math

import torch

from docnmt.errors import UserError
from docnmt.training.checks import asks_task_metrics
from docnmt.training.config import LOWER_IS_BETTER
from docnmt.training.run import Run
from docnmt.training.state import TrainingState, averages


def validate(run: Run) -> dict[str, float]:
    """Loss, perplexity and the criterion's metrics on the validation split, and the task's metrics where wanted.

    The model is in evaluation mode meanwhile.

    Raises:
        UserError: the split is empty.
    """
    training = run.training
    sums: dict[str, float] = {}
    run.model.eval()
    data = run.task.dataset("valid", run.model, seed=training.seed)
    with torch.no_grad():
        for units in run.plan(data, shuffle=False):
            with run.autocast():
                loss, size, logs = run.criterion(run.model, data.batch(units).to(run.device))
            for name, value in {"loss": float(loss), "size": size, **logs}.items():
                sums[name] = sums.get(name, 0.0) + value
    if not sums.get("size"):
        raise UserError("the validation split is empty; preprocess one, or train with --disable-validation")
    scores = averages(sums)
    if asks_task_metrics(training, run.task):
        scores |= run.task.evaluate(run.model, "valid", {"max_tokens": training.max_tokens})
    run.model.train()
    return scores


def validation_is_due(run: Run) -> bool:
    """Whether the schedule asks for a validation here that has not been made."""
    state, training = run.state, run.training
    if training.disable_validation or state.validated == state.update:
        return False
    epoch_ended = state.batches == 0 and (state.epoch - 1) % training.validate_interval == 0
    every = training.validate_interval_updates
    return epoch_ended or (every is not None and state.update % every == 0)


def oriented(metric: str, score: float) -> float:
    """The score with its sign turned where less is better, so that more is better always; NaN is the worst."""
    return -math.inf if math.isnan(score) else -score if metric in LOWER_IS_BETTER else score


def is_better(metric: str, score: float, than: float | None) -> bool:
    """Whether a score is a new best: the first one is, unless it is not a number."""
    return oriented(metric, score) > (-math.inf if than is None else oriented(metric, than))


def history(metric: str, state: TrainingState) -> list[float]:
    """The scores of all scheduled validations, more is better."""
    return [oriented(metric, score) for _, score in state.history]


def validations_since_best(metric: str, state: TrainingState) -> int:
    """How many scheduled validations have passed since the best of them."""
    scores = history(metric, state)
    return len(scores) - 1 - scores.index(max(scores)) if scores else 0


def best_updates(metric: str, state: TrainingState, count: int) -> list[int]:
    """The updates of the `count` best scheduled validations; of equals the earlier."""
    ranked = sorted(state.history, key=lambda entry: (-oriented(metric, entry[1]), entry[0]))
    return [int(update) for update, _ in ranked[:count]]
