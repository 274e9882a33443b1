"""A layer of the encoder, of the decoder, or of a classifier: blocks of sublayers in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from torch import Tensor, nn

from docnmt.functional.kernels import takes_kernels
from docnmt.modules.dropout import Dropout
from docnmt.modules.sublayer import Cache, DocumentPart, NoCache, Reads, Slots, Step, Sublayer

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "swish": nn.SiLU}


class FeedForward(Sublayer[None, NoCache]):
    """W2·act(W1 x + b1) + b2.

    Raises:
        ValueError: no such activation.
    """

    def __init__(self, *, d_model: int, d_inner: int, activation: str) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation: expected one of {', '.join(ACTIVATIONS)}, got {activation!r}")
        self.inner = nn.Linear(d_model, d_inner)
        self.output = nn.Linear(d_inner, d_model)
        self.name, self.activation = activation, ACTIVATIONS[activation]()

    def forward(self, x: Tensor, reads: Reads | None = None) -> Tensor:
        """(T, d) → (T, d)."""
        if type(self.inner) is nn.Linear and takes_kernels(x):
            from docnmt.functional.kernels.pointwise import bias_activation

            inner = bias_activation(nn.functional.linear(x, self.inner.weight), self.inner.bias, self.name)
        else:
            inner = self.activation(self.inner(x))
        output: Tensor = self.output(inner)
        return output

    def begin(self, remembered: None, slots: Slots) -> NoCache:
        """Return an empty cache: a feed-forward block reads the current token only."""
        return NoCache()

    def step(self, x: Tensor, cache: NoCache, at: Step) -> Tensor:
        """(R, d) → (R, d)."""
        return self.forward(x)


class Residual(nn.Module):
    """x + dropout(block(norm(x))), or norm(x + dropout(block(x))) for `norm="post"` (Vaswani et al. 2017).

    Raises:
        ValueError: `norm` is neither "pre" nor "post".
    """

    def __init__(self, *, d_model: int, dropout: float, norm: str) -> None:
        super().__init__()
        if norm not in ("pre", "post"):
            raise ValueError(f'norm: expected "pre" or "post", got {norm!r}')
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.pre = norm == "pre"

    def enter(self, x: Tensor) -> Tensor:
        """Return the block's input for x (T, d)."""
        read: Tensor = self.norm(x) if self.pre else x
        return read

    def leave(self, x: Tensor, added: Tensor) -> Tensor:
        """Add the block's output `added` (T, d) to x (T, d) → (T, d)."""
        x = x + (self.dropout(added) if self.training else added)
        normed: Tensor = x if self.pre else self.norm(x)
        return normed

    def begin(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x (T, d) and the block's input for it."""
        return self._at_once(x, None, self.norm) if self.pre and takes_kernels(x) else (x, self.enter(x))

    def pass_on(self, x: Tensor, added: Tensor, following: Residual | None) -> tuple[Tensor, Tensor]:
        """Return the result of `leave` and the next block's input for it; without a next block, the result twice."""
        if takes_kernels(x, added) and self.pre:
            return self._at_once(x, added, following.norm if following is not None and following.pre else None)
        left = self._at_once(x, added, self.norm)[1] if takes_kernels(x, added) else self.leave(x, added)
        return (left, left) if following is None else following.begin(left)

    def _at_once(self, x: Tensor, added: Tensor | None, norm: nn.LayerNorm | None) -> tuple[Tensor, Tensor]:
        """x + dropout(added) and its norm, by one kernel; the sum twice where no norm is wanted."""
        from docnmt.functional.kernels.pointwise import residual_norm

        left, read = residual_norm(x, added, norm, self.dropout.p if self.training else 0.0)
        return left, left if read is None else read


class Layer(nn.Module):
    """Blocks in order. Each is a residual connection around one sublayer, or around the sum of several.

    Sublayers of one block share its input, its norm and its residual connection. Heads of one multi-head attention do
    the same and add up behind its output projection; so extra heads are a sublayer beside the attention.

    Args:
        sublayers: by name, in the order in which their parameters are initialised.
        blocks: the order of the pass: for each block the names of its sublayers.
        residual: makes a residual connection; block ("attention", "context") has it as `attention_residual`.
        document_residual: makes those of blocks that a sentence model lacks; None: they are as the others.

    Raises:
        ValueError: a sublayer is in no block, or in several.
    """

    def __init__(
        self,
        sublayers: Mapping[str, Sublayer],
        blocks: Sequence[tuple[str, ...]],
        *,
        residual: Callable[[], Residual],
        document_residual: Callable[[], Residual] | None = None,
    ) -> None:
        super().__init__()
        if not all(isinstance(block, tuple) and block for block in blocks):
            raise ValueError(f"blocks: expected tuples of names of sublayers, none of them empty, got {list(blocks)}")
        named = [name for block in blocks for name in block]
        if taken := [name for name in sublayers if name.endswith("_residual") or hasattr(Layer, name)]:
            raise ValueError(f"sublayers: a layer has something else of the name {', '.join(taken)}")
        if sorted(named) != sorted(sublayers):
            raise ValueError(f"blocks: expected each of {', '.join(sublayers)} once, got {', '.join(named)}")
        self.blocks = tuple(blocks)
        for name, sublayer in sublayers.items():
            self.add_module(name, sublayer)
        for block in blocks:
            make = residual if document_residual is None or not self._of_document(block) else document_residual
            self.add_module(f"{block[0]}_residual", make())

    def sublayer(self, name: str) -> Sublayer:
        """The sublayer of that name."""
        return cast(Sublayer, self._modules[name])

    def residual(self, block: tuple[str, ...]) -> Residual:
        """The residual connection around a block."""
        return cast(Residual, self._modules[f"{block[0]}_residual"])

    @property
    def names(self) -> list[str]:
        """The sublayers, in the order of the pass."""
        return [name for block in self.blocks for name in block]

    @property
    def document_residuals(self) -> list[nn.Module]:
        """The residual connections of blocks that a sentence model lacks."""
        return [self.residual(block) for block in self.blocks if self._of_document(block)]

    def _of_document(self, block: tuple[str, ...]) -> bool:
        return all(isinstance(self.sublayer(name), DocumentPart) for name in block)

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (T, d), all tokens of a packed row → (T, d)."""
        return self._through(x, lambda name, h: self.sublayer(name)(h, reads))

    def _through(self, x: Tensor, apply: Callable[[str, Tensor], Tensor]) -> Tensor:
        """x (T, d) → (T, d); `apply` gives what a sublayer, by its name, makes of its input (T, d)."""
        residuals = [self.residual(block) for block in self.blocks]
        x, h = residuals[0].begin(x)
        for block, residual, following in zip(self.blocks, residuals, [*residuals[1:], None], strict=True):
            added = apply(block[0], h)
            for beside in block[1:]:
                added = added + apply(beside, h)
            x, h = residual.pass_on(x, added, following)
        return x

    def remember(self, reads: Reads) -> dict[str, Any]:
        """Return, for each sublayer, its projections of the source documents for decoding."""
        return {name: self.sublayer(name).remember(reads) for name in self.names}

    def begin(self, remembered: Mapping[str, Any], slots: Slots) -> dict[str, Cache]:
        """Return, for each sublayer, the cache of new slots."""
        return {name: self.sublayer(name).begin(remembered[name], slots) for name in self.names}

    def step(self, x: Tensor, caches: Mapping[str, Cache], at: Step) -> Tensor:
        """One new token a row: x (R, d) → (R, d)."""
        return self._through(x, lambda name, h: self.sublayer(name).step(h, caches[name], at))


def plain_layer(*, attention: Sublayer, feed_forward: FeedForward, residual: Callable[[], Residual]) -> Layer:
    """A layer of the Transformer's encoder (Vaswani et al. 2017): self-attention, feed-forward."""
    sublayers = {"attention": attention, "feed_forward": feed_forward}
    return Layer(sublayers, [("attention",), ("feed_forward",)], residual=residual)
