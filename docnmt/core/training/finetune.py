"""`--finetune-from-model`: the weights of another run as the start of this one.

A model of the same kind takes all of them. A document model takes a sentence model's, and its own parts begin such that
they add nothing: its first update starts from exactly what the sentence model computes.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from contextlib import suppress

import torch
from torch import Tensor, nn

from docnmt.core.models.config import TransformerConfig
from docnmt.core.models.encoder_decoder import EncoderDecoder
from docnmt.core.models.equal_start import (
    new_parameters,
    own_parameters,
    settings_that_differ,
    start_as_sentence_model,
    start_problems,
)
from docnmt.core.scoring.text_files import ModelRecord
from docnmt.core.tasks.document_translation import DocumentTranslation
from docnmt.core.tasks.task import Task, TaskState
from docnmt.core.training.checkpoint import Checkpoint, load_checkpoint, stored_model_config, unique_state
from docnmt.core.training.config import TrainingConfig
from docnmt.registry.registry import ARCHITECTURES
from docnmt.runtime.errors import UsageError, UserError
from docnmt.runtime.files import find_checkpoint

#: The model that others can start from.
SENTENCE_MODEL = "transformer"


def start_from(model: nn.Module, model_config: object, task: Task, training: TrainingConfig) -> ModelRecord:
    """Copy the weights of `--finetune-from-model` into a new model; return that model's record.

    Raises:
        UserError: there is no such checkpoint, it has another task or vocabulary, or its model does not fit; the
            message names every option, or else every tensor, that does not fit. Nothing is copied then.
    """
    assert training.finetune_from_model is not None
    checkpoint = load_checkpoint(find_checkpoint(training.finetune_from_model), optimizer=False)
    check_task(checkpoint, task, training)
    kind, theirs = ARCHITECTURES.get(training.arch).model, checkpoint.header["model"]
    new_parts: set[str] = set()
    stored = stored_model_config(checkpoint)
    if theirs == kind:
        problems = settings_that_differ(stored, model_config)
    elif (
        theirs == SENTENCE_MODEL
        and isinstance(model, EncoderDecoder)
        and isinstance(stored, TransformerConfig)
        and isinstance(model_config, TransformerConfig)
    ):
        new_parts = new_parameters(model)
        problems = start_problems(stored, model_config)
    else:
        raise UserError(
            f"--finetune-from-model {checkpoint.path}: is a '{theirs}'; a '{kind}' starts from a '{SENTENCE_MODEL}' "
            "(if it translates) or from its own kind"
        )
    own, tensors = unique_state(model), checkpoint.group("model")
    problems = problems or tensors_that_differ(own, tensors, new_parts)
    if problems:
        raise UserError(f"--finetune-from-model {checkpoint.path}: cannot start a '{kind}': {'; '.join(problems)}")
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)
    if theirs != kind:
        start_as_sentence_model(model, tensors)
    return checkpoint.record()


def learning_rate_scales(model: nn.Module, training: TrainingConfig) -> dict[str, float]:
    """Return `--finetune-lr-scale` for every parameter that a sentence model also has, if it is given, and 0 for those
    of `--finetune-freeze`.

    Raises:
        UsageError: a pattern fits no parameter, or nothing would be trained.
    """
    names, scale = [name for name, _ in model.named_parameters()], training.finetune_lr_scale
    own = own_parameters(model)
    if not own and scale == 0:
        raise UsageError(
            f"--finetune-lr-scale 0: --arch {training.arch} has no parts that a sentence model lacks; nothing would "
            "learn"
        )
    scales = {} if scale is None else {name: scale for name in names if name not in own}
    for pattern in training.finetune_freeze:
        if not (frozen := fnmatch.filter(names, pattern)):
            raise UsageError(f"--finetune-freeze {pattern}: fits no parameter, such as {names[0]} or {names[-1]}")
        scales |= dict.fromkeys(frozen, 0.0)
    if all(scales.get(name, 1.0) == 0 for name in names):
        raise UsageError(f"--finetune-freeze {' '.join(training.finetune_freeze)}: nothing would learn")
    return scales


def check_task(checkpoint: Checkpoint, task: Task, training: TrainingConfig) -> None:
    """Refuse a checkpoint in which token ids have another meaning.

    Raises:
        UserError: the task, the vocabulary or a language differs.
    """
    if checkpoint.header["task"] != training.task:
        raise UserError(
            f"--finetune-from-model {checkpoint.path}: was trained for the task '{checkpoint.header['task']}', the "
            f"data is for '{training.task}'"
        )
    ours, theirs = task.state(), TaskState(checkpoint.header["task_state"], checkpoint.task_tensors)
    theirs = _between_languages_of(task, theirs)
    meaning = (ours.json.keys() | theirs.json.keys()) - {"levels"}  # document structure changes no id
    names = [n for n in meaning if ours.json.get(n) != theirs.json.get(n)]
    names += [n for n in ours.tensors.keys() | theirs.tensors.keys() if not _same(ours.tensors, theirs.tensors, n)]
    if names:
        raise UserError(
            f"--finetune-from-model {checkpoint.path}: its {', '.join(sorted(names)).replace('_', ' ')} are not those "
            f"of the data; preprocess the data with --srcdict {checkpoint.path}"
        )


def _between_languages_of(task: object, theirs: TaskState) -> TaskState:
    """Return the state of a checkpoint's task set to the languages of `task`, if its model knows several."""
    if isinstance(task, DocumentTranslation):
        with suppress(UsageError):
            return task.restore(task.config, theirs).between(*task.languages).state()
    return theirs


def _same(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], name: str) -> bool:
    return name in ours and name in theirs and torch.equal(ours[name], theirs[name])


def tensors_that_differ(own: Mapping[str, Tensor], theirs: Mapping[str, Tensor], new_parts: set[str]) -> list[str]:
    """Describe every tensor without a counterpart, except `new_parts`, or of another shape or type."""
    found = []
    for name in sorted(own.keys() | theirs.keys()):
        if name not in own:
            found.append(f"'{name}' {tuple(theirs[name].shape)} is not part of the new model")
        elif name not in theirs and name not in new_parts:
            found.append(f"'{name}' {tuple(own[name].shape)} is missing there")
        elif name in theirs and (own[name].shape != theirs[name].shape or own[name].dtype != theirs[name].dtype):
            found.append(
                f"'{name}' is {theirs[name].dtype} {tuple(theirs[name].shape)} there and {own[name].dtype} "
                f"{tuple(own[name].shape)} here"
            )
    return found
