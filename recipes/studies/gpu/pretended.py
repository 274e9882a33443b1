"""A device that computes on the CPU and pretends to be a GPU, to count what it is told and where the host waits for it.

Inside `pretended()`, `tensor.to("pretended")` gives a tensor that says it is on that device, and what is computed of it
is there, too, forward and backward, with real values. Code therefore goes the ways that it would go on a GPU. An
operation waits if CUDA must finish before the host goes on:

- a copy from the device to the host, in any form (`.item()`, `.cpu()`, `.tolist()`, `if tensor`, a tensor as a slice);
- a copy from the host to the device, unless it is `non_blocking` and from pinned memory;
- what has a size or a result that only the values tell: `nonzero`, boolean masks as indices, `masked_select`, `unique`,
  `repeat_interleave` without `output_size`, `equal` (torch's tags `dynamic_output_shape`, `data_dependent_output`);
- `bincount` and `histc`, whose CUDA form reads the largest value, and `masked_fill` with a value on the device.

An index on the host is copied, so it waits. Any other operation on tensors of both places is an error, as it is there.

What the device is told is counted, too: kernels, copies and fills (`launches`). An operation counts once unless it only
looks at memory in another way or reserves it; some are two or three kernels in CUDA (sorting, the backward pass of a
norm or of flash attention), so this is the least. `_foreach_` operations and the fused optimizer count as the launches
into which CUDA divides their lists of tensors. Half types go to flash attention, and to the Triton kernels where
triton's interpreter is on: `docnmt` takes the way of a card.

`Recording` is a CUDA graph there: what was told to the device, told again to the same memory.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_iter, tree_map

import docnmt
from docnmt.functional import kernels as triton_kernels
from docnmt.functional import packed as varlen
from docnmt.runtime import device as graphs

NAME = "pretended"
PACKAGE = os.path.dirname(os.path.abspath(docnmt.__file__)) + os.sep
_aten = torch.ops.aten
#: Indices may be on the host.
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}
#: These wait, and no tag says so.
_WAITS = {"bincount", "histc", "_histogramdd_bin_edges"}
#: These reserve memory or describe it, without an alias in their schema.
_NO_LAUNCH = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "set_", "lift_fresh",
    "_unsafe_view",
}  # fmt: skip
_RESERVES = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
#: How one launch of CUDA's MultiTensorApply is limited: tensors, by how many lists it walks; blocks of so many numbers.
_LIST_TENSORS, _LIST_BLOCKS, _BLOCK = (110, 64, 48, 36, 30), 320, 65536


class Pretended(torch.Tensor):
    """A tensor on the pretended device; `held` has its values."""

    held: Tensor
    is_cuda = True  # what docnmt asks before it takes the way of a card

    @staticmethod
    def __new__(cls, held: Tensor) -> Pretended:
        made: Pretended = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            layout=held.layout, device=f"{NAME}:0",
        )  # fmt: skip
        made.held = held
        return made

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"Pretended({self.held!r})"

    def tolist(self) -> Any:
        """Its values, copied to the host."""
        return self.to("cpu").tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(_Active.counter, func, args, kwargs or {})


class _Active:
    """Who counts, in all threads: the backward pass has one of its own."""

    counter: HostSyncs | None = None
    recording: Recording | None = None
    casts: ClassVar[dict[int, Tensor]] = {}  # of weights by their id, as long as autocast is on


class HostSyncs(TorchDispatchMode):
    """Counts what would wait, and what is launched: an (operation, place in docnmt) for each, in order."""

    def __init__(self, *, kernels: bool) -> None:
        super().__init__()
        self.kernels = kernels  # whether attention and Triton kernels compute; otherwise what they would write is 0
        self.found: list[tuple[str, str]] = []
        self.launched: list[tuple[str, str]] = []
        self.pinned: list[Any] = []  # storages, kept so that no other gets their address

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(self, func, args, kwargs or {})

    def waits(self, what: str) -> None:
        """Note an operation."""
        self.found.append((what, _place()))

    def launches(self, what: str, times: int = 1) -> None:
        """Note kernels, copies or fills."""
        self.launched += [(what, _place())] * times

    def is_pinned(self, x: Tensor) -> bool:
        """Whether a tensor of the host is in pinned memory."""
        return any(x.untyped_storage()._cdata == storage._cdata for storage in self.pinned)

    def table(self) -> Counter[tuple[str, str]]:
        """How often each operation waits at each place."""
        return Counter(self.found)


class Recording:
    """What the device was told, with the numbers that the host gave and the memory that was named.

    As when CUDA captures: the host may not wait and may send nothing from its memory, and nothing is computed before
    `replay`, so what was changed meanwhile is put back at the end.
    """

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []
        self._made: dict[int, Any] = {}  # storages, by address, of what was computed on the way
        self._before: dict[int, tuple[Any, Any]] = {}  # and of what was there and is changed: a copy
        self.held: list[Any] = []

    def keep(self, func: Any, given: Sequence[Any]) -> None:
        """Before an operation: copy what it changes, if that was there before."""
        for argument, value in zip(func._schema.arguments, given, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for x in tree_iter(value):
                    storage = x.untyped_storage()
                    if storage.data_ptr() not in self._made and storage.data_ptr() not in self._before:
                        self._before[storage.data_ptr()] = storage, storage.clone()

    def note(self, func: Any, again: Callable[[], Any], out: Any, tensors: list[Tensor]) -> None:
        """After an operation on these tensors."""
        if any(not isinstance(x, Pretended) and x.dim() for x in tensors):
            raise RuntimeError(f"{func._schema.name} at {_place()}: memory of the host while capturing")
        aliases = [of.alias_info for of in func._schema.returns if of.alias_info is not None]
        made = _tensors(out)
        self.held.append(made)
        if aliases and all(alias.is_write for alias in aliases):
            self.calls.append(again)
            return
        given = {x.held.untyped_storage().data_ptr() for x in tensors if isinstance(x, Pretended)}
        if aliases and all(x.untyped_storage().data_ptr() in given for x in made):  # `contiguous` may also copy
            return
        for x in made:
            self._made[x.untyped_storage().data_ptr()] = x
        if func._schema.name.removeprefix("aten::") not in _NO_LAUNCH:
            self.calls.append(lambda: [x.copy_(y) for x, y in zip(made, _tensors(again()), strict=True)])

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Inside, everything is noted."""
        counter, random = _Active.counter, torch.get_rng_state()
        assert counter is not None
        waits, launches = len(counter.found), len(counter.launched)
        _Active.recording = self
        try:
            yield
            if waits != len(counter.found):
                raise RuntimeError(f"the host waits while capturing: {counter.found[waits:]}")
        finally:
            _Active.recording = None
            torch.set_rng_state(random)
            del counter.launched[launches:]
            for storage, before in self._before.values():
                storage.copy_(before)

    def replay(self) -> None:
        """All of it once more: one launch."""
        assert _Active.counter is not None
        _Active.counter.launches("graph")
        with torch.utils._python_dispatch._disable_current_modes():
            for call in self.calls:
                call()


class PretendedRecorder:
    """Records as `docnmt.runtime.device.CudaRecorder` does."""

    def __init__(self, device: torch.device) -> None:
        self.recordings: list[Recording] = []

    def run(self, body: Callable[[], None]) -> None:
        """Call it."""
        body()

    def record(self, body: Callable[[], None]) -> Callable[[], None]:
        """Return its replay."""
        self.recordings.append(Recording())
        with self.recordings[-1].going_on():
            body()
        return self.recordings[-1].replay


def _tensors(tree: object) -> list[Tensor]:
    return [x for x in tree_iter(tree) if isinstance(x, Tensor)]


def _place() -> str:
    """The innermost line of docnmt that is being run."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            return f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "torch"


def _compute(counter: HostSyncs | None, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    name = func._schema.name.removeprefix("aten::")
    tensors = _tensors((args, kwargs))
    ours = [x for x in tensors if isinstance(x, Pretended)]
    device = kwargs.get("device")
    named = device is not None and torch.device(device).type == NAME
    if not ours and not named:
        return _on_host(counter, func, args, kwargs)
    if counter is not None and (what := _wait(counter, func, name, args, kwargs, ours)):
        counter.waits(what)
    if counter is not None:
        counter.launches(name, _launches(func, name, args))
    if ours and not named and name not in _INDEXING and name not in ("copy_", "_to_copy"):
        strange = [x for x in tensors if not isinstance(x, Pretended) and x.dim()]
        if strange:
            raise RuntimeError(f"{name}: tensors of the host {[tuple(x.shape) for x in strange]} among the device's")
    plain = tree_map(lambda x: x.held if isinstance(x, Pretended) else x, kwargs)
    if device is not None:
        plain["device"] = torch.device("cpu")
    if plain.get("pin_memory"):
        plain["pin_memory"] = False
    plain.pop("non_blocking", None) if name == "_to_copy" else None
    compute = func
    if name in _FLASH:
        compute = _FLASH[name] if counter is None or counter.kernels else _nothing
    given = tree_map(lambda x: x.held if isinstance(x, Pretended) else x, args)
    if _Active.recording is not None:
        _Active.recording.keep(func, given)
    out = compute(*given, **plain)
    if _Active.recording is not None:
        _Active.recording.note(func, functools.partial(compute, *given, **plain), out, tensors)
    if name in _RESERVES and counter is not None and not counter.kernels:
        out.zero_()
    to_host = (device is not None and not named) or (name == "copy_" and not isinstance(args[0], Pretended))
    if to_host:
        return args[0] if name == "copy_" else out
    if name == "_to_copy" and not ours and out is args[0]:
        out = out.clone()
    wrapped = tree_map(lambda x: Pretended(x) if isinstance(x, Tensor) and not isinstance(x, Pretended) else x, out)
    return return_and_correct_aliasing(func, args, kwargs, wrapped) if ours else wrapped


def _launches(func: Any, name: str, args: Sequence[Any]) -> int:
    """How many kernels, copies or fills an operation is, at least."""
    aliases = [of.alias_info for of in (*func._schema.returns,) if of.alias_info is not None]
    if name in _NO_LAUNCH or any(not alias.is_write for alias in aliases):
        return 0
    lists = [x for x in args if isinstance(x, (list, tuple)) and x and isinstance(x[0], Tensor)]
    if not name.startswith(("_foreach_", "_fused_")):
        return 1
    tensors = _LIST_TENSORS[min(len(lists), len(_LIST_TENSORS)) - 1]
    launches, held, blocks = 0, 0, 0
    for x in lists[0]:
        held, blocks = held + 1, blocks + math.ceil(x.numel() / _BLOCK)
        full, blocks = divmod(blocks, _LIST_BLOCKS)
        launches += full
        if held == tensors:
            launches, held, blocks = launches + bool(blocks), 0, 0
    return launches + bool(blocks)


def _sequences(q: Tensor, k: Tensor, at: Sequence[Tensor]) -> Iterator[tuple[slice, slice, Tensor]]:
    """Of each sequence, its rows of q and k, and its scores (h, Lq, Lk)."""
    bounds = [x.tolist() for x in at]
    for *first, last in zip(*(itertools.pairwise(x) for x in bounds), strict=True):
        i, j = (slice(*span) for span in (*first, last))
        yield i, j, torch.einsum("qhd,khd->hqk", q[i].float(), k[j].float()) * q.shape[-1] ** -0.5


def _causal(scores: Tensor, causal: bool) -> Tensor:
    hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -math.inf) if causal else scores


def _flash_forward(
    q: Tensor, k: Tensor, v: Tensor, at_q: Tensor, at_k: Tensor, max_q: int, max_k: int, p: float, causal: bool,
    debug: bool, *, scale: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    """What flash attention gives, in plain loops."""
    out, lse = torch.zeros_like(q), q.new_zeros(q.shape[1::-1], dtype=torch.float32)
    for i, j, scores in _sequences(q, k, (at_q, at_k)):
        scores = _causal(scores, causal)
        out[i] = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v[j].float()).to(out.dtype)
        lse[:, i] = scores.logsumexp(-1)
    nothing = q.new_empty(0)
    return out, lse, nothing, nothing, nothing


def _flash_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, at_q: Tensor, at_k: Tensor,
    max_q: int, max_k: int, p: float, causal: bool, seed: Tensor, offset: Tensor, *, scale: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    dq, dk, dv = (torch.zeros_like(x) for x in (q, k, v))
    for i, j, scores in _sequences(q, k, (at_q, at_k)):
        weights = (_causal(scores, causal) - lse[:, i, None]).exp()  # (h, Lq, Lk)
        of_out = grad[i].float()
        dv[j] = torch.einsum("hqk,qhd->khd", weights, of_out).to(dv.dtype)
        d = torch.einsum("qhd,khd->hqk", of_out, v[j].float()) - (of_out * out[i].float()).sum(-1).T[..., None]
        d = weights * d * scale
        dq[i] = torch.einsum("hqk,khd->qhd", d, k[j].float()).to(dq.dtype)
        dk[j] = torch.einsum("hqk,qhd->khd", d, q[i].float()).to(dk.dtype)
    return dq, dk, dv


def _nothing(*given: Tensor, **_: Any) -> tuple[Tensor, ...]:
    """Zeros in the place of both."""
    if isinstance(given[5], Tensor):  # the backward call has the log-sum-exp here
        return tuple(torch.zeros_like(x) for x in given[1:4])
    q, nothing = given[0], given[0].new_empty(0)
    return torch.zeros_like(q), q.new_zeros(q.shape[1::-1], dtype=torch.float32), nothing, nothing, nothing


#: Operations that no CPU has.
_FLASH = {"_flash_attention_forward": _flash_forward, "_flash_attention_backward": _flash_backward}


def _on_host(counter: HostSyncs | None, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if not kwargs.get("pin_memory") or counter is None:
        return func(*args, **kwargs)
    out = func(*args, **{**kwargs, "pin_memory": False})
    counter.pinned.append(out.untyped_storage())
    return out


def _wait(
    counter: HostSyncs, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], ours: list[Pretended]
) -> str:
    """What the host would wait for, or nothing."""
    if name in ("_to_copy", "to", "copy_"):  # in inference mode, `to` comes as it is
        target = args[0].device if name == "copy_" else kwargs.get("device")
        source = args[1] if name == "copy_" else args[0]
        there = target is None or torch.device(target).type == NAME
        if isinstance(source, Pretended):
            return "" if there else "device to host"
        if not source.dim() and name == "copy_":
            return ""  # a number is an argument of the kernel
        non_blocking = kwargs.get("non_blocking", False) or (name == "copy_" and len(args) > 2 and args[2])
        return "" if non_blocking and counter.is_pinned(source) else "host to device"
    if not ours:
        return ""
    if name in _INDEXING:
        indices = [x for x in args[1] if x is not None]
        if any(x.dtype in (torch.bool, torch.uint8) for x in indices):
            return "boolean index"
        return "host to device" if any(not isinstance(x, Pretended) and x.dim() for x in indices) else ""
    if name.startswith("masked_fill") and isinstance(args[2], Pretended):
        return "masked_fill by a tensor"
    if name in ("_local_scalar_dense", "item", "is_nonzero"):
        return "device to host"
    if name == "repeat_interleave" and kwargs.get("output_size") is not None:
        return ""
    tags = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
    return name if name in _WAITS or tags & set(func.tags) else ""


def available() -> bool:
    """Whether this torch can be given devices from Python."""
    from torch.utils import backend_registration

    return hasattr(backend_registration, "_setup_privateuseone_for_python_backend")


@functools.lru_cache
def make_known() -> None:
    """Before the first backward pass of a process: the autograd engine counts devices once."""
    from torch.utils import backend_registration

    class Module(backend_registration._DummyBackendModule):  # type: ignore[misc,name-defined]
        """What torch asks of `torch.pretended`."""

        def get_amp_supported_dtype(self) -> list[torch.dtype]:
            return [torch.bfloat16, torch.float16]

    backend_registration._setup_privateuseone_for_python_backend(NAME, Module())  # type: ignore[attr-defined]
    _let_autocast()


#: What autocast does on a card, of what docnmt calls under it.
_LOWER = ("linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "scaled_dot_product_attention")
_PRECISE = ("layer_norm", "native_layer_norm", "softmax.int", "log_softmax.int", "logsumexp")
_libraries: list[torch.library.Library] = []  # what is registered lives as long as these


def _let_autocast() -> None:
    """Products in the lower type, with each weight cast once; norms and softmax in float32."""
    key = "AutocastPrivateUse1"
    everything, aten = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    everything.fallback(torch.library.fallthrough_kernel, key)
    _libraries.extend((everything, aten))

    def cast(x: Any, dtype: torch.dtype) -> Any:
        if not isinstance(x, Pretended) or not x.dtype.is_floating_point or x.dtype in (dtype, torch.float64):
            return x
        if not (x.is_leaf and x.requires_grad):
            return x.to(dtype)
        if id(x) not in _Active.casts:
            _Active.casts[id(x)] = x.to(dtype)
        return _Active.casts[id(x)]

    def register(name: str, dtype: torch.dtype | None) -> None:
        packet, _, overload = name.partition(".")
        op = getattr(getattr(_aten, packet), overload or "default")

        def kernel(*args: Any, **kwargs: Any) -> Any:
            to = dtype or torch.get_autocast_dtype(NAME)
            with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
                return op(*tree_map(lambda x: cast(x, to), args), **tree_map(lambda x: cast(x, to), kwargs))

        aten.impl(name, kernel, key)

    for name in _LOWER:
        register(name, None)
    for name in _PRECISE:
        register(name, torch.float32)


def interprets() -> bool:
    """Whether there is triton, and its interpreter on."""
    if find_spec("triton") is None:
        return False
    import triton

    return bool(triton.knobs.runtime.interpret)


@contextlib.contextmanager
def _interpreted(counter: HostSyncs) -> Iterator[None]:
    """Inside, triton's interpreter takes tensors of the device, and each kernel is counted."""
    if not interprets():
        yield
        return
    from triton.runtime.interpreter import GridExecutor, InterpreterBuilder

    run, dot = GridExecutor.__call__, InterpreterBuilder.create_dot

    def held(self: Any, *args: Any, **kwargs: Any) -> None:
        counter.launches(self.fn.__module__.rpartition(".")[2] + self.fn.__name__)
        if not counter.kernels:
            return
        with torch.utils._python_dispatch._disable_current_modes():
            given = tree_map(lambda x: x.held if isinstance(x, Pretended) else x, (args, kwargs))
            run(self, *given[0], **given[1])
        if _Active.recording is not None:
            _Active.recording.calls.append(functools.partial(run, self, *given[0], **given[1]))

    GridExecutor.__call__ = held
    InterpreterBuilder.create_dot = lambda self, a, b, *more: dot(self, _readable(a), _readable(b), *more)
    try:
        yield
    finally:
        GridExecutor.__call__, InterpreterBuilder.create_dot = run, dot


def _readable(factor: Any) -> Any:
    """A factor of a product in float32 if it is in bfloat16, whose bits the interpreter would multiply."""
    from triton import language
    from triton.runtime.interpreter import TensorHandle

    if factor.dtype.scalar != language.bfloat16:
        return factor
    return TensorHandle((factor.data.astype(np.uint32) << 16).view(np.float32), language.float32)


def _tensor_by(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`torch.tensor`, which cannot make tensors on a device of Python."""

    def tensor(data: object, *, device: torch.device | str | None = None, **kwargs: Any) -> Tensor:
        made = make(data, **kwargs)
        return made if device is None else made.to(device)

    return tensor


@contextlib.contextmanager
def pretended(*, kernels: bool = True) -> Iterator[HostSyncs]:
    """Inside, the device "pretended" can be used, and is counted.

    Args:
        kernels: whether flash attention and Triton kernels compute, which takes long; without, they give zeros.
    """
    make_known()
    swap = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)  # weights that are shared stay shared
    counter = _Active.counter = HostSyncs(kernels=kernels)
    has_flash, varlen._has_flash = varlen._has_flash, lambda device: True
    switched_on, triton_kernels._switched_on = triton_kernels._switched_on, interprets
    lacking, triton_kernels.lacking = triton_kernels.lacking, str  # type: ignore[assignment]
    recorder, graphs.CudaRecorder = graphs.CudaRecorder, PretendedRecorder  # type: ignore[assignment,misc]
    tensor, torch.tensor = torch.tensor, _tensor_by(torch.tensor)
    forget, torch.clear_autocast_cache = torch.clear_autocast_cache, _Active.casts.clear
    try:
        with counter, _interpreted(counter):
            yield counter
    finally:
        _Active.counter = None
        triton_kernels._switched_on, triton_kernels.lacking = switched_on, lacking
        graphs.CudaRecorder = recorder  # type: ignore[misc]
        varlen._has_flash, torch.clear_autocast_cache, torch.tensor = has_flash, forget, tensor
        torch.__future__.set_swap_module_params_on_conversion(swap)
