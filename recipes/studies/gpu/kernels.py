"""Each Triton kernel beside what computes the same without it, forward and backward, in milliseconds.

    python recipes/studies/gpu/kernels.py --lengths 8 16 32 64 128 --words 200 3200 25600 51200

Attention inside sentences by their length, which decides `SHORT` of docnmt/functional/kernels; the choice of sentences
by the document's length; residual + dropout + norm and bias + activation, 512 and 2,048 wide. In bfloat16; the
choice in float32. `--device cpu` with TRITON_INTERPRET=1 tries it out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from unittest.mock import patch

import torch
from gpu import Clock, Way, both_passes, named
from torch import Tensor, nn

from docnmt.functional import kernels
from docnmt.functional.kernels.attention import choose_sentences, short_attention
from docnmt.functional.kernels.pointwise import bias_activation, residual_norm
from docnmt.functional.packed import packed_attention
from docnmt.functional.selection import Keys, Queries, SelectionPolicy, top_sentences
from docnmt.layout import DocumentLayout

HEADS, WIDTH, TOP_T = 8, 64, 4


def without(function: Callable[..., object]) -> Callable[..., object]:
    """The same call where there is no triton."""

    def run(*given: object) -> object:
        with patch.object(kernels, "_switched_on", lambda: False):
            return function(*given)

    return run


def layers(rows: int, device: torch.device, kind: torch.dtype) -> dict[str, tuple[Way, Way]]:
    """What stands between products and attention: with the kernel, without."""
    x, added = (torch.randn(rows, 512, device=device, dtype=kind, requires_grad=True) for _ in range(2))
    product = torch.randn(rows, 2048, device=device, dtype=kind, requires_grad=True)
    norm, bias = nn.LayerNorm(512, device=device, dtype=kind), torch.zeros(2048, device=device, dtype=kind)
    bias.requires_grad_()

    def joined(x: Tensor, added: Tensor) -> Tensor:
        left, read = residual_norm(x, added, norm, 0.1)
        assert read is not None
        return left + read

    def apart(x: Tensor, added: Tensor) -> Tensor:
        left = x + nn.functional.dropout(added, 0.1)
        return left + norm(left)

    return {
        f"residual, dropout, norm of {rows:,}": (both_passes(joined, [x, added]), both_passes(apart, [x, added])),
        f"bias, relu of {rows:,}": (
            both_passes(lambda p, b: bias_activation(p, b, "relu"), [product, bias]),
            both_passes(lambda p, b: torch.relu(p + b), [product, bias]),
        ),
    }


def sentences(length: int, rows: int, device: torch.device, kind: torch.dtype) -> tuple[Way, Way]:
    """Attention inside sentences of so many words."""
    spans = DocumentLayout.from_lengths([[length] * max(1, rows // length)]).to(device).sentences
    q, k, v = (
        torch.randn(spans.num_tokens, HEADS, WIDTH, device=device, dtype=kind, requires_grad=True) for _ in range(3)
    )
    flash = without(lambda *x: packed_attention(*x, spans, spans, causal=True))
    return (
        both_passes(lambda *x: short_attention(*x, spans, spans, causal=True), [q, k, v]),
        both_passes(flash, [q, k, v]),  # type: ignore[arg-type]
    )


def choice(words: int, device: torch.device) -> tuple[Way, Way]:
    """The best four of a document's sentences of 25 words, for every word."""
    layout = DocumentLayout.from_lengths([[25] * max(1, words // 25)]).to(device)
    q = torch.randn(layout.num_tokens, HEADS, WIDTH, device=device)
    keys = torch.randn(layout.num_sentences, HEADS, WIDTH, device=device)
    asked, read = Queries(q, q, layout), Keys(q, q, keys, layout)
    t = min(TOP_T, layout.num_sentences)
    return (
        lambda: choose_sentences(q, keys, layout, layout, t, earlier=False),
        lambda: without(lambda: top_sentences(asked, read, SelectionPolicy(t)))(),
    )


def main() -> None:
    """Parse and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=25000, help="words of a batch [25000]")
    parser.add_argument("--lengths", type=int, nargs="+", default=[8, 16, 32, 64, 128])
    parser.add_argument("--words", type=int, nargs="+", default=[200, 3200, 25600, 51200])
    options = parser.parse_args()
    device = torch.device(options.device)
    kind, clock = (torch.bfloat16 if device.type == "cuda" else torch.float32), Clock(device)
    print(f"### Kernels, ms: {named(device)}\n\n| | with | without | |\n| --- | ---: | ---: | ---: |")
    pairs: list[tuple[str, Callable[[], tuple[Way, Way]]]] = [
        (f"sentences of {n}", lambda n=n: sentences(n, options.rows, device, kind)) for n in options.lengths
    ]
    pairs += [(f"choice in {n:,} words", lambda n=n: choice(n, device)) for n in options.words]
    pairs += [(name, lambda ways=ways: ways) for name, ways in layers(options.rows, device, kind).items()]
    for name, make in pairs:
        ours, theirs = clock.in_turns(dict(zip(("with", "without"), make(), strict=True)), options.repeats).values()
        print(f"| {name} | {1e3 * ours:,.3f} | {1e3 * theirs:,.3f} | {theirs / ours:.2f}× |", flush=True)


if __name__ == "__main__":
    main()
