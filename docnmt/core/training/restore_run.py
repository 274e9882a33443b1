"""Restoring of a run from its last checkpoint."""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

from docnmt.core.training.checkpoint import Checkpoint, load_optimizer
from docnmt.core.training.run import MeanWeights, Run, TrainingState
from docnmt.runtime import ranks
from docnmt.runtime.errors import UserError


def restore(run: Run, checkpoint: Checkpoint) -> None:
    """Restore optimizer and progress from the checkpoint."""
    run.state = TrainingState.from_json(checkpoint.header["progress"], where=str(checkpoint.path))
    run.scores, run.saved = checkpoint.header["scores"], run.state.update
    if run.state.update and not checkpoint.group("optimizer"):
        raise UserError(f"{checkpoint.path}: holds no optimizer state, so training cannot continue from it")
    run.started_with = int(checkpoint.header.get("ranks", 1)) if run.state.update else ranks.world()
    load_optimizer(run.optimizer, run.model, checkpoint)
    for parameter, held in run.optimizer.state.items():
        run.optimizer.state[parameter] = {key: part_of_rank(value, parameter) for key, value in held.items()}
    if run.mean is not None:
        load_means(run.mean, checkpoint)
    for name, now in (("threads", torch.get_num_threads()), ("device", run.device.type)):
        if checkpoint.header[name] != now:
            print(
                f"warning: {checkpoint.path} was trained with {name} {checkpoint.header[name]}, this process has "
                f"{now}: the run continues, but not bit for bit as without the interruption",
                file=sys.stderr,
            )


def load_means(mean: MeanWeights, checkpoint: Checkpoint) -> None:
    """Restore the mean weights from the checkpoint.

    Raises:
        UserError: a tensor is missing, or has another shape.
    """
    stored = checkpoint.group("ema")
    for name, own in mean.means.items():
        if name not in stored or stored[name].shape != own.shape:
            raise UserError(f"{checkpoint.path}: tensor 'ema.{name}' is missing or does not fit; it cannot continue")
    mean.load({name: part_of_rank(stored[name], own) for name, own in mean.means.items()})


def part_of_rank(tensor: Tensor, like: Tensor) -> Tensor:
    """Return this rank's part of a whole tensor, divided like `like` under `--shard`."""
    if type(like) in (Tensor, nn.Parameter):
        return tensor
    from docnmt.core.training.run import part_of

    return part_of(tensor, like)
