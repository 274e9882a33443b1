"""Loading of a trained model, ready to use, from a checkpoint alone."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast  # the header is JSON; registries hold parts of every kind

import torch
from torch import nn

from docnmt.core.models.config import PARTS, model_config
from docnmt.core.scoring.text_files import ModelRecord
from docnmt.core.tasks.task import Task, TaskState
from docnmt.core.training.checkpoint import Checkpoint, load_checkpoint, load_state
from docnmt.registry import builtin  # noqa: F401  (registers every component)
from docnmt.registry.migrate import gone
from docnmt.registry.options import C, flag, from_dict, to_dict
from docnmt.registry.registry import MERGES, MODELS, TASKS, Registry
from docnmt.registry.user_dir import imported
from docnmt.runtime.errors import UserError
from docnmt.runtime.files import find_checkpoint

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: Options that determine the number of layers, or their width; options of plug-ins are not known.
_LAYERS = ("encoder_layers", "decoder_layers", "conv_layers")
_WIDTHS = ("embed_dim", "ffn_dim", "hidden_dim", "output_dim", "classifier_dim")


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model in evaluation mode with its task, configuration, checkpoint header and record."""

    model: nn.Module
    task: Task
    model_config: DataclassInstance
    arch: str
    header: dict[str, Any]
    record: ModelRecord


def load_model(path: str | Path, *, device: torch.device | str = "cpu") -> LoadedModel:
    """Load the model of a checkpoint file, or the best one of a `--save-dir`.

    Raises:
        UserError: it does not exist, is damaged, or needs a plug-in that is not loaded; the message names file and
            tensor.
    """
    checkpoint = load_checkpoint(find_checkpoint(path), optimizer=False)
    task = restore_task(checkpoint)
    model, model_config = restore_model(checkpoint, task)
    arch, header = checkpoint.header["arch"], checkpoint.header
    return LoadedModel(model.to(device).eval(), task, model_config, arch, header, checkpoint.record())


def restore_task(checkpoint: Checkpoint) -> Task:
    """Restore the task of a checkpoint, without its data folder.

    Raises:
        UserError: the task is unknown, or its state in the checkpoint is damaged.
    """
    name: str = checkpoint.header["task"]
    _check_known(checkpoint, TASKS, name)
    config: object = stored_config(checkpoint, "task", TASKS.config(name))
    try:
        return TASKS.get(name).restore(config, TaskState(checkpoint.header["task_state"], checkpoint.task_tensors))
    except Exception as error:  # whatever a task, maybe a plug-in's, raises for a state that it did not write
        raise UserError(f"{checkpoint.path}: the task's state in it is damaged: {error!r}") from error


def restore_model(checkpoint: Checkpoint, task: Task) -> tuple[nn.Module, DataclassInstance]:
    """Return the model of a checkpoint with its weights, on the CPU, and its configuration."""
    name: str = checkpoint.header["model"]
    _check_known(checkpoint, MODELS, name)
    say_changed_plugins(checkpoint)
    config = stored_model_config(checkpoint)
    _check_believable(checkpoint, config)
    try:
        model = task.build_model(MODELS.get(name), config)
    except UserError:
        raise
    except Exception as error:  # whatever a model, maybe a plug-in's, raises for unexpected options
        raise UserError(f"{checkpoint.path}: no model can be built from its configuration: {error}") from error
    load_state(model, checkpoint.group("model"), checkpoint.path)
    return model, config


def _check_believable(checkpoint: Checkpoint, config: DataclassInstance) -> None:
    """Refuse options with more layers than the file has tensors, or with a width that no tensor has: building such a
    model would exhaust the machine's memory, or take hours, before its weights are found missing."""
    shapes = [tensor.shape for tensor in checkpoint.group("model").values() if tensor.numel()]
    widest = max((size for shape in shapes for size in shape), default=0)
    for name, value in to_dict(config).items():
        most = len(shapes) if name in _LAYERS else widest
        if name in _LAYERS + _WIDTHS and isinstance(value, int) and value > most:
            raise UserError(f"{checkpoint.path}: {flag(name)} is {value} in its header, and its tensors have {most}")


def stored_model_config(checkpoint: Checkpoint) -> DataclassInstance:
    """Return the configuration of a checkpoint's model.

    Raises:
        UserError: see `stored_config`; or a part of the model is from a plug-in that is not loaded.
    """
    values = checkpoint.header["config"].get("model", {})
    for option, registry in (*PARTS.items(), ("merge", MERGES)):
        if isinstance(part := values.get(option), str) and part != "none":
            _check_known(checkpoint, registry, part)
    kind = model_config(checkpoint.header["model"], values)
    return cast("DataclassInstance", stored_config(checkpoint, "model", kind))


def stored_config(checkpoint: Checkpoint, section: str, config: type[C]) -> C:
    """Return a section of a checkpoint's configuration as a `config`; options added since have their defaults.

    Raises:
        UsageError: it has options that this version does not know, or invalid values; the message names all.
    """
    stored = checkpoint.header["config"].get(section, {})
    where = f"{checkpoint.path}: configuration of the {section}"
    return from_dict(config, stored, where=where, explain=gone)


def _check_known(checkpoint: Checkpoint, registry: Registry[Any], name: str) -> None:
    if name not in registry:
        raise UserError(
            f"{checkpoint.path}: was made with the {registry.kind} '{name}', which is not built in; "
            "give the --user-dir of the plug-in that has it (docnmt.import_plugins in Python)"
        )


def say_changed_plugins(checkpoint: Checkpoint) -> None:
    """Warn if a plug-in has changed since it made the checkpoint."""
    now = imported()
    stored = checkpoint.header.get("plugins") or {}
    if changed := [name for name, content in stored.items() if now.get(name, content) != content]:
        print(
            f"warning: {checkpoint.path}: was made by another state of {', '.join(changed)}; the results may be others",
            file=sys.stderr,
        )
