"""A probe for memory: the largest planned batches go through forward and backward before the first update, so that an
out-of-memory error comes first, with the batch's shape and a limit that fits."""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from docnmt.core.tasks.task import Dataset
from docnmt.core.training.run import Run
from docnmt.runtime.errors import UserError
from docnmt.runtime.progress import waiting


@dataclass(frozen=True)
class Probe:
    """The largest planned batch and the peak memory of the process (or of the GPU) after it, in bytes."""

    tokens: int
    units: int
    peak_memory: int


def peak_memory(device: torch.device) -> int:
    """Return the most bytes this process has allocated on the GPU so far, or its largest resident size on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an error says that the GPU or the machine has no memory left."""
    return isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)) or "can't allocate memory" in str(error)


@contextlib.contextmanager
def naming_batch(when: str, data: Dataset, units: np.ndarray) -> Iterator[None]:
    """Turn running out of memory inside the context into a `UserError` that says when, and with which batch."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
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


def probe(run: Run, data: Dataset, plan: list[np.ndarray]) -> Probe:
    """Run the largest batches once, with memory reserved for the optimizer's moments; the model does not change.

    Raises:
        UserError: out of memory; the message names the batch and a `--max-tokens` that was tried and fits.
    """
    largest = largest_batches(data.sizes, plan)
    moments = 0 if run.optimizer.state else 2
    try:
        trained = [parameter for parameter in run.model.parameters() if parameter.requires_grad]
        reserved = [torch.empty_like(parameter) for parameter in trained for _ in range(moments)]
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(f"the optimizer does not fit into the memory of {run.device}; a smaller --arch does") from error
    buffers = [(buffer, buffer.clone()) for buffer in run.model.buffers()]
    run.model.train()
    try:
        with waiting(f"measuring the memory of the largest batch, {int(data.sizes[largest[0]].sum()):,} tokens"):
            too_large = next((units for units in largest if not _fits(run, data, units)), None)
        if too_large is not None:
            raise UserError(_advice(run, data, too_large))
    finally:
        del reserved
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
    return Probe(int(data.sizes[largest[0]].sum()), len(largest[0]), peak_memory(run.device))


def _fits(run: Run, data: Dataset, units: np.ndarray) -> bool:
    try:
        torch.autograd.backward(run.loss(data, units)[0])
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
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
