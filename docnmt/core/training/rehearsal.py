"""A rehearsal: a few updates, as training would make them, to estimate a run's memory and time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from docnmt.core.tasks.task import Dataset
from docnmt.core.training.probe import largest_batches, peak_memory
from docnmt.core.training.run import Run
from docnmt.runtime.progress import Progress, how_many, waiting

#: The additional memory of a process after many updates: freed memory between blocks still in use, too small for
#: the next batch. 0 to 10 % were measured (docs/results/scale.md).
FRAGMENTATION = 0.05
#: Number of batches tried. On a CPU oneDNN caches preparations for each new shape of bfloat16 products, up to a
#: limit (`docnmt.runtime.tuning.PREPARED_OF_NEW`), so that memory grows over some dozen updates.
_TRIED, _TRIED_IN_BFLOAT16 = 6, 24


@dataclass(frozen=True)
class Rehearsal:
    """The expected memory and time of a training.

    Attributes:
        measured: bytes, the most so far. predicted: bytes in a whole training. seconds: per epoch, without validation.
    """

    measured: int
    predicted: int
    seconds: float


def rehearse(run: Run, data: Dataset, plan: list[np.ndarray]) -> Rehearsal:
    """Train on a few batches of all sizes and on the largest; validate on the largest. To write a file copies nothing.

    The model is changed: use this only for a run that never begins. Memory must suffice (`probe`).
    """
    tokens = np.array([int(data.sizes[units].sum()) for units in plan])
    tried = _TRIED_IN_BFLOAT16 if run.training.bf16 and run.device.type == "cpu" else _TRIED
    some = [plan[i] for i in tokens.argsort()[np.linspace(0, len(plan) - 1, min(tried, len(plan))).astype(int)]]
    sizes = [int(data.sizes[units].sum()) for units in some]
    run.model.train()
    begun = time.perf_counter()
    with Progress(sum(sizes), f"trying {how_many(len(some), 'update')}", unit="tok") as bar:
        for units, size in zip(some, sizes, strict=True):
            _update(run, data, [units])
            bar.update(size)
    if run.device.type == "cuda":
        torch.cuda.synchronize(run.device)
    taken = time.perf_counter() - begun
    seconds = float(taken * tokens.sum() / sum(sizes))
    with waiting("measuring the memory of the largest updates"):
        for units in largest_batches(data.sizes, plan):
            _update(run, data, [units] * min(run.training.update_freq, 2))  # the second adds to the first's gradient
        if not run.training.disable_validation:
            _validate(run)
    measured = peak_memory(run.device)
    grows = run.device.type != "cuda"  # on a GPU, only the memory of tensors is counted
    return Rehearsal(measured, round(measured * (1 + FRAGMENTATION * grows)), seconds)


def _update(run: Run, data: Dataset, batches: Sequence[np.ndarray]) -> None:
    for units in batches:
        torch.autograd.backward(run.loss(data, units)[0])
    run.optimizer.step()
    run.optimizer.zero_grad(set_to_none=True)


@torch.no_grad()
def _validate(run: Run) -> None:
    data = run.task.dataset("valid", run.model, seed=run.training.seed)
    plan = run.plan(data, shuffle=False)
    run.model.eval()
    for units in largest_batches(data.sizes, plan) if plan else ():
        run.loss(data, units)
    run.model.train()
