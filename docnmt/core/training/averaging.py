"""Averaging of checkpoints: one model whose weights are the mean of several checkpoints of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from docnmt.core.training.checkpoint import Checkpoint, load_checkpoint, not_finite, save_checkpoint
from docnmt.core.training.run_folder import RunFolder
from docnmt.registry.options import flag
from docnmt.runtime.errors import UserError


def last_checkpoints(save_dir: Path, count: int) -> list[Path]:
    """Return the `count` newest checkpoints that `--keep-last` kept in a run's folder, oldest first.

    Raises:
        UserError: the folder has fewer.
    """
    if not save_dir.is_dir():
        raise UserError(f"--save-dir {save_dir}: no such folder")
    kept = list(RunFolder(save_dir).kept().values())
    if len(kept) < count:
        raise UserError(
            f"--save-dir {save_dir}: holds {len(kept)} numbered checkpoints, --last asks for {count}; "
            f"train with --keep-last {count}"
        )
    return kept[-count:]


def average_checkpoints(inputs: Sequence[Path], output: Path) -> None:
    """Write the mean of the inputs' weights, computed in float64; the header is the last input's, and lists them all.

    Non-floating tensors (counters) and the task's are the last input's. The result has no
    optimizer: it is for use, not for further training.

    Raises:
        UserError: an input is damaged, or is of another architecture, configuration or vocabulary than the first.
    """
    first = last = load_checkpoint(inputs[0], optimizer=False)
    sums: dict[str, Tensor] = {}
    averaged = []
    for path in inputs:
        last = load_checkpoint(path, optimizer=False)
        _check_alike(first, last)
        if problems := not_finite(last.group("model")):
            raise UserError(f"{path}: {problems[0]}; leave it out")
        averaged.append(f"{path.name} (update {last.header['progress'].get('update')})")
        for name, tensor in last.group("model").items():
            if tensor.is_floating_point():
                sums[name] = sums.get(name, torch.zeros_like(tensor, dtype=torch.float64)) + tensor
    model = {
        f"model.{name}": (sums[name] / len(inputs)).to(tensor.dtype) if name in sums else tensor
        for name, tensor in last.group("model").items()
    }
    save_checkpoint(output, {**last.header, "averaged": averaged, "scores": {}}, model | last.task_tensors)


def _check_alike(first: Checkpoint, other: Checkpoint) -> None:
    for what in ("arch", "model", "task", "fingerprint"):
        if first.header[what] != other.header[what]:
            raise UserError(
                f"{other.path}: its {what} is '{other.header[what]}', that of {first.path} is '{first.header[what]}'; "
                "only checkpoints of one architecture and one data folder can be averaged"
            )
    model, others = (each.header["config"].get("model", {}) for each in (first, other))
    for name in (model.keys() & others.keys()) - {name for name in model if name.endswith("dropout")}:
        if model[name] != others[name]:
            raise UserError(
                f"{other.path}: {flag(name)} is {others[name]}, in {first.path} it is {model[name]}; weights of "
                "different models have no mean"
            )
    if first.header["task_state"] != other.header["task_state"]:
        raise UserError(f"{other.path}: its vocabulary differs from that of {first.path}")
    shapes, others = ({name: t.shape for name, t in c.group("model").items()} for c in (first, other))
    different = sorted(name for name in shapes.keys() | others.keys() if shapes.get(name) != others.get(name))
    if different:
        raise UserError(f"{other.path}: tensor 'model.{different[0]}' is not as in {first.path}")
