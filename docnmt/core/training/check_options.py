"""Checks before training: parts and options that do not go together, or differ from those of the run to continue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # configurations by section: their classes are those of the parts that were chosen

from torch import nn

from docnmt.core.tasks.task import Task
from docnmt.core.training.checkpoint import Checkpoint, stored_config, stored_model_config
from docnmt.core.training.config import SECTIONS, RunConfig, TrainingConfig
from docnmt.core.training.criterions import Criterion
from docnmt.registry.options import flag, to_dict
from docnmt.runtime.errors import UsageError, UserError


def check_same(config: Mapping[str, Any], checkpoint: Checkpoint) -> None:
    """Refuse to continue a run with other options; those of the section `run` may change.

    Raises:
        UsageError: naming every option that differs with its old and its new value, or the checkpoint's options
            that this version does not know.
    """
    problems = []
    for name in SECTIONS[1:]:  # the first is `run`
        model, kind = name == "model", type(config[name])
        stored = stored_model_config(checkpoint) if model else stored_config(checkpoint, name, kind)
        old, new = to_dict(stored), to_dict(config[name])
        different = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        problems += [f"{flag(key)} was {old.get(key)} and is now {new.get(key)}" for key in different]
        if {"arch", "task", "criterion"} & set(different):
            break  # other parts have other options
    if problems:
        where = f"{checkpoint.path} holds a run with other options; give the same, or another --save-dir"
        raise UsageError([f"{where}: {problem}" for problem in problems[:1]] + problems[1:])


def check_criterion(training: TrainingConfig, model: nn.Module, criterion: Criterion) -> None:
    """Refuse a criterion that does not match the kind of the model's output; plug-ins may leave it undeclared.

    Raises:
        UsageError: naming both.
    """
    predicted, judged = getattr(model, "predicts", None), getattr(criterion, "predicts", None)
    if predicted and judged and predicted != judged:
        raise UsageError(
            f"--criterion {training.criterion} judges {judged}, and --arch {training.arch} predicts {predicted}; leave "
            "--criterion out to take the task's own"
        )


def check_metric(training: TrainingConfig, task: Task, criterion: Criterion) -> None:
    """Refuse a misspelt `--best-checkpoint-metric` before anything is trained.

    Raises:
        UsageError: naming the existing metrics.
    """
    there = ("loss", *criterion.metrics, *(("ppl",) if "nll" in criterion.metrics else ()), *task.metrics)
    if training.best_checkpoint_metric not in there:
        raise UsageError(
            f"--best-checkpoint-metric: there is no '{training.best_checkpoint_metric}' with --task {training.task} "
            f"and --criterion {training.criterion}; there are {', '.join(there)}"
        )


def check_validation(config: Mapping[str, Any], task: Task, model: nn.Module) -> None:
    """Refuse a run that cannot validate, or that has options which need validation, before an epoch is spent on it.

    Raises:
        UserError: there is no validation split.
    """
    limits: RunConfig = config["run"]
    training: TrainingConfig = config["training"]
    if training.disable_validation:
        asked = {
            "--patience": limits.patience,
            "--lr-scheduler plateau": config["optimization"].lr_scheduler == "plateau",
        }
        if useless := [option for option, value in asked.items() if value]:
            raise UsageError(f"--disable-validation leaves nothing for {' and '.join(useless)} to judge by")
        return
    try:
        task.dataset("valid", model, seed=training.seed)
    except UserError as error:
        raise UserError(f"{error}; preprocess a validation split, or train with --disable-validation") from error


def asks_task_metrics(training: TrainingConfig, task: Task) -> bool:
    """Return True if validation computes the task's own metrics, such as BLEU."""
    return training.eval_metrics or training.best_checkpoint_metric in task.metrics


def check_judged(config: Mapping[str, Any], task: Task) -> None:
    """Refuse options of validation BLEU if validation does not compute it.

    Raises:
        UsageError: naming the option.
    """
    training: TrainingConfig = config["training"]
    computed = asks_task_metrics(training, task) and not training.disable_validation
    if not computed and getattr(config["task"], "eval_bleu_beam", 1) > 1:
        raise UsageError(
            "--eval-bleu-beam has no effect where validation computes no BLEU; give --eval-metrics or make BLEU the "
            "metric"
        )


def check_made_for(config: Mapping[str, Any]) -> None:
    """Refuse an architecture made for another task, if its configuration names one.

    Raises:
        UsageError: naming both.
    """
    training, made_for = config["training"], getattr(config["model"], "default_task", None)
    if made_for is not None and made_for != training.task:
        raise UsageError(
            f"--arch {training.arch} does not go with --task {training.task} and --criterion {training.criterion}: "
            f"it is made for --task {made_for}"
        )


def check_noise(config: Mapping[str, Any]) -> None:
    """Refuse `--r-drop` without dropout, since its two passes would be equal.

    Raises:
        UsageError: `--r-drop` without dropout.
    """
    if getattr(config["criterion"], "r_drop", 0) and not getattr(config["model"], "dropout", 0):
        raise UsageError("--r-drop compares passes with other dropout, and there is none: give --dropout")
