"""Validation: scores, log lines, patience, and the checkpoints that follow from them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import torch

from docnmt.core.scoring.metrics import lower_is_better
from docnmt.core.tasks.task import ContextTask, Dataset, SampleTask
from docnmt.core.training.check_options import asks_task_metrics
from docnmt.core.training.interrupts import Interrupts
from docnmt.core.training.journal import Journal, format_values
from docnmt.core.training.probe import naming_batch
from docnmt.core.training.run import Run, TrainingState, averages
from docnmt.runtime import ranks
from docnmt.runtime.errors import Terminated, UserError
from docnmt.runtime.progress import Progress
from docnmt.runtime.transfer import to_host


def validate(run: Run) -> dict[str, float]:
    """Compute loss, perplexity, the criterion's metrics and, if requested, the task's, on the validation split.

    The model is put into evaluation mode and back.

    Raises:
        UserError: the split is empty.
    """
    with run.mean_weights(), run.whole_model():
        run.model.eval()
        scores = all_scores(run)
        run.model.train()
    agreed: dict[str, float] = ranks.exchange(scores)[0]
    return agreed


def samples(run: Run) -> Mapping[str, str]:
    """Return the sample outputs that `--tensorboard-logdir` shows beside the scores."""
    if run.limits.tensorboard_logdir is None or not isinstance(run.task, SampleTask):
        return {}
    with run.mean_weights(), run.whole_model():
        return run.task.samples(run.model, "valid")


def all_scores(run: Run) -> dict[str, float]:
    """Compute the scores of `validate` for a model that is in evaluation mode already."""
    training = run.training
    scores = mean_scores(run, run.task.dataset("valid", run.model, seed=training.seed), "loss")
    if asks_task_metrics(training, run.task):
        scores |= run.task.evaluate(run.model, "valid", {"max_tokens": training.max_tokens})
    if run.limits.context_worth and "nll" in scores and isinstance(run.task, ContextTask):
        others = run.task.other_contexts("valid", run.model)
        scores |= {f"nll_{name}": mean_scores(run, data, f"context: {name}")["nll"] for name, data in others.items()}
    return scores


def mean_scores(run: Run, data: Dataset, label: str) -> dict[str, float]:
    """Compute loss, perplexity and the criterion's metrics on a validation split; `label` is for the progress bar.

    Raises:
        UserError: the split is empty.
    """
    plan = run.plan(data, shuffle=False)
    sizes = [int(data.sizes[units].sum()) for units in plan]
    bar = Progress(sum(sizes) // ranks.world(), f"validating ({label})", unit="tok", lasting=False)  # of this rank

    def _batch(place: int) -> dict[str, float]:
        with torch.no_grad(), naming_batch(f"validation after update {run.state.update}", data, plan[place]):
            loss, logs = run.loss(data, plan[place])
        values = dict(zip(("loss", *logs), to_host([loss, *logs.values()]), strict=True))
        bar.update(sizes[place])
        return values

    sums: dict[str, float] = {}
    with bar:
        for logs in ranks.shared_out(sizes, _batch):
            for name, value in logs.items():
                sums[name] = sums.get(name, 0.0) + value
    if not sums.get("size"):
        raise UserError("the validation split is empty; preprocess one, or train with --disable-validation")
    return averages(sums)


def worth_of_context(scores: dict[str, float]) -> str:
    """Return `context is worth 0.0100 nats a subword (true 1.0990, foreign 1.1140, none 1.1090)`, or nothing."""
    if "nll_none" not in scores:
        return ""
    each = {"true": "nll", "foreign": "nll_foreign", "none": "nll_none"}
    known = ", ".join(f"{name} {scores[field]:.4f}" for name, field in each.items() if field in scores)
    return f"context is worth {scores['nll_none'] - scores['nll']:.4f} nats a subword ({known})"


def validation_is_due(run: Run) -> bool:
    """Return True if the schedule demands a validation at this update that has not been run."""
    state, training = run.state, run.training
    if training.disable_validation or state.validated == state.update:
        return False
    epoch_ended = state.batches == 0 and (state.epoch - 1) % training.validate_interval == 0
    every = training.validate_interval_updates
    return epoch_ended or (every is not None and state.update % every == 0)


def oriented(metric: str, score: float) -> float:
    """Return the score, negated if lower is better, so that higher always is; NaN is the worst."""
    return -math.inf if math.isnan(score) else -score if lower_is_better(metric) else score


def is_better(metric: str, score: float, than: float | None) -> bool:
    """Return True for a new best score; the first one is, unless it is NaN."""
    return oriented(metric, score) > (-math.inf if than is None else oriented(metric, than))


def history(metric: str, state: TrainingState) -> list[float]:
    """Return the scores of all scheduled validations, oriented so that higher is better."""
    return [oriented(metric, score) for _, score in state.history]


def validations_since_best(metric: str, state: TrainingState) -> int:
    """Return how many scheduled validations have passed since the best one."""
    scores = history(metric, state)
    return len(scores) - 1 - scores.index(max(scores)) if scores else 0


def validate_and_save(
    run: Run, journal: Journal, interrupts: Interrupts, say: Callable[[str], None], *, scheduled: bool = True
) -> None:
    """Validate, log, and save: checkpoint_last always, checkpoint_best if it is a new best, and those to keep.

    A validation outside the schedule, run because a limit was reached, may give a new best; patience and the plateau
    schedule ignore it, so that a prolonged run continues as if the limit had never existed.
    """
    state, metric, started = run.state, run.training.best_checkpoint_metric, time.perf_counter()
    try:
        with interrupts.at_once():
            run.scores = validate(run)
            journal.show(state.update, samples(run))
    except (Terminated, KeyboardInterrupt):
        save_last(run)
        raise
    state.seconds += time.perf_counter() - started
    score = run.scores[metric]
    if scheduled:
        state.validated = state.update
        state.history.append([state.update, score])
    else:
        state.concluded = state.update
    journal.write("valid", state.update, {"epoch": state.epoch, **run.scores, "wall": state.seconds})
    new_best = is_better(metric, score, state.best[1] if state.best else None)
    if new_best:
        state.best = [state.update, score]
        with run.mean_weights():
            run.save(run.folder.best, optimizer=False)
    mark = " (best)" if new_best else f" (best {metric} {state.best[1]:.3f} at {state.best[0]:,})" if state.best else ""
    worth = worth_of_context(run.scores)
    usual = {name: value for name, value in run.scores.items() if name not in ("nll_foreign", "nll_none")}
    say(f"update {state.update:,}: valid {format_values(usual)}{mark}")
    if worth:
        say(worth)
    keep(run)
    save_last(run)


def keep(run: Run) -> None:
    """Write the checkpoint that `--keep-last` demands, and delete those that it no longer does."""
    folder, number = run.folder, run.limits.keep_last
    if not number:
        return
    with run.mean_weights():
        run.save(folder.keep(run.state.update), optimizer=False)
    for path in list(folder.kept().values())[:-number] if ranks.rank() == 0 else ():
        path.unlink()


def save(run: Run) -> None:
    """Write checkpoint_last and, if there is no validation, the checkpoints of `--keep-last`."""
    if run.training.disable_validation:
        keep(run)
    save_last(run)


def save_last(run: Run) -> None:
    """Write checkpoint_last."""
    run.save(run.folder.last, optimizer=True)
    run.saved, run.saved_at = run.state.update, time.monotonic()
