"""One update: its batches shared among the ranks, gradients summed, clipped, and a step of AdamW.

`gradient`: of each batch of mine: seed → `Run.loss` → backward; sum over ranks → norm; then `change_weights`.
Every batch has its own random numbers and starts from the same buffers, so that it does not matter which rank computes
it: N ranks with `--update-freq` K train what one process trains with N · K.
"""

from __future__ import annotations

import contextlib
import math
import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from docnmt.core.task import Dataset
from docnmt.core.training.run import Run, seed_everything
from docnmt.modules.document_context import tell_update
from docnmt.runtime import jobs as ranks
from docnmt.runtime.device import to_host
from docnmt.runtime.progress import waiting
from docnmt.runtime.system import UserError

#: The sums of a batch, which may still be on the device.
_Sums: TypeAlias = "Mapping[str, float | Tensor]"


class _Report(NamedTuple):
    """What a rank tells the others of an update."""

    logs: list[tuple[int, _Sums]]  # the sums of its batches, by their number in the update
    lacking: list[int] | None  # its parameters without a gradient; None: it had no batch, or is alone
    seconds: float
    signal: str  # the name of one that has arrived, or an empty string
    overdue: bool  # is its checkpoint too old?


@dataclass(frozen=True)
class Update:
    """The results of an update, the same in all ranks."""

    sums: dict[str, float]  # of all batches, to log
    norm: float  # of the gradient, divided by the sample size and not yet clipped
    stopped: str  # the name of a signal that has arrived at a rank, or an empty string
    overdue: bool  # is the last checkpoint too old by the first rank's clock? Other clocks differ


def take_step(
    run: Run, data: Dataset, batches: Sequence[np.ndarray], signal: str = "", following: np.ndarray | None = None
) -> Update:
    """Update the weights, and their running mean, by the gradient of some batches (see `gradient`)."""
    tell_update(run.model, run.state.update)
    update = gradient(run, data, batches, signal, following)
    _check_finite(run, "the gradient's norm", update.norm, data, np.concatenate(batches))
    change_weights(run, update.sums["size"], update.norm)
    if run.mean is not None:
        run.mean.advance(run.state.update + 1)
    return update


def gradient(
    run: Run, data: Dataset, batches: Sequence[np.ndarray], signal: str, following: np.ndarray | None = None
) -> Update:
    """Sum the gradients of the summed losses of all batches, over all ranks; each computes its share.

    A single process reads the losses together with the gradient's norm, so that it waits for a GPU only once. A loss
    that is not a number, or full memory, is an error that names the batch. `signal` is the name of one that has arrived
    at this rank, or empty; `following` the batch after these, which the host collates while a card computes."""
    world = ranks.world()
    shares = ranks.deal([int(data.sizes[units].sum()) for units in batches], world)
    mine = shares[ranks.rank()]
    # every batch sees the buffers as they were before the update; then means are means, and counters count all batches
    buffers = run.counters if len(batches) > 1 or world > 1 else []
    before = [buffer.clone() for buffer in buffers]
    after = [torch.zeros_like(buffer, dtype=torch.float64) for buffer in buffers]  # the sum over all batches

    def _compute() -> _Report:
        started = time.perf_counter()
        logs: list[tuple[int, _Sums]] = []
        for number in mine:
            for buffer, value in zip(buffers, before, strict=True):
                buffer.copy_(value)
            seed_everything(run.training.seed, run.state.update + 1, number)
            logs.append((number, _forward_backward(run, data, batches[number])))
            for total, buffer in zip(after, buffers, strict=True):
                total += buffer
        if run.sharded is not None:  # all ranks gather the layers equally often
            for _ in range(max(map(len, shares)) - len(mine)):
                torch.autograd.backward(0 * run.loss(data, batches[0])[0])
        lacking = None
        if world > 1 and mine:
            logs = list(zip(mine, _read_sums(run, data, batches, logs)[0], strict=True))
            lacking = [n for n, parameter in enumerate(run.model.parameters()) if parameter.grad is None]
        return _Report(logs, lacking, time.perf_counter() - started, signal, run.overdue)

    reports = ranks.share(_compute, alone=run.sharded is None)
    if run.sharded is not None:
        _sum_gradients(run.sharded.undivided)  # scalars, which FSDP2 does not divide
    elif world > 1:  # parameters without a gradient in all ranks with batches have none
        without = set.intersection(*(set(report.lacking) for report in reports if report.lacking is not None))
        _sum_gradients([parameter for n, parameter in enumerate(run.model.parameters()) if n not in without])
    ranks.sum_over_ranks(after)
    for buffer, value, total in zip(buffers, before, after, strict=True):
        floating = buffer.dtype.is_floating_point
        buffer.copy_(total / len(batches) if floating else total - (len(batches) - 1) * value)
    stopped = next((report.signal for report in reports if report.signal), "")
    logs = sorted((log for report in reports for log in report.logs), key=itemgetter(0))  # as of one process
    if run.sharded is not None:
        launched = run.sharded.gradient_norm()
    else:
        launched = get_total_norm(_gradients(run)) if run.graphs is None else run.graphs.norm
    if following is not None and world == 1 and run.device.type == "cuda":  # elsewhere nothing waits
        with naming_batch(f"update {run.state.update + 2}", data, following):
            run.prepare(data, following)
    sums_of_batches, norm = _read_sums(run, data, batches, logs, launched)
    sums: dict[str, float] = {}
    for sums_of_batch in sums_of_batches:
        for name, number in sums_of_batch.items():
            sums[name] = sums.get(name, 0.0) + number
    if world > 1:
        busy = [report.seconds for report in reports]
        sums |= {"busy": sum(busy) / len(busy), "slowest": max(busy)}
    return Update(sums, norm / max(sums["size"], 1), stopped, reports[0].overdue)


def _forward_backward(run: Run, data: Dataset, units: np.ndarray) -> _Sums:
    """Add the gradient of a batch's summed loss; return the sums to log."""
    with naming_batch(f"update {run.state.update + 1}", data, units):
        if run.graphs is not None and (sums := run.graphs.forward_backward(run.batch(data, units))) is not None:
            return sums
        loss, logs = run.loss(data, units)
        torch.autograd.backward(loss)
    return {"loss": loss.detach(), **logs}


def _read_sums(
    run: Run, data: Dataset, batches: Sequence[np.ndarray], logs: Sequence[tuple[int, _Sums]],
    norm: float | Tensor = 0.0,
) -> tuple[list[dict[str, float]], float]:  # fmt: skip
    """Read the sums of each batch and the gradient's norm as numbers, all at once."""
    values: list[float | Tensor] = [norm]
    for _, sums in logs:
        values += sums.values()
    numbers = iter(to_host(values))
    norm = next(numbers)
    read: list[dict[str, float]] = []
    for number, sums in logs:
        read.append(dict(zip(sums, numbers, strict=False)))  # the next as many
        _check_finite(run, "the loss", read[-1]["loss"], data, batches[number])
    return read, norm


def _sum_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Sum each gradient over the ranks; a missing one counts as zeros."""
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    ranks.sum_over_ranks([parameter.grad for parameter in parameters if parameter.grad is not None])


def _gradients(run: Run) -> list[Tensor]:
    return [parameter.grad for parameter in run.model.parameters() if parameter.grad is not None]


def change_weights(run: Run, size: float, norm: float) -> None:
    """Divide the summed gradient by the sample size, clip it and make a step; `norm` is that of the quotient."""
    clip = run.optimization.clip_norm
    factor = (clip / norm if clip and norm > clip else 1.0) / max(size, 1)
    if run.graphs is not None and run.graphs.step(factor):
        return
    if run.sharded is None:
        torch._foreach_mul_(_gradients(run), factor)
    else:
        for gradient in _gradients(run):  # they are of two kinds, which one call cannot mix
            gradient.mul_(factor)
    run.optimizer.step()
    run.optimizer.zero_grad(set_to_none=True)


def _check_finite(run: Run, what: str, value: float, data: Dataset, units: np.ndarray) -> None:
    """Refuse a number that is not finite before the weights are changed, and name the batch."""
    if not math.isfinite(value):
        raise UserError(
            f"update {run.state.update + 1} (epoch {run.state.epoch}): {what} is {value} on {data.describe(units)}; "
            f"{run.what_is_saved}; look at that text, or use a lower --lr or more --warmup-updates"
        )


# Memory: the largest batches go through both passes before the first update, so that an error comes at once.


def peak_memory(device: torch.device) -> int:
    """Return the most bytes this process has allocated on the GPU so far, or its largest resident size on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)) or "can't allocate memory" in str(error)


@contextlib.contextmanager
def naming_batch(when: str, data: Dataset, units: np.ndarray) -> Iterator[None]:
    """Turn running out of memory inside the context into a `UserError` that says when, and with which batch."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        raise UserError(
            f"{when}: out of memory with {int(data.sizes[units].sum()):,} tokens in {len(units)} units, "
            f"{data.describe(units)}; continue with a smaller --max-tokens in a new --save-dir"
        ) from error


def largest_batches(sizes: np.ndarray, plan: list[np.ndarray]) -> list[np.ndarray]:
    """Return the batch with the most tokens and the one with the largest unit, which may be the same."""
    begins = np.cumsum([0, *(len(units) for units in plan[:-1])])
    ordered = sizes[np.concatenate(plan)]
    most, longest = np.add.reduceat(ordered, begins).argmax(), np.maximum.reduceat(ordered, begins).argmax()
    return [plan[i] for i in dict.fromkeys((int(most), int(longest)))]


def probe(run: Run, data: Dataset, plan: list[np.ndarray]) -> None:
    """Run the largest batches once, with memory reserved for the optimizer's moments; the model does not change. Out of
    memory, the message names the batch and a `--max-tokens` that was tried and fits."""
    largest = largest_batches(data.sizes, plan)
    moments = 0 if run.optimizer.state else 2
    try:
        trained = [parameter for parameter in run.model.parameters() if parameter.requires_grad]
        reserved = [torch.empty_like(parameter) for parameter in trained for _ in range(moments)]
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        raise UserError(f"the optimizer does not fit into the memory of {run.device}; a smaller --arch does") from error
    before = [(buffer, buffer.clone()) for buffer in run.model.buffers()]
    run.model.train()
    try:
        with waiting(f"measuring the memory of the largest batch, {int(data.sizes[largest[0]].sum()):,} tokens"):
            too_large = next((units for units in largest if not _fits(run, data, units)), None)
        if too_large is not None:
            raise UserError(_advice(run, data, too_large))
    finally:
        del reserved
        with torch.no_grad():
            for buffer, content in before:
                buffer.copy_(content)


def _fits(run: Run, data: Dataset, units: np.ndarray) -> bool:
    try:
        torch.autograd.backward(run.loss(data, units)[0])
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        return False
    finally:
        run.model.zero_grad(set_to_none=True)
    return True


def _advice(run: Run, data: Dataset, units: np.ndarray) -> str:
    tokens = int(data.sizes[units].sum())
    text = f"{tokens:,} tokens in {len(units)} units do not fit into the memory of {run.device}: {data.describe(units)}"
    if run.sharded is not None:  # a pass needs all ranks, and the others go on with their own
        return f"{text}; give a smaller --max-tokens"
    while len(units) > 1:
        units = units[: len(units) // 2]
        if run.device.type == "cuda":
            torch.cuda.empty_cache()
        if _fits(run, data, units):
            fitting = int(data.sizes[units].sum())
            return f"{text}; --max-tokens {fitting} fits, and a larger --update-freq makes up for it"
    return f"{text}; even one unit is too large: --max-doc-tokens, --checkpoint-activations, --bf16 or a smaller --arch"
