"""A layer: sublayers, residuals and norms, feed-forward, embedding, dropout; its full pass equals its steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, Self, cast

import torch
from torch import Tensor, nn
from typing_extensions import TypeVar

from docnmt.functional.decoding import PackedKeys, Plans, TokenTable
from docnmt.functional.kernels import takes_kernels
from docnmt.functional.tree import SentenceTree
from docnmt.layout import DocumentLayout
from docnmt.runtime.device import INVARIANT_ROWS

_DRAWS = 1 << 16  # a draw of dropout has 16 bits


class Dropout(nn.Dropout):
    """In training each number is 0 with probability p, and otherwise divided by 1 − p (Srivastava et al. 2014).

    On a CPU a number of 64 bits from torch's generator decides about four numbers, so p is rounded to a 65,536th;
    `nn.Dropout` takes a float64 for each, and four times as long. On other devices this is `nn.Dropout`.
    """

    def forward(self, x: Tensor) -> Tensor:
        zeros = round(self.p * _DRAWS)
        if not self.training or x.device.type != "cpu" or not 0 < zeros < _DRAWS:
            return super().forward(x)
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
        stays = draws.view(torch.int16)[: x.numel()].view(x.shape) >= zeros - _DRAWS // 2
        return cast(Tensor, _Dropped.apply(x, stays, _DRAWS / (_DRAWS - zeros)))  # type: ignore[no-untyped-call]


class _Dropped(torch.autograd.Function):
    """x · stays · scale; as bytes `stays` becomes numbers six times as fast as it would from bool."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, stays: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(stays)
        ctx.scale = scale
        return (x * stays.view(torch.int8).to(x.dtype)).mul_(scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (stays,) = ctx.saved_tensors
        return (grad * stays.view(torch.int8).to(grad.dtype)).mul_(ctx.scale), None, None


# Sublayers: what they read, their caches in decoding, and their two passes.

ReadT = TypeVar("ReadT")


@dataclass(frozen=True, eq=False)
class DocumentStore:
    """The states to attend to: words (T, d), a summary of each sentence (S, d), and the tree over these, or None."""

    words: Tensor
    layout: DocumentLayout
    summaries: Tensor
    tree: SentenceTree | None


@dataclass(frozen=True, eq=False)
class Reads:
    """The tensors that the sublayers of a layer may read besides their input row.

    In a decoder `store` is the source document; in an encoder it has summaries made once of the embeddings for all
    layers (figure 1 of Trankova and Rykunov), where there are such.
    """

    layout: DocumentLayout  # of the row itself
    source: Tensor | None = None  # in a decoder, the encoder's states (Tk, d)
    source_layout: DocumentLayout | None = None
    store: DocumentStore | None = None
    written: DocumentStore | None = None  # the target side, for sublayers that read earlier target sentences

    @property
    def of_source(self) -> tuple[Tensor, DocumentLayout]:
        if self.source is None or self.source_layout is None:
            raise ValueError("this sublayer reads a source, and here is none: it belongs into a decoder")
        return self.source, self.source_layout


@dataclass(frozen=True, eq=False)
class Slots:
    """The slots that begin to be decoded, `beam` rows each."""

    sentences: Tensor  # (N,) the sentence of the memory that each slot translates
    beam: int
    earlier: Sequence[Sequence[PackedKeys]]  # of each slot, keys of translations before its sentence, if they are read
    like: Tensor  # with the type and device of the model

    @property
    def rows(self) -> int:
        return len(self.sentences) * self.beam


@dataclass(frozen=True, eq=False)
class Step:
    """The positions of the rows of a decoding step: row r reads token number `lengths[r]` of its text."""

    lengths: Tensor  # (R,)
    sentences: Tensor  # (R,) the sentence of the memory that each row translates
    table: TokenTable  # where the tokens of the rows are stored, these included
    plans: Plans = field(default_factory=dict, kw_only=True)  # made in this step, for layers that read alike


class Cache(Protocol):
    """The state of a sublayer for live rows and slots. It changes in place.

    A class that itself sets `any_memory = True` can also append slots that read another memory of source documents.
    """

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        """Keep only these rows, in that order, and these slots; None: all slots stay in place."""

    def append(self, other: Self) -> None:
        """Append the rows and slots of another cache."""


class NoCache:
    """The cache of a sublayer that keeps nothing, or nothing that depends on rows."""

    any_memory = True

    def keep(self, rows: Tensor, slots: Tensor | None) -> None: ...

    def append(self, other: Self) -> None: ...


@dataclass
class OfMemories(Generic[ReadT]):
    """What slots read of source documents, one part for each memory; mostly there is one memory."""

    any_memory: ClassVar[bool] = True
    parts: list[ReadT]
    of: Tensor  # (N,) the part that each slot reads

    @classmethod
    def all_of(cls, part: ReadT, slots: Tensor) -> OfMemories[ReadT]:
        """Slots (N,) that read the same part."""
        return cls([part], torch.zeros_like(slots))

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        if slots is not None:  # parts that no slot reads go, too
            self.of = self.of.index_select(0, slots)
            if len(self.parts) > 1:
                still_read, self.of = self.of.unique(return_inverse=True)
                self.parts = [self.parts[number] for number in still_read.tolist()]

    def append(self, other: OfMemories[ReadT]) -> None:
        self.parts += [part for part in other.parts if all(part is not mine for mine in self.parts)]
        number = {id(part): n for n, part in enumerate(self.parts)}
        renamed = torch.tensor([number[id(part)] for part in other.parts], device=self.of.device)
        self.of = torch.cat([self.of, renamed[other.of]])

    def read(self, x: Tensor, rows: Sequence[Tensor], read: Callable[..., Tensor]) -> Tensor:
        """`read(part, x, *rows)` → (R, ...), for the rows of each part: x (R, d) and `rows`, each (R,)."""
        if len(self.parts) == 1:
            return read(self.parts[0], x, *rows)
        part_of_row = self.of.repeat_interleave(len(x) // len(self.of))
        order = [(part_of_row == number).nonzero()[:, 0] for number in range(len(self.parts))]
        mixed = []
        for part, of_part in zip(self.parts, order, strict=True):
            enough = of_part.repeat(-(-INVARIANT_ROWS // len(of_part)))  # fewer rows take other kernels
            mixed.append(read(part, x[enough], *(values[enough] for values in rows))[: len(of_part)])
        return torch.cat(mixed)[torch.cat(order).argsort()]


RememberedT = TypeVar("RememberedT", default=Any)
CacheT = TypeVar("CacheT", bound=Cache, default=Any)


class Sublayer(nn.Module, ABC, Generic[RememberedT, CacheT]):
    """One part of a layer; an encoder calls `forward` only. Its layer hands back unread what it keeps of source
    documents (`RememberedT`) and of live rows and slots (`CacheT`)."""

    @abstractmethod
    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (T, d), all tokens of a packed row → (T, d)."""

    def remember(self, reads: Reads) -> RememberedT | None:
        """Return the projections of source documents for decoding, made once. `reads.layout` is the source's."""
        return None

    @abstractmethod
    def begin(self, remembered: RememberedT, slots: Slots) -> CacheT:
        """The cache of new slots, whose rows have no tokens yet."""

    @abstractmethod
    def step(self, x: Tensor, cache: CacheT, at: Step) -> Tensor:
        """One new token a row: x (R, d) → (R, d), the same numbers as the full pass gives."""


class Heads(nn.Module):
    """Attention by h heads of width d_h, all of which need not be as wide as the model; `output` joins them."""

    output: nn.Linear

    def __init__(self, heads: int, d_head: int) -> None:
        super().__init__()
        self.heads, self.d_head = heads, d_head

    def as_heads(self, projected: Tensor) -> Tensor:
        """(T, h·d_h) → (T, h, d_h)."""
        return projected.view(projected.shape[0], self.heads, self.d_head)

    def split(self, projected: Tensor, parts: int) -> tuple[Tensor, ...]:
        """(T, parts·h·d_h) → `parts` of (T, h, d_h)."""
        return projected.view(projected.shape[0], parts, self.heads, self.d_head).unbind(1)

    def join(self, mixed: Tensor) -> Tensor:
        """(T, h, d_h) → (T, d)."""
        return cast(Tensor, self.output(mixed.flatten(1)))


class OwnStart(ABC):
    """A module with its own initialisation of some weights, after `docnmt.core.models.encoder_decoder.initialise`."""

    @abstractmethod
    def reset_parameters(self) -> None:
        """Set the weights that start otherwise; the others have been initialised."""


class DocumentPart(ABC):
    """A module that a sentence model lacks and that can begin without an effect on the rest."""

    @abstractmethod
    def start_closed(self) -> None:
        """Set the weights such that it adds nothing, and that its gradients are not 0."""


# Layers.

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "swish": nn.SiLU}


class FeedForward(Sublayer[None, NoCache]):
    """W2·act(W1 x + b1) + b2."""

    def __init__(self, *, d_model: int, d_inner: int, activation: str) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation: expected one of {', '.join(ACTIVATIONS)}, got {activation!r}")
        self.inner = nn.Linear(d_model, d_inner)
        self.output = nn.Linear(d_inner, d_model)
        self.name, self.activation = activation, ACTIVATIONS[activation]()

    def forward(self, x: Tensor, reads: Reads | None = None) -> Tensor:
        if type(self.inner) is nn.Linear and takes_kernels(x):
            from docnmt.functional.kernels.pointwise import bias_activation

            inner = bias_activation(nn.functional.linear(x, self.inner.weight), self.inner.bias, self.name)
        else:
            inner = self.activation(self.inner(x))  # (T, d_inner)
        return cast(Tensor, self.output(inner))

    def begin(self, remembered: None, slots: Slots) -> NoCache:
        return NoCache()

    def step(self, x: Tensor, cache: NoCache, at: Step) -> Tensor:
        return self.forward(x)


class Residual(nn.Module):
    """x + dropout(block(norm(x))), or norm(x + dropout(block(x))) for `norm="post"` (Vaswani et al. 2017)."""

    def __init__(self, *, d_model: int, dropout: float, norm: str) -> None:
        super().__init__()
        if norm not in ("pre", "post"):
            raise ValueError(f'norm: expected "pre" or "post", got {norm!r}')
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.pre = norm == "pre"

    def add(
        self, x: Tensor, added: Tensor | None, next_norm: nn.LayerNorm | None, *, kernels: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """x + dropout(added), (T, d), and what a norm makes of it; both by one kernel, where `kernels` compute."""
        if kernels:
            from docnmt.functional.kernels.pointwise import residual_norm

            return residual_norm(x, added, next_norm, self.dropout.p if self.training else 0.0)
        if added is not None:
            x = x + (self.dropout(added) if self.training else added)
        return x, None if next_norm is None else next_norm(x)


class Layer(nn.Module):
    """Blocks in order. Each is a residual connection around one sublayer, or around the sum of several, which share its
    input, its norm and its residual connection as the heads of one attention do: extra heads are such a sublayer.

    Args:
        sublayers: by name, in the order in which their parameters are initialised.
        blocks: the order of the pass: for each block the names of its sublayers.
        residual: makes a residual connection; block ("attention", "context") has it as `attention_residual`.
        document_residual: makes those of blocks that a sentence model lacks; None: they are as the others.
    """

    def __init__(
        self, sublayers: Mapping[str, Sublayer], blocks: Sequence[tuple[str, ...]], *,
        residual: Callable[[], Residual], document_residual: Callable[[], Residual] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if not all(isinstance(block, tuple) and block for block in blocks):
            raise ValueError(f"blocks: expected tuples of names of sublayers, none of them empty, got {list(blocks)}")
        named = [name for block in blocks for name in block]
        if taken := [name for name in sublayers if name.endswith("_residual") or hasattr(Layer, name)]:
            raise ValueError(f"sublayers: a layer has something else of the name {', '.join(taken)}")
        if sorted(named) != sorted(sublayers):
            raise ValueError(f"blocks: expected each of {', '.join(sublayers)} once, got {', '.join(named)}")
        self.blocks = tuple(blocks)
        self.names = named
        for name, sublayer in sublayers.items():
            self.add_module(name, sublayer)
        for block in blocks:
            make = residual if document_residual is None or not self._of_document(block) else document_residual
            self.add_module(f"{block[0]}_residual", make())

    def sublayer(self, name: str) -> Sublayer:
        return cast(Sublayer, self._modules[name])

    def residual(self, block: tuple[str, ...]) -> Residual:
        return cast(Residual, self._modules[f"{block[0]}_residual"])

    @property
    def document_residuals(self) -> list[nn.Module]:
        """The residual connections of blocks that a sentence model lacks."""
        return [self.residual(block) for block in self.blocks if self._of_document(block)]

    def _of_document(self, block: tuple[str, ...]) -> bool:
        return all(isinstance(self._modules[name], DocumentPart) for name in block)

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (T, d), all tokens of a packed row → (T, d)."""
        parts = cast(dict[str, Sublayer], self._modules)
        return self._through(x, lambda name, h: cast(Tensor, parts[name](h, reads)))

    def step(self, x: Tensor, caches: Mapping[str, Cache], at: Step) -> Tensor:
        """One new token a row: x (R, d) → (R, d)."""
        parts = cast(dict[str, Sublayer], self._modules)
        return self._through(x, lambda name, h: parts[name].step(h, caches[name], at))

    def _through(self, x: Tensor, apply: Callable[[str, Tensor], Tensor]) -> Tensor:
        """x (T, d) → (T, d); `apply` gives what a sublayer, by its name, makes of its input (T, d)."""
        parts, kernels = cast(dict[str, Residual], self._modules), takes_kernels(x)
        normed: Tensor | None = None  # x by the next block's norm
        for block, following in zip(self.blocks, (*self.blocks[1:], None), strict=True):
            residual = parts[f"{block[0]}_residual"]
            if residual.pre and normed is None:
                x, normed = residual.add(x, None, residual.norm, kernels=kernels)
            h = cast(Tensor, normed) if residual.pre else x
            added = apply(block[0], h)
            for name in block[1:]:
                added = added + apply(name, h)
            if residual.pre:  # x = x + block(norm(x)), which is normed for the next block at once
                after = None if following is None else parts[f"{following[0]}_residual"]
                next_norm = after.norm if after is not None and after.pre else None
                x, normed = residual.add(x, added, next_norm, kernels=kernels)
            else:  # x = norm(x + block(x))
                x, normed = cast(Tensor, residual.add(x, added, residual.norm, kernels=kernels)[1]), None
        return x

    def remember(self, reads: Reads) -> dict[str, Any]:
        """For each sublayer its projections of the source documents for decoding."""
        return {name: self.sublayer(name).remember(reads) for name in self.names}

    def begin(self, remembered: Mapping[str, Any], slots: Slots) -> dict[str, Cache]:
        """For each sublayer the cache of new slots."""
        return {name: self.sublayer(name).begin(remembered[name], slots) for name in self.names}


def plain_layer(*, attention: Sublayer, feed_forward: FeedForward, residual: Callable[[], Residual]) -> Layer:
    """A layer of the Transformer's encoder (Vaswani et al. 2017): self-attention, feed-forward."""
    sublayers = {"attention": attention, "feed_forward": feed_forward}
    return Layer(sublayers, [("attention",), ("feed_forward",)], residual=residual)


# Records of attention weights, for analysis; outside `recording` nothing is stored or computed for them.

#: Attention as a function of its values alone, in which it is linear: (keys, h, d) → (queries, h, d). The weight of a
#: key, or the sum of those of some keys, is what it gives where their values are 1 and all others 0.
ReadFunction = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Note:
    """The record of one call of an attention."""

    module: nn.Module
    read: ReadFunction
    values: Tensor  # (keys, h, d)
    sentences: bool = False  # is a key a sentence, not a word?
    tree: bool = False  # were sentences selected through a tree?
    share: Tensor | None = None  # (queries,) of this attention in the output, if not all, such as a pointer's λ


_NOTES: ContextVar[list[Note] | None] = ContextVar("notes", default=None)


@contextmanager
def recording() -> Iterator[list[Note]]:
    """Yield a list to which every attention that supports it adds a note, in this context."""
    notes: list[Note] = []
    before = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(before)


def taking_notes() -> list[Note] | None:
    """Return the list of the current `recording`; None outside of one."""
    return _NOTES.get()


def attended(
    module: nn.Module, read: ReadFunction, values: Tensor, *, sentences: bool = False, tree: bool = False
) -> Tensor:
    """Return `read(values)`, and record a `Note` with the other arguments inside `recording`."""
    notes = _NOTES.get()
    if notes is not None:
        notes.append(Note(module, read, values, sentences, tree))
    return read(values)
