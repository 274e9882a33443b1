"""How this process computes: matmul precision, threads, copies to a device, CUDA graphs."""

from __future__ import annotations

import ctypes
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from docnmt.runtime.launch import job_process, processors
from docnmt.runtime.system import UsageError, UserError

# CUDA graphs: calls that are recorded once and launched together, again and again, over the same memory.


class Uncapturable(RuntimeError):
    """Something that a CUDA graph cannot contain, as a decision of the host by numbers that change; it says what."""


class CudaRecorder:
    """Records CUDA graphs, which share the memory of what they compute on the way: only one may run at a time."""

    def __init__(self, device: torch.device) -> None:
        self.stream, self.pool = torch.cuda.Stream(device), torch.cuda.graph_pool_handle()
        # PyTorch records nothing into a pool that all graphs have left while something in it is still alive: this stays
        self._anchor = torch.cuda.CUDAGraph()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an empty graph
            with torch.cuda.graph(self._anchor, pool=self.pool, stream=self.stream):
                pass

    def run(self, body: Callable[[], None]) -> None:
        """Call the function on the stream that records; what `record` needs (compiled kernels) then exists."""
        current = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            body()
        current.wait_stream(self.stream)

    def record(self, body: Callable[[], None]) -> Callable[[], None]:
        """Return the replay of what the function launches, over the same memory; nothing is computed yet."""
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                body()
        except BaseException:
            with suppress(RuntimeError):  # PyTorch's generator would wait for the end of the recording for ever
                generator = torch.cuda.default_generators[self.stream.device.index]
                generator.graphsafe_set_state(generator.clone_state())
            raise
        return graph.replay


def power_of_two(number: int, least: int = 1) -> int:
    """The smallest power of two that is no less, and at least `least`: with few sizes, few shapes are recorded."""
    return max(least, 1 << max(0, number - 1).bit_length())


class Repeated:
    """A function that is called again and again over the same memory: the first time as it is, then as a graph. It
    launches the same at each call; what differs stands in memory."""

    def __init__(self, recorder: CudaRecorder, body: Callable[[], None]) -> None:
        self._recorder, self._body, self._called = recorder, body, False
        self._replay: Callable[[], None] | None = None

    def __call__(self) -> None:
        """Compute it; `Uncapturable` says that it cannot be recorded, and that nothing was computed."""
        if not self._called:
            self._recorder.run(self._body)
            self._called = True
            return
        if self._replay is None:
            try:
                self._replay = self._recorder.record(self._body)
            except Uncapturable:
                raise
            except RuntimeError as error:
                raise Uncapturable(f"recording failed: {str(error).splitlines()[0]}") from error
        self._replay()


#: Random numbers below 2^31 that wait on the device, for what is captured.
_seeds: Iterator[Tensor] | None = None


def next_seed() -> int | Tensor:
    """A number below 2^31 from the host's generator; inside `seeds_from` the next of those, a tensor ()."""
    return int(torch.randint(1 << 31, ())) if _seeds is None else next(_seeds)


def happens(probability: float) -> bool | Tensor:
    """Whether something happens, from the host's generator; inside `seeds_from` from the next of those: () bool."""
    return torch.rand(()).item() < probability if _seeds is None else next(_seeds) < probability * (1 << 31)


@contextmanager
def seeds_from(seeds: Tensor) -> Iterator[None]:
    """Inside, the host's draws are these of the device (N,), in order: each replay of a graph reads new ones."""
    global _seeds
    _seeds = iter(seeds.unbind())
    try:
        yield
    finally:
        _seeds = None


def graphs_wished() -> bool | None:
    """Return whether the environment's DOCNMT_GRAPHS is on or off; None if it says nothing: where they can be."""
    wish = os.environ.get("DOCNMT_GRAPHS")
    if wish not in ("on", "off", None):
        raise UserError(f"DOCNMT_GRAPHS={wish}: expected on or off")
    return None if wish is None else wish == "on"


# Transfer between the host and a device, with few waits: many arrays or many numbers in one copy.


#: Alignment in bytes of each array in a joint copy; no type needs more.
_ALIGNED = 16
#: Devices that cannot copy from pinned memory asynchronously.
_WITHOUT_PINNED = ("cpu", "mps", "meta")


def to_device(arrays: Sequence[Tensor | np.ndarray], device: torch.device | str) -> list[Tensor]:
    """Return tensors on a device for arrays of the host; to a GPU all go in one asynchronous copy from pinned memory.
    Arrays that are already on a device are moved by torch."""
    device = torch.device(device)
    tensors = [x if isinstance(x, Tensor) else torch.from_numpy(np.ascontiguousarray(x)) for x in arrays]
    if device.type in _WITHOUT_PINNED or any(x.device.type != "cpu" for x in tensors):
        return [x.to(device) for x in tensors]
    # torch keeps the pinned memory from being used again until the copy is done
    return _parts(_staged(tensors).to(device, non_blocking=True), tensors)


class Inbox:
    """Memory of a device that receives arrays of the shapes and types of `like` again and again, in one copy each time:
    `parts` has a tensor on the device for each, always in the same memory."""

    def __init__(self, like: Sequence[Tensor], device: torch.device | str) -> None:
        self._held = torch.empty(len(_staged(like)), dtype=torch.uint8, device=device)
        self.parts = _parts(self._held, like)

    def send(self, tensors: Sequence[Tensor]) -> None:
        """Write tensors of the host to the device, without waiting for it."""
        self._held.copy_(_staged(tensors), non_blocking=True)


def _staged(tensors: Sequence[Tensor]) -> Tensor:
    """All tensors one after the other in pinned memory, as bytes."""
    lengths = (-(-x.numel() * x.element_size() // _ALIGNED) * _ALIGNED for x in tensors)
    staged = torch.empty(sum(lengths), dtype=torch.uint8, pin_memory=True)
    for part, x in zip(_parts(staged, tensors), tensors, strict=True):
        part.copy_(x)
    return staged


def _parts(row: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The bytes of `_staged` as tensors with these shapes and types."""
    sizes = [x.numel() * x.element_size() for x in like]
    begins = np.cumsum([0, *(-(-size // _ALIGNED) * _ALIGNED for size in sizes)]).tolist()
    parts = zip(like, begins, sizes, strict=False)
    return [row[begin : begin + size].view(x.dtype).view(x.shape) for x, begin, size in parts]


def to_host(values: Sequence[float | Tensor]) -> list[float]:
    """Return all values as numbers; those on a device are read together."""
    waiting = [x for x in values if isinstance(x, Tensor) and x.device.type != "cpu"]
    read = iter(torch.stack([x.detach().double() for x in waiting]).tolist() if waiting else [])
    return [next(read) if isinstance(x, Tensor) and x.device.type != "cpu" else float(x) for x in values]


def to_lists(tensors: Sequence[Tensor]) -> list[list[Any]]:
    """Return tensors of one shape as lists of Python's numbers; those on a device are read in one copy."""
    if tensors[0].device.type == "cpu":
        return [x.tolist() for x in tensors]
    read = torch.stack([x.double() for x in tensors]).cpu()  # whole numbers below 2^53 and float32 are exact
    return [row.to(x.dtype).tolist() for row, x in zip(read, tensors, strict=True)]


# CPU settings of this process: the library for matrix products, the treatment of freed memory, the number of threads.
# Checks decide that give the same result on the same machine, never timing: two runs of a command have the same bits.


#: The tolerated relative error of a float32 product over 1,024 terms: float32 stays below 5e-7, bfloat16 and TF32 err
#: by 2e-4 and more.
FLOAT32_ERROR = 2e-6
#: For fewer rows or keys, libraries use other kernels for small products (see `row_invariant`).
INVARIANT_ROWS, INVARIANT_KEYS = 4, 16
#: True if `tune` chose oneDNN, which prepares each new shape. If False, no precision is changed.
_prepares = False
#: True if `tune` chose oneDNN for the linear layers of a training only.
_trains_linear = False
#: Number of shapes for which oneDNN, and torch's cache above it, keep preparations, instead of 1,024. On AMD each takes
#: up to 0.9 MB in float32 and 0.4 in bfloat16; a long-lived process needed more than a gigabyte.
PREPARED = 256
#: The same for oneDNN alone, if most shapes are new.
PREPARED_OF_NEW = 128
#: M_TRIM_THRESHOLD and M_MMAP_MAX of glibc's <malloc.h>.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


@dataclass(frozen=True)
class Runtime:
    """The decisions of `tune`; `str()` describes them on one line."""

    matmul: str  # the library for float32 products, "oneDNN" or "default"; untuned "as set before", if it was not that
    matmul_error: float  # of its product against float64, relative; nan if it was not checked
    allocator: str  # "keep": freed memory stays with the process; "default"; untuned "as it was"
    threads: int  # that one operation may use

    def __str__(self) -> str:
        error = "" if math.isnan(self.matmul_error) else f" (error {self.matmul_error:.1e} against float64)"
        memory = "kept" if self.allocator == "keep" else self.allocator
        off = "; tuning is off" if self.allocator == "as it was" else ""
        products = f"float32 products: {self.matmul}{error}"
        return f"CPU runtime: {products}; freed memory: {memory}; threads: {self.threads}{off}"


def tune(enabled: bool | None = None, *, new_shapes: bool = False) -> Runtime:
    """Configure how this process computes on a CPU and return the decisions; a later call decides again. `new_shapes`
    says that most products have new shapes, as in training, where every batch differs.

    `DOCNMT_TUNE=off` in the environment, or `enabled=False`, leaves everything unchanged. The number of threads is the
    user's (`OMP_NUM_THREADS`, `MKL_NUM_THREADS`) or else the number of available processors, a container's limit
    included.

    torch's "medium" precision sends float32 products to oneDNN: on AMD it is faster than MKL, and it gives a row the
    same bits in every batch (`row_invariant`). But it prepares each new shape for 0.3 to 0.9 ms, more than it gains if
    shapes do not recur and products are small, as in attention. So in training it computes linear layers only. On
    processors with bfloat16 tiles it also rounds, hence the check; with a GPU it would allow TF32 there, so it is left
    alone."""
    wish = os.environ.get("DOCNMT_TUNE", "on")
    if wish not in ("on", "off"):
        raise UserError(f"DOCNMT_TUNE={wish}: expected on or off")
    if not (enabled if enabled is not None else wish == "on"):
        matmul = "default" if torch.get_float32_matmul_precision() == "highest" else "as set before"
        return Runtime(matmul, math.nan, "as it was", torch.get_num_threads())
    global _prepares, _trains_linear
    # Effective only before a process's first product; the user's settings take precedence
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PREPARED_OF_NEW if new_shapes else PREPARED))
    if not new_shapes:
        os.environ.setdefault("LRU_CACHE_CAPACITY", str(PREPARED))
    exact, error = False, math.nan
    if not torch.cuda.is_available():
        torch.set_float32_matmul_precision("medium")
        error = _product_error()
        exact = error <= FLOAT32_ERROR
        if new_shapes or not exact:
            torch.set_float32_matmul_precision("highest")
            error = max(error, _product_error()) if exact else _product_error()
    _prepares, _trains_linear = exact and not new_shapes, exact and new_shapes
    allocator = "keep" if _keep_freed_memory() else "default"
    if not {"OMP_NUM_THREADS", "MKL_NUM_THREADS"} & set(os.environ):
        torch.set_num_threads(min(torch.get_num_threads(), processors()))
    return Runtime("oneDNN" if _prepares else "default", error, allocator, torch.get_num_threads())


def _product_error() -> float:
    """Return the relative error of a float32 product against float64, the larger of a matrix's and a batch's."""
    random = torch.Generator().manual_seed(0)  # the global stream belongs to the caller
    errors = []
    for left, right in (((256, 1024), (1024, 256)), ((8, 64, 1024), (8, 1024, 64))):
        a, b = (torch.randn(shape, generator=random) for shape in (left, right))
        exact = a.double() @ b.double()
        errors.append(float(((a @ b) - exact).norm() / exact.norm()))
    return max(errors)


def _keep_freed_memory() -> bool:
    """Tell glibc's malloc to keep freed memory; then a large temporary costs no page faults the second time."""
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    # no mmap for large blocks, and no return of the heap's top to the system
    return bool(library.mallopt(_M_MMAP_MAX, 0) and library.mallopt(_M_TRIM_THRESHOLD, ctypes.c_int(2**31 - 1)))


def new_shapes() -> AbstractContextManager[None]:
    """Send products of shapes that seldom recur to torch's default library, if `tune` chose oneDNN."""
    return products_by("highest", "medium") if _prepares else nullcontext()


def trains_linear() -> bool:
    """Return True if `tune` chose oneDNN for linear layers in training."""
    return _trains_linear


def linear_products() -> AbstractContextManager[None]:
    """Send a linear layer's products in training to oneDNN, if `tune` chose it for them."""
    return products_by("medium") if _trains_linear else nullcontext()


@contextmanager
def products_by(precision: str, afterwards: str | None = None) -> Iterator[None]:
    """Compute float32 products by torch's default library ("highest") or by oneDNN ("medium"), then by `afterwards`, by
    default what was set before. With several threads give it: another one may have set its own for a while."""
    before = torch.get_float32_matmul_precision() if afterwards is None else afterwards
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def row_invariant(layers: torch.dtype = torch.float32) -> bool:
    """Return True if float32 inference gives a row the same bits in every batch, as checked on this machine.

    This holds if a linear layer, of the type `layers`, and an encoder's `bmm + softmax + bmm` attention do so for any
    number of rows from `INVARIANT_ROWS` on, and for keys padded (with −∞ in the scores) to any multiple of
    `INVARIANT_KEYS`. A search that keeps to both then translates a sentence alike in every batch. A step's attention
    (`docnmt.functional.decoding`) computes each row by itself.
    """
    precision, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    return _linear_invariant(precision, threads, layers) and _attention_invariant(precision, threads)


_COUNTS = [INVARIANT_ROWS + n for n in (0, 1, 2, 3, 4, 12, 29, 60)]


@lru_cache
def _linear_invariant(precision: str, threads: int, dtype: torch.dtype) -> bool:
    """Check linear layers under the current settings; cached for each setting that changes the answer."""
    random = torch.Generator().manual_seed(0)
    for width_in, width_out in ((128, 512), (512, 512), (512, 2048), (2048, 512)):
        weight = torch.randn(width_out, width_in, generator=random).to(dtype)
        x = torch.randn(80, width_in, generator=random).to(dtype)
        whole = F.linear(x, weight)
        if not all(torch.equal(F.linear(x[5 : 5 + n], weight), whole[5 : 5 + n]) for n in _COUNTS):
            return False
    return True


@lru_cache
def _attention_invariant(precision: str, threads: int) -> bool:
    """Check attention with this precision; cached for each setting that changes the answer."""
    with products_by(precision):
        return all(_heads_invariant(*sizes) for sizes in ((4, 32), (8, 64)))


def _heads_invariant(heads: int, width: int) -> bool:
    random = torch.Generator().manual_seed(0)
    q = torch.randn(80, heads, 1, width, generator=random)
    k = torch.randn(80, heads, 16 * INVARIANT_KEYS, width, generator=random)
    for real in (3, 40, 100):
        padded = -(-real // INVARIANT_KEYS) * INVARIANT_KEYS
        whole = _attend(q, k[:, :, :padded], real)
        shapes = [(n, padded) for n in _COUNTS] + [(n, k.shape[2]) for n in _COUNTS[::3]]
        if not all(
            torch.equal(_attend(q[5 : 5 + n], k[5 : 5 + n, :, :keys], real), whole[5 : 5 + n]) for n, keys in shapes
        ):
            return False
    return True


def _attend(q: Tensor, k: Tensor, real: int) -> Tensor:
    """Compute attention of one query per row over its first `real` keys."""
    hidden = torch.arange(k.shape[2]) >= real
    scores = torch.matmul(q, k.mT).masked_fill_(hidden, float("-inf"))
    return torch.matmul(scores.softmax(-1), k)


def pick_device(name: str) -> torch.device:
    """Return the device of `--device`."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and job_process().world > 1:
        name = f"cuda:{job_process().local_rank}"  # each rank of a machine has a card of its own
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):  # which lists all of PyTorch's types
        raise UsageError(f"--device {name}: cannot be used here: expected cpu, cuda, cuda:1 …") from None
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise UsageError(f"--device {name}: cannot be used here: {str(error).splitlines()[0]}") from error
    return device
