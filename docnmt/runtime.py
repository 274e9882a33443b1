"""How this process computes on a CPU: which library multiplies, what freed memory does, how many threads work.

Everything is decided by checks that give the same answer on the same machine, never by timing, so that two runs of one
command compute the same bits.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from docnmt.errors import UsageError, UserError

#: Relative error of a float32 product over 1,024 terms: honest float32 stays below 5e-7, bfloat16 and TF32 err by 2e-4
#: and more.
FLOAT32_ERROR = 2e-6
#: Below these, libraries take other kernels for small products (see `row_invariant`).
INVARIANT_ROWS, INVARIANT_KEYS = 4, 16
#: glibc's <malloc.h>
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


@dataclass(frozen=True)
class Runtime:
    """What `tune` decided; `str()` says it on one line.

    Attributes:
        matmul: "oneDNN" or "default": which library multiplies float32 matrices; "as set before" where that was not
            the default and tuning is off.
        matmul_error: relative error of its product against float64; nan where it was not checked.
        allocator: "keep" (freed memory stays with the process, no page faults on large temporaries), "default"; "as it
            was" where tuning is off.
        threads: CPU threads that one operation may use.
    """

    matmul: str
    matmul_error: float
    allocator: str
    threads: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        error = "" if math.isnan(self.matmul_error) else f" (error {self.matmul_error:.1e} against float64)"
        parts = [
            f"float32 products: {self.matmul}{error}",
            f"freed memory: {'kept' if self.allocator == 'keep' else self.allocator}",
            f"threads: {self.threads}",
            *self.notes,
        ]
        return f"CPU runtime: {'; '.join(parts)}"


def tune(enabled: bool | None = None, *, new_shapes: bool = False) -> Runtime:
    """Set how this process computes on a CPU and return what was decided; a later call decides again.

    `DOCNMT_TUNE=off` in the environment, or `enabled=False`, leaves everything as it was. The number of threads is the
    user's (`OMP_NUM_THREADS`, `MKL_NUM_THREADS`) or else the processors this process may use, a container's limit
    included.

    Args:
        new_shapes: most products will have shapes that none had before, as in training, where every batch is another.

    Raises:
        UserError: `DOCNMT_TUNE` is neither `on` nor `off`.
    """
    wish = os.environ.get("DOCNMT_TUNE", "on")
    if wish not in ("on", "off"):
        raise UserError(f"DOCNMT_TUNE={wish}: expected on or off")
    if not (enabled if enabled is not None else wish == "on"):
        matmul = "default" if torch.get_float32_matmul_precision() == "highest" else "as set before"
        return Runtime(matmul, math.nan, "as it was", torch.get_num_threads(), ("tuning is off",))
    matmul, error, notes = _choose_matmul(new_shapes)
    allocator = "keep" if _keep_freed_memory() else "default"
    if not {"OMP_NUM_THREADS", "MKL_NUM_THREADS"} & set(os.environ):
        torch.set_num_threads(min(torch.get_num_threads(), _processors()))
    return Runtime(matmul, error, allocator, torch.get_num_threads(), notes)


def _choose_matmul(new_shapes: bool) -> tuple[str, float, tuple[str, ...]]:
    """torch's "medium" precision sends float32 products to oneDNN: on AMD faster than MKL, and it gives a row the same
    bits in every batch (`row_invariant`). It prepares each new shape for 0.3 to 0.9 ms, though, more than it gains
    where shapes do not come again. On processors with bfloat16 tiles it also rounds, hence the check; with a GPU it
    would allow TF32 there, so it is left alone."""
    if torch.cuda.is_available():
        return "default", math.nan, ("a GPU is present, precision left alone",)
    torch.set_float32_matmul_precision("highest")
    if new_shapes:
        return "default", _product_error(), ()
    torch.set_float32_matmul_precision("medium")
    error = _product_error()
    if error <= FLOAT32_ERROR:
        return "oneDNN", error, ()
    torch.set_float32_matmul_precision("highest")
    return "default", _product_error(), (f"oneDNN refused, its error is {error:.1e}",)


def _product_error() -> float:
    """Relative error against float64 of a float32 product, the larger of a matrix's and a batch's."""
    random = torch.Generator().manual_seed(0)  # the global stream belongs to the caller
    errors = []
    for left, right in (((256, 1024), (1024, 256)), ((8, 64, 1024), (8, 1024, 64))):
        a, b = (torch.randn(shape, generator=random) for shape in (left, right))
        exact = a.double() @ b.double()
        errors.append(float(((a @ b) - exact).norm() / exact.norm()))
    return max(errors)


def _keep_freed_memory() -> bool:
    """Tell glibc's malloc to keep freed memory: a large temporary then costs no page faults the second time."""
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    # no mmap for large blocks, and no return of the heap's top to the system
    return bool(library.mallopt(_M_MMAP_MAX, 0) and library.mallopt(_M_TRIM_THRESHOLD, ctypes.c_int(2**31 - 1)))


def _processors() -> int:
    """Processors that this process may use: its affinity, and its control group's share of time."""
    affine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = Path("/sys/fs/cgroup/cpu.max")  # "max 100000" or "200000 100000": microseconds a period
    if not limit.is_file():
        return affine
    quota, period = limit.read_text().split()
    return affine if quota == "max" else min(affine, max(1, int(quota) // int(period)))


def row_invariant() -> bool:
    """Whether inference in float32 gives a row the same bits whatever stands beside it, checked on this machine.

    True when a linear layer and `bmm + softmax + bmm` attention of one query a row do so for any number of rows from
    `INVARIANT_ROWS` on, and for keys padded (with −∞ in the scores) to any multiple of `INVARIANT_KEYS`. A search that
    keeps to both then translates a sentence alike in every batch.
    """
    return _row_invariant(torch.get_float32_matmul_precision(), torch.get_num_threads())


@lru_cache
def _row_invariant(precision: str, threads: int) -> bool:
    """Once for each setting that changes the answer."""
    random = torch.Generator().manual_seed(0)
    counts = [INVARIANT_ROWS + n for n in (0, 1, 2, 3, 4, 12, 29, 60)]
    for width_in, width_out in ((128, 512), (512, 512), (512, 2048), (2048, 512)):
        weight = torch.randn(width_out, width_in, generator=random)
        x = torch.randn(80, width_in, generator=random)
        whole = F.linear(x, weight)
        if not all(torch.equal(F.linear(x[5 : 5 + n], weight), whole[5 : 5 + n]) for n in counts):
            return False
    for heads, width in ((4, 32), (8, 64)):
        q = torch.randn(80, heads, 1, width, generator=random)
        k = torch.randn(80, heads, 16 * INVARIANT_KEYS, width, generator=random)
        for real in (3, 40, 100):
            padded = -(-real // INVARIANT_KEYS) * INVARIANT_KEYS
            whole = _attend(q, k[:, :, :padded], real)
            shapes = [(n, padded) for n in counts] + [(n, k.shape[2]) for n in counts[::3]]
            if not all(
                torch.equal(_attend(q[5 : 5 + n], k[5 : 5 + n, :, :keys], real), whole[5 : 5 + n]) for n, keys in shapes
            ):
                return False
    return True


def _attend(q: Tensor, k: Tensor, real: int) -> Tensor:
    """One query a row over its first `real` keys."""
    hidden = torch.arange(k.shape[2]) >= real
    scores = torch.matmul(q, k.mT).masked_fill_(hidden, float("-inf"))
    return torch.matmul(scores.softmax(-1), k)


def pick_device(name: str) -> torch.device:
    """The device of `--device`.

    Raises:
        UsageError: no such device here.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        if reason.startswith("Expected one of"):  # every device that PyTorch has ever known
            reason = "expected cpu, cuda, cuda:1 …"
        raise UsageError(f"--device {name}: cannot be used here: {reason}") from error
    return device
